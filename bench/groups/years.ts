import { join } from 'node:path'
import { answered, ask, timed, told } from '../harness/ask.ts'
import { type Bench, type Group, interleaved, rateOf } from '../harness/bench.ts'
import { bytesOf, still } from '../harness/disk.ts'
import { type Goal, limit, type Row, type Series, times } from '../harness/figures.ts'
import { DAY_MS, FIRST_MS, minuteReadings, sensorOf } from '../harness/minutes.ts'
import { anonymousBytes } from '../harness/process-figures.ts'
import { randomFrom, SEED } from '../harness/readings.ts'
import { type Server, settled, until } from '../harness/servers.ts'
import {
  type Asked,
  influxSeries,
  type Question,
  recollectSeries,
  type TimeSeries,
  victoriaSeries,
} from '../harness/time-series.ts'
import { itemsOf } from './get.ts'
import { halfYear } from './half-year.ts'

const MIB = 2 ** 20
const OURS = 'Recollect'
const SENSORS = 20
const DAY_MINUTES = 1440
/** Readings that are compared with other servers. */
const MOST_READINGS = 1_440_000
const MOST_ASKED_DAYS = 30
const BATCH = 1000
/** Clients that send batches, each one after the other. */
const SENDERS = 4
/** Readings that were sent to VictoriaMetrics are found after a second. */
const VISIBLE_MS = 10_000
/** Requests of a question in a round. */
const TIMED = 10
const STORE_BYTES = 150

export const years: Group = {
  name: 'years',
  about: 'readings of months beside InfluxDB and VictoriaMetrics; half a year of them, kept for 30 days',
  async measure(bench) {
    return [...(await beside(bench)), ...(await halfYear(bench))]
  },
}

interface Contestant {
  readonly series: TimeSeries
  server: Server
}

interface Contestants {
  /** This build, and another one if it was asked for. */
  readonly recollect: readonly Contestant[]
  readonly all: readonly Contestant[]
}

/** The same readings in all servers. */
async function beside(bench: Bench): Promise<readonly Row[]> {
  const { recollect, all } = await contestantsOf(bench)
  const days = Math.max(1, Math.floor(Math.min(bench.items, MOST_READINGS) / (SENSORS * DAY_MINUTES)))
  const count = days * DAY_MINUTES * SENSORS
  const among = `among ${count.toLocaleString('en-US')} readings`
  const sent = await interleaved(
    bench,
    'readings/s',
    measuresOf(all, (one) => sending(bench, one, days)),
  )
  const questions = await questionsOf(bench, all, days)
  const gets = await getsOf(bench, recollect, count)
  const memory = seriesOf(all, 'MiB', ({ server }) => anonymousBytes(server) / MIB)
  const disk = await diskOf(bench, { recollect, all }, count)
  const restarts: Record<string, Series> = {}
  for (const one of all)
    restarts[one.series.name] = { name: one.series.name, unit: 's', values: [await restart(one, days)] }
  for (const { server } of all) await server.stop()
  const promises = all.map(({ series: { name, promise } }) => `${name}: ${promise}`).join('; ')
  const other = bench.against === undefined ? undefined : sent[bench.against]
  const otherGets = bench.against === undefined ? undefined : gets[bench.against]
  return [
    {
      ...rowOf(`readings in batches of ${BATCH.toLocaleString('en-US')}, natural key and one index`, sent, 'more'),
      goals: other ? [times(other, 1.6)] : [],
      note: `${SENDERS} clients. An acknowledged batch is: ${promises}.`,
    },
    ...disk,
    ...questions.map(({ work, measured, goals }) => ({ ...rowOf(`${work}, ${among}`, measured, 'less'), goals })),
    { ...rowOf(`GET of a random old item, ${among}`, gets, 'more'), goals: otherGets ? [times(otherGets, 0.7)] : [] },
    rowOf(`anonymous memory after that, ${among}`, memory, 'less'),
    {
      ...rowOf(`from the restart after kill -9 to the first answer, ${among}`, restarts, 'less'),
      note: 'Killed when all background work was done.',
    },
  ]
}

async function contestantsOf(bench: Bench): Promise<Contestants> {
  const { against } = bench
  const started = (all: readonly (TimeSeries | undefined)[]) =>
    Promise.all(all.flatMap((series) => series ?? []).map(async (series) => ({ series, server: await series.start() })))
  const recollect = await started([
    await recollectSeries(bench, OURS),
    against === undefined ? undefined : await recollectSeries(bench, against, join(against, 'dist', 'main.js')),
  ])
  const others = await started([await influxSeries(bench), await victoriaSeries(bench)])
  return { recollect, all: [...recollect, ...others] }
}

function measuresOf(
  all: readonly Contestant[],
  measure: (one: Contestant) => () => Promise<number>,
): Record<string, () => Promise<number>> {
  return Object.fromEntries(all.map((one) => [one.series.name, measure(one)]))
}

function seriesOf(
  all: readonly Contestant[],
  unit: string,
  figure: (one: Contestant) => number,
): Record<string, Series> {
  return Object.fromEntries(all.map((one) => [one.series.name, { name: one.series.name, unit, values: [figure(one)] }]))
}

function rowOf(work: string, measured: Readonly<Record<string, Series>>, better: Row['better']): Row {
  const { [OURS]: ours, ...others } = measured
  return { work, ours: ours as Series, better, goals: [], others: Object.values(others) }
}

