import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { answered, told } from '../harness/ask.ts'
import { type Bench, type Group, interleaved, rateOf, repeated } from '../harness/bench.ts'
import { boundedRow, type Row, type Series, times } from '../harness/figures.ts'
import type { Sent } from '../harness/load.ts'
import { probe } from '../harness/probe.ts'
import { anonymousBytes, writtenBytes } from '../harness/process-figures.ts'
import { LAST_DAY, macOf, randomFrom, reportingAllMonth, SEED, SENSORS } from '../harness/readings.ts'
import { built, type Server } from '../harness/servers.ts'
import { itemsOf } from './get.ts'
import { posts } from './writes.ts'

const MIB = 2 ** 20
/** The many readings are so many times as many as the few. */
const TIMES = 10
const PAGE = 20
/** Different queries of a load: more than the cache of responses holds. */
const ASKED = 20_000
/** Each sensor has a reading a minute in the last day. */
const PAGES_OF_DAY = 1440 / PAGE
/** GETs, and then POSTs, before the memory is measured. */
const REQUESTS = 100_000
/** Events between now and the past that is asked for. */
const CHANGED = 1000
/** Queries of a round that are timed one after the other. */
const TIMED = 20
/** Seconds of POSTs at one a second, and of as long without any. */
const QUIET_SECONDS = 30
/** No background work on the journal, which nobody compressed, and no data file. */
const QUIET = ['--DataFile.Write', 'never', '--Journal.Compress', 'off']
/** A process that is killed in its first minute counts as a crash, and the store is not used after two in a row. */
const FIRST_MINUTE_SECONDS = 61
const HISTORY = { items: 10_000, times: 100 }
const INDEXES = ['timestamp', 'mac,timestamp']
/** A field with a different value in each reading; its index is built by the second query. */
const UNIQUE_FIELD = 'data.measurement_sequence_number'
const LATEST = `timestamp_gt=${LAST_DAY}&sort=-timestamp&pageSize=${PAGE}`

export const growth: Group = {
  name: 'growth',
  about: 'ten times as many readings: rates, the past, restarts, memory, and what a write costs the disk',
  async measure(bench) {
    const few = await started(bench, bench.items)
    const many = await started(bench, TIMES * bench.items)
    const rates = await ratesOf(bench, few, many)
    const past = await pastOf(bench, many)
    const memory = [await memoryOf(bench, few), await memoryOf(bench, many)]
    const disk = await diskOf(bench, few)
    await few.server.stop()
    const restarts = await restartsOf(bench, many)
    return [...rates, ...past, ...(await historyOf(bench)), ...memory, disk, ...restarts]
  },
}

interface Started {
  readonly server: Server
  readonly count: number
  /** Starts another process on the same files. */
  readonly again: () => Promise<Server>
}

async function started({ fixtures, servers }: Bench, count: number): Promise<Started> {
  const file = join(await fixtures.directory(), 'db.json')
  const journal = await fixtures.sensorJournal(count)
  // Another group has built the store with indexes of its own.
  await rm(join(journal, 'store'), { recursive: true, force: true })
  const collections = JSON.stringify({ readings: { Time: 'timestamp', Indexes: INDEXES } })
  const flags = ['--Collections', collections, ...QUIET]
  const again = () => servers.recollect({ file, journal, flags }, { isWatched: true, settle: false })
  const server = await again()
  await built(server, INDEXES)
  return { server, count, again }
}

/** Paths made of random numbers, the same for each server. */
function picked(pathOf: (random: (below: number) => number) => string): readonly Sent[] {
  const next = randomFrom(SEED)
  return Array.from({ length: ASKED }, () => ({ path: pathOf((below) => Math.floor(next() * below)) }))
}

const lastDayOf = (sensor: number, page: number) => `/api/readings?mac=${macOf(sensor)}&${LATEST}&page=${page}`

const WORKS: Readonly<Record<string, (count: number) => readonly Sent[]>> = {
  'GET item': itemsOf,
  'page of 20, any': (count) => picked((random) => `/api/readings?page=${random(count / PAGE) + 1}&pageSize=${PAGE}`),
  'equality filter, one hit': (count) => picked((random) => `/api/readings?${UNIQUE_FIELD}=${random(count)}`),
  'timestamp_gt, sort=-timestamp, page of 20, any': () =>
    picked((random) => `/api/readings?${LATEST}&page=${random(SENSORS * PAGES_OF_DAY) + 1}`),
  'the last day of a sensor, newest first, page of 20': () =>
    picked((random) => lastDayOf(random(SENSORS), random(PAGES_OF_DAY) + 1)),
}

