import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type Bench, installed } from './bench.ts'
import { freePort, missing } from './databases.ts'
import type { MinuteReading } from './minutes.ts'
import type { Server } from './servers.ts'

/** Questions about readings; `TimeSeries.paths` describes them. */
export type Question = 'hourly' | 'daily' | 'day' | 'newest'

/** The parameters of a question. */
export interface Asked {
  readonly sensor: string
  /** The range of times, in milliseconds since 1970, without its end. */
  readonly fromMs: number
  readonly toMs: number
  /** The first time of the last day. */
  readonly dayMs: number
  /** How often something was asked before. */
  readonly again: number
}

/** A server that stores readings. */
export interface TimeSeries {
  readonly name: string
  /** The state of a batch when it is acknowledged. */
  readonly promise: string
  /** All of its files. */
  readonly directory: string
  /** The path to which a batch is sent. */
  readonly batchPath: string
  readonly contentType: string
  batchBody(readings: readonly MinuteReading[]): string
  /**
   * The paths of the questions that it can answer: the hourly average of the temperature of a sensor, the daily average and
   * maximum of each sensor, the readings of a sensor in the last day, the newest reading of each sensor.
   */
  paths(asked: Asked): Partial<Record<Question, string>>
  /** The number of rows of an answer. */
  rows(text: string): number
  /** Starts it on its files. */
  start(): Promise<Server>
}

/** The settings of the collection: a natural key and one index. */
export const COLLECTION = { Time: 'time', Key: ['sensor', 'time'], Indexes: ['sensor,time,data.temperature'] }

/** Each request has another page size, so that no response comes from the cache. */
const PAGE = 2000
const PAGES = 5000

/** @param main the program of another build */
export async function recollectSeries({ fixtures, servers }: Bench, name: string, main?: string): Promise<TimeSeries> {
  const directory = await fixtures.directory()
  const flags = ['--Collections', JSON.stringify({ readings: COLLECTION })]
  return {
    name,
    promise: 'synced',
    directory,
    batchPath: '/api/readings',
    contentType: 'application/json',
    batchBody: (readings) => JSON.stringify(readings),
    paths({ sensor, fromMs, toMs, dayMs, again }) {
      const page = `pageSize=${PAGE + (again % PAGES)}`
      const range = `time_gte=${fromMs}&time_lt=${toMs}`
      return {
        hourly: `/api/readings?aggregate=avg(data.temperature)&window=1h&sensor=${sensor}&${range}&${page}`,
        daily: `/api/readings?aggregate=avg(data.temperature),max(data.temperature)&window=1d&groupBy=sensor&${range}&${page}`,
        day: `/api/readings?sensor=${sensor}&time_gte=${dayMs}&${page}`,
        newest: `/api/readings?newestBy=sensor&${page}`,
      }
    },
    rows: (text) => (JSON.parse(text) as readonly unknown[]).length,
    start: () =>
      servers.recollect(
        { file: join(directory, 'db.json'), journal: join(directory, 'journal'), flags },
        { settle: false, ...(main !== undefined && { main }) },
      ),
  }
}

/** Both take the line protocol of InfluxDB. */
function linesOf(readings: readonly MinuteReading[]): string {
  const lines = readings.map(({ sensor, time, data: { temperature, humidity, pressure, battery, movement } }) => {
    const values = `temperature=${temperature},humidity=${humidity},pressure=${pressure},battery=${battery}i,movement=${movement}i`
    return `readings,sensor=${sensor} ${values} ${Date.parse(time)}`
  })
  return lines.join('\n')
}

/** After so long without writes InfluxDB writes its cache as compressed files, and merges them. */
const COLD = '30s'