/** Each round sends its part of the readings. */
function sending(bench: Bench, { series, server }: Contestant, days: number): () => Promise<number> {
  const share = Math.ceil((days * DAY_MINUTES) / bench.rounds)
  const atOnce = BATCH / SENSORS
  let minute = 0
  return async () => {
    const end = Math.min(days * DAY_MINUTES, minute + share)
    const count = (end - minute) * SENSORS
    const all: string[] = []
    for (; minute < end; minute += atOnce) {
      const minutes = Array.from({ length: Math.min(atOnce, end - minute) }, (_, index) => minute + index)
      all.push(series.batchBody(minuteReadings(minutes, SENSORS)))
    }
    minute = end
    const headers = { 'Content-Type': series.contentType }
    const began = performance.now()
    const sender = async (): Promise<void> => {
      for (let body = all.shift(); body !== undefined; body = all.shift())
        await told(server.url + series.batchPath, { method: 'POST', headers, body })
    }
    await Promise.all(Array.from({ length: SENDERS }, sender))
    return count / ((performance.now() - began) / 1000)
  }
}

interface Answered {
  readonly work: string
  readonly measured: Readonly<Record<string, Series>>
  readonly goals: readonly Goal[]
}

/** The rows of each answer are counted, so that all answer the same. */
async function questionsOf(bench: Bench, all: readonly Contestant[], days: number): Promise<readonly Answered[]> {
  const askedDays = Math.min(MOST_ASKED_DAYS, days)
  const toMs = FIRST_MS + days * DAY_MS
  const next = randomFrom(SEED)
  let again = 0
  const asked = (): Asked => ({
    sensor: sensorOf(Math.floor(next() * SENSORS)),
    fromMs: toMs - askedDays * DAY_MS,
    toMs,
    dayMs: toMs - DAY_MS,
    again: again++,
  })
  const works: readonly (readonly [Question, string, number, readonly Goal[]])[] = [
    ['hourly', `hourly average of a sensor over ${askedDays} days`, askedDays * 24, []],
    [
      'daily',
      `daily average and maximum of each of ${SENSORS} sensors over ${askedDays} days`,
      askedDays * SENSORS,
      [],
    ],
    ['day', "a sensor's last day", DAY_MINUTES, [limit('≤ 8 ms', 8)]],
    ['newest', `newest of each of ${SENSORS} sensors`, SENSORS, []],
  ]
  const answers: Answered[] = []
  for (const [question, work, rows, goals] of works) {
    const able = all.filter(({ series }) => series.paths(asked())[question] !== undefined)
    for (const { series, server } of able) {
      const rowsOf = async () => series.rows(await (await ask(server.url + series.paths(asked())[question])).text())
      await until(VISIBLE_MS, `${series.name}: ${work} has not ${rows} rows`, async () => (await rowsOf()) === rows)
    }
    bench.say(work)
    const ms = ({ series, server }: Contestant) => timed(TIMED, () => server.url + series.paths(asked())[question])
    answers.push({
      work: `${work}, ${rows} rows`,
      measured: await interleaved(bench, 'ms', measuresOf(able, ms)),
      goals,
    })
  }
  return answers
}

async function getsOf(bench: Bench, recollect: readonly Contestant[], count: number): Promise<Record<string, Series>> {
  const measures: Record<string, () => Promise<number>> = {}
  for (const { series, server } of recollect)
    measures[series.name] = await rateOf(bench, server.url, itemsOf(Math.ceil(count / 2)))
  return interleaved(bench, 'req/s', measures)
}

/** At most once, as two crashes in the first minute of a process would count against its store. */
async function restart(one: Contestant, days: number): Promise<number> {
  const { series } = one
  const toMs = FIRST_MS + days * DAY_MS
  const { day } = series.paths({ sensor: sensorOf(0), fromMs: FIRST_MS, toMs, dayMs: toMs - DAY_MS, again: 0 })
  await one.server.kill()
  const began = performance.now()
  one.server = await series.start()
  await answered(one.server.url + day)
  const seconds = (performance.now() - began) / 1000
  const rows = series.rows(await (await ask(one.server.url + day)).text())
  if (rows !== DAY_MINUTES) throw new Error(`${series.name} has ${rows} rows of the last day after kill -9.`)
  return seconds
}

/** After the background work. */
async function diskOf(bench: Bench, { recollect, all }: Contestants, count: number): Promise<readonly Row[]> {
  for (const { server } of recollect) await settled(server)
  bench.say('waiting until nobody compresses or merges files')
  await still(all.map(({ series }) => series.directory))
  const parts = (of: readonly Contestant[], bytes: (directory: string) => number) =>
    seriesOf(of, 'bytes', ({ series }) => bytes(series.directory) / count)
  const store = (directory: string) => bytesOf(join(directory, 'journal', 'store'))
  const journal = (directory: string) => bytesOf(join(directory, 'journal')) - store(directory)
  const work = (part: string) => `disk space of a reading: ${part}`
  return [
    { ...rowOf(work('store'), parts(recollect, store), 'less'), goals: [limit(`≤ ${STORE_BYTES} bytes`, STORE_BYTES)] },
    rowOf(work('journal'), parts(recollect, journal), 'less'),
    rowOf(
      work('data file'),
      parts(recollect, (directory) => bytesOf(join(directory, 'db.json'))),
      'less',
    ),
    rowOf(work('all files'), parts(all, bytesOf), 'less'),
  ]
}