async function ratesOf(bench: Bench, few: Started, many: Started): Promise<readonly Row[]> {
  const contestants: Record<string, () => Promise<number>> = {}
  for (const { server, count } of [few, many]) {
    for (let value = 0; value < 2; value++) await told(`${server.url}/api/readings?${UNIQUE_FIELD}=${value}`)
    await built(server, [...INDEXES, UNIQUE_FIELD])
    for (const [work, requests] of Object.entries(WORKS)) {
      contestants[nameOf(work, count)] = await rateOf(bench, server.url, requests(count))
    }
  }
  const measured = await interleaved(bench, 'req/s', contestants)
  return Object.keys(WORKS).map((work): Row => {
    const name = `the same among ${few.count.toLocaleString('en-US')}`
    const base = { ...(measured[nameOf(work, few.count)] as Series), name }
    const ours = measured[nameOf(work, many.count)] as Series
    return { work: nameOf(work, many.count), ours, better: 'more', goals: [times(base, 0.8)], others: [base] }
  })
}

function nameOf(work: string, count: number): string {
  return `${work}, among ${count.toLocaleString('en-US')}`
}

/** The same filtered, sorted pages of now and of the past. */
async function pastOf(bench: Bench, { server, count }: Started): Promise<readonly Row[]> {
  const now = await positionOf(server)
  const next = randomFrom(SEED)
  const random = (below: number) => Math.floor(next() * below)
  const sensors = reportingAllMonth(count)
  const pageOf = (more = '') =>
    `/api/readings?mac=${macOf(random(sensors))}&sort=-timestamp&pageSize=${PAGE}&page=${random(50) + 1}${more}`
  const msOf = (pathOf: () => string) => async () => {
    const paths = Array.from({ length: TIMED }, pathOf)
    const began = performance.now()
    for (const path of paths) await told(server.url + path)
    return (performance.now() - began) / TIMED
  }
  const appended = await interleaved(bench, 'ms', {
    now: msOf(() => pageOf()),
    'any position': msOf(() => pageOf(`&asOf=${Math.ceil(now / 2) + random(now / 2)}`)),
  })
  const [body = ''] = posts('').map((sent) => sent.body)
  for (let change = 0; change < CHANGED; change++) {
    const headers = { 'Content-Type': 'application/json' }
    await told(`${server.url}/api/readings/${random(count)}`, { method: 'PUT', headers, body: body as string })
  }
  const changed = await interleaved(bench, 'ms', {
    now: msOf(() => pageOf()),
    past: msOf(() => pageOf(`&asOf=${now}`)),
  })
  const row = (work: string, ours: Series | undefined, base: Series | undefined): Row => {
    const present = { ...(base as Series), name: 'the same of now' }
    const goals = [times(present, 3, 'at most')]
    return { work: nameOf(work, count), ours: ours as Series, better: 'less', goals, others: [present] }
  }
  return [
    row(
      'a filtered, sorted page asOf any position of a collection that is only appended to',
      appended['any position'],
      appended.now,
    ),
    row(`a filtered, sorted page asOf ${CHANGED.toLocaleString('en-US')} positions ago`, changed.past, changed.now),
  ]
}

async function positionOf({ url }: Server): Promise<number> {
  return Number((await told(`${url}/api`)).get('journal-position'))
}

/** Filtered, sorted pages of a collection whose items have many versions, each as of another position. */
async function historyOf(bench: Bench): Promise<readonly Row[]> {
  const { fixtures, servers } = bench
  const journal = await fixtures.changedJournal(HISTORY.items, HISTORY.times)
  const file = join(await fixtures.directory(), 'db.json')
  const server = await servers.recollect({ file, journal, flags: QUIET }, { settle: false })
  await built(server, [])
  const position = await positionOf(server)
  const next = randomFrom(SEED)
  const waits: number[] = []
  const { first } = await interleaved(bench, 'ms', {
    first: async () => {
      const asking = probe(server.url, itemsOf(HISTORY.items))
      const at = HISTORY.items + 1 + Math.floor(next() * (position - HISTORY.items))
      const began = performance.now()
      await told(`${server.url}/api/readings?data.temperature_gt=20&sort=-timestamp&pageSize=${PAGE}&asOf=${at}`)
      const ms = performance.now() - began
      waits.push((await asking.stop()).longestMs)
      return ms
    },
  })
  await server.stop()
  const { items, times: versions } = HISTORY
  const among = `${items.toLocaleString('en-US')} items that were changed ${versions} times each`
  return [
    boundedRow(`the first filtered, sorted page asOf any position, ${among}`, first as Series, 500),
    boundedRow('longest wait for an item meanwhile', { unit: 'ms', values: waits }, 30),
  ]
}