/** InfluxDB 1.x. Undefined, with a word why, where it is not installed. */
export async function influxSeries(bench: Bench): Promise<TimeSeries | undefined> {
  const command = installed('/usr/bin/influxd', '/usr/local/bin/influxd')
  if (!command) return missing(bench, 'InfluxDB is not installed (influxd, Debian: influxdb)')
  const directory = await bench.fixtures.directory()
  const address = `127.0.0.1:${await freePort()}`
  const env = {
    INFLUXDB_META_DIR: join(directory, 'meta'),
    INFLUXDB_DATA_DIR: join(directory, 'data'),
    INFLUXDB_DATA_WAL_DIR: join(directory, 'wal'),
    INFLUXDB_DATA_WAL_FSYNC_DELAY: '0s',
    INFLUXDB_DATA_CACHE_SNAPSHOT_WRITE_COLD_DURATION: COLD,
    INFLUXDB_DATA_COMPACT_FULL_WRITE_COLD_DURATION: COLD,
    INFLUXDB_DATA_QUERY_LOG_ENABLED: 'false',
    INFLUXDB_HTTP_BIND_ADDRESS: address,
    INFLUXDB_HTTP_LOG_ENABLED: 'false',
    INFLUXDB_BIND_ADDRESS: `127.0.0.1:${await freePort()}`,
    INFLUXDB_REPORTING_ENABLED: 'false',
    INFLUXDB_REPORTING_DISABLED: 'true',
    INFLUXDB_MONITOR_STORE_ENABLED: 'false',
  }
  const path = (q: string) => `/query?${new URLSearchParams({ db: 'bench', epoch: 'ms', q })}`
  return {
    name: 'InfluxDB',
    promise: 'synced (wal-fsync-delay is 0s, the default)',
    directory,
    batchPath: '/write?db=bench&precision=ms',
    contentType: 'text/plain',
    batchBody: linesOf,
    paths({ sensor, fromMs, toMs, dayMs }) {
      const range = `time >= ${fromMs}ms AND time < ${toMs}ms`
      return {
        hourly: path(
          `SELECT mean(temperature) FROM readings WHERE sensor = '${sensor}' AND ${range} GROUP BY time(1h)`,
        ),
        daily: path(
          `SELECT mean(temperature), max(temperature) FROM readings WHERE ${range} GROUP BY time(1d), sensor`,
        ),
        day: path(`SELECT * FROM readings WHERE sensor = '${sensor}' AND time >= ${dayMs}ms`),
        newest: path('SELECT last(*) FROM readings GROUP BY sensor'),
      }
    },
    rows(text) {
      const { results } = JSON.parse(text) as {
        readonly results: readonly { readonly series?: readonly { readonly values: readonly unknown[] }[] }[]
      }
      return (results[0]?.series ?? []).reduce((sum, { values }) => sum + values.length, 0)
    },
    async start() {
      const args = ['run', '-config', '/dev/null']
      const server = await bench.servers.start({
        command,
        args,
        env,
        ready: /Listening on HTTP/,
        url: `http://${address}`,
      })
      await fetch(`${server.url}/query?${new URLSearchParams({ q: 'CREATE DATABASE bench' })}`, { method: 'POST' })
      return server
    },
  }
}

/** Undefined, with a word why, where it is not installed. */
export async function victoriaSeries(bench: Bench): Promise<TimeSeries | undefined> {
  const command = installed('/usr/bin/victoria-metrics', '/usr/local/bin/victoria-metrics')
  if (!command) return missing(bench, 'VictoriaMetrics is not installed (victoria-metrics)')
  const directory = await bench.fixtures.directory()
  await mkdir(directory, { recursive: true })
  const address = `127.0.0.1:${await freePort()}`
  const path = (name: string, parameters: Readonly<Record<string, string>>) =>
    `/api/v1/${name}?${new URLSearchParams({ nocache: '1', ...parameters })}`
  const seconds = (ms: number) => String(ms / 1000)
  return {
    name: 'VictoriaMetrics',
    // rawRowsFlushInterval and inmemoryPartsFlushInterval of its lib/storage/partition.go.
    promise: 'in memory, found a second later, and on the disk up to ten seconds later',
    directory,
    batchPath: '/write?precision=ms',
    contentType: 'text/plain',
    batchBody: linesOf,
    paths({ sensor, fromMs, toMs }) {
      // The window of a point ends at its time.
      const range = (step: string, stepMs: number) => ({
        step,
        start: seconds(fromMs + stepMs),
        end: seconds(toMs),
      })
      return {
        hourly: path('query_range', {
          query: `avg_over_time(readings_temperature{sensor="${sensor}"}[1h])`,
          ...range('1h', 3_600_000),
        }),
        daily: path('query_range', {
          query: 'aggr_over_time(("avg_over_time", "max_over_time"), readings_temperature[1d])',
          ...range('1d', 86_400_000),
        }),
        day: path('query', { query: `{__name__=~"readings_.*",sensor="${sensor}"}[1d]`, time: seconds(toMs) }),
      }
    },
    rows(text) {
      const { data } = JSON.parse(text) as {
        readonly data: {
          readonly result: readonly {
            readonly metric: { readonly sensor: string }
            readonly values: readonly (readonly [number, string])[]
          }[]
        }
      }
      // Each value, and each aggregate, has a list of its own.
      const found = data.result.flatMap(({ metric, values }) => values.map(([time]) => `${metric.sensor} ${time}`))
      return new Set(found).size
    },
    start: () =>
      bench.servers.start({
        command,
        args: [`-storageDataPath=${directory}`, `-httpListenAddr=${address}`, '-retentionPeriod=100y'],
        ready: /started VictoriaMetrics in/,
        url: `http://${address}`,
      }),
  }
}