/** After GETs and POSTs, and the queries before. */
async function memoryOf(bench: Bench, { server, count }: Started): Promise<Row> {
  const idle = anonymousBytes(server)
  for (const requests of [itemsOf(count), posts('/api/readings')]) {
    const loaded = await repeated(bench, server.url, requests)
    for (let sent = 0; sent < REQUESTS; ) sent += (await loaded()).rate * bench.seconds
  }
  const work = `anonymous memory after ${REQUESTS.toLocaleString('en-US')} GETs and POSTs, ${count.toLocaleString('en-US')} readings, three indexes`
  const note = `Before them, after the queries: ${Math.round(idle / MIB)} MiB.`
  const values = [anonymousBytes(server) / MIB]
  return boundedRow(work, { unit: 'MiB', values }, count > bench.items ? 300 : 250, note)
}

/** The bytes that journal and store write to the disk for a POST. */
async function diskOf(bench: Bench, { server, count }: Started): Promise<Row> {
  const [body = ''] = posts('').map((sent) => sent.body)
  const headers = { 'Content-Type': 'application/json' }
  const written = async (post: () => Promise<unknown>): Promise<number> => {
    const before = writtenBytes()
    for (let second = 0; second < QUIET_SECONDS; second++) {
      await post()
      await sleep(1000)
    }
    return writtenBytes() - before
  }
  await quiet()
  const values: number[] = []
  for (let round = 1; round <= bench.rounds; round++) {
    const idle = await written(async () => {})
    const busy = await written(() =>
      told(`${server.url}/api/readings`, { method: 'POST', headers, body: body as string }),
    )
    values.push((busy - idle) / QUIET_SECONDS / 1024)
    bench.say(`round ${round} of ${bench.rounds}: ${values.at(-1)?.toFixed(0)} KiB a POST`)
  }
  const work = `written to the device for a POST, at one a second, less idle, ${count.toLocaleString('en-US')} readings, three indexes`
  return boundedRow(work, { unit: 'KiB', values }, 128)
}

/** Waits until what was written before is on the disk. */
async function quiet(): Promise<void> {
  for (let before = Number.NEGATIVE_INFINITY; writtenBytes() - before > MIB; ) {
    before = writtenBytes()
    await sleep(10_000)
  }
}

/** Killed and started again: the first response of an item, and the first query. */
async function restartsOf(bench: Bench, { server, count, again }: Started): Promise<readonly Row[]> {
  let running = server
  const firsts: number[] = []
  const nexts: number[] = []
  const { restart } = await interleaved(bench, 's', {
    restart: async () => {
      await sleep(FIRST_MINUTE_SECONDS * 1000)
      await running.kill()
      const began = performance.now()
      running = await again()
      await answered(`${running.url}/api/readings/0`)
      const seconds = (performance.now() - began) / 1000
      const ms = async (sensor: number): Promise<number> => {
        const asked = performance.now()
        await told(running.url + lastDayOf(sensor, 1))
        return performance.now() - asked
      }
      firsts.push(await ms(0))
      let all = 0
      for (let sensor = 1; sensor <= TIMED; sensor++) all += await ms(sensor)
      nexts.push(all / TIMED)
      return seconds
    },
  })
  await running.stop()
  const after: Series = { name: 'the next ones', unit: 'ms', values: nexts }
  return [
    boundedRow(
      `from the restart after kill -9 to the first 200, ${count.toLocaleString('en-US')} readings`,
      restart as Series,
      1.5,
    ),
    {
      work: 'the first query after the restart: the last day of a sensor',
      ours: { name: 'Recollect', unit: 'ms', values: firsts },
      better: 'less',
      goals: [],
      others: [after],
      note: 'The first one compiles the code of queries, and reads pages of the store that the process has not mapped.',
    },
  ]
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
