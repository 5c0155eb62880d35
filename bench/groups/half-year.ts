import { setTimeout as sleep } from 'node:timers/promises'
import { timed } from '../harness/ask.ts'
import type { Bench } from '../harness/bench.ts'
import { boundedRow, type Row, type Series, times } from '../harness/figures.ts'
import { DAYS, HalfYear, KEEP_DAYS, type MonthEnd } from '../harness/half-year.ts'
import { DAY_MS } from '../harness/minutes.ts'
import { probe } from '../harness/probe.ts'

const OURS = 'Recollect'
/** A size that does not grow is at most so many times as large as at the end of the first month. */
const FLAT = 1.1
const FLAT_MEMORY = 1.25
const POST_EVERY_MS = 20
/** How long POSTs are sent without an expiry, and after one. */
const POSTING_MS = 3000
const PAGE = 50
const NEXT_PAGES = 10

/** Half a year of readings that are kept for 30 days. */
export async function halfYear(bench: Bench): Promise<readonly Row[]> {
  const half = await HalfYear.begin(bench)
  const ends: MonthEnd[] = []
  for (let day = KEEP_DAYS; day <= DAYS; day += KEEP_DAYS) {
    await half.sendUntil(day)
    ends.push(await half.endOfMonth())
    bench.say(`day ${day}: ${JSON.stringify(ends.at(-1))}`)
  }
  const expiry = await expiryOf(bench, half)
  await half.server.stop()
  const after = `after half a year of ${half.sent.toLocaleString('en-US')} readings, kept for ${KEEP_DAYS} days`
  const flat = (what: string, most: number, figure: (end: MonthEnd) => number): Row => {
    const values = ends.map(figure)
    const first: Series = { name: 'at the end of the first month', unit: 'MiB', values: values.slice(0, 1) }
    const note = `At the end of each month: ${values.map(Math.round).join(', ')} MiB.`
    const ours: Series = { name: OURS, unit: 'MiB', values: values.slice(-1) }
    return {
      work: `${what} ${after}`,
      ours,
      better: 'less',
      goals: [times(first, most, 'at most')],
      others: [first],
      note,
    }
  }
  const restarts = ends.map(({ restartSeconds }) => restartSeconds)
  const faults = ends.flatMap((end) => end.faults)
  return [
    flat('anonymous memory', FLAT_MEMORY, ({ memoryMiB }) => memoryMiB),
    flat('store', FLAT, ({ storeMiB }) => storeMiB),
    flat('data file', FLAT, ({ dataFileMiB }) => dataFileMiB),
    boundedRow(
      `slowest restart after kill -9 at the end of a month, ${after}`,
      { unit: 's', values: [Math.max(...restarts)] },
      1.5,
      `At the end of each month: ${restarts.map((seconds) => seconds.toFixed(2)).join(', ')} s.`,
    ),
    boundedRow(
      `differences between what is kept and what was sent, ${after}`,
      { unit: 'differences', values: [faults.length] },
      0,
      `At the end of each month, before and after the restart, the number of readings, the first and the last one are compared. ${faults.join('; ')}`,
    ),
    ...expiry,
  ]
}

/** An hour's readings expire under POSTs; then the state of a day ago is read. */
async function expiryOf(bench: Bench, half: HalfYear): Promise<readonly Row[]> {
  // The process has just started: what it runs for the first time is compiled then.
  await expiry(half)
  const rounds: Expiry[] = []
  for (let round = 1; round <= bench.rounds; round++) {
    const one = await expiry(half)
    rounds.push(one)
    bench.say(`round ${round} of ${bench.rounds}: ${JSON.stringify(one)}`)
  }
  const count = (rounds[0] as Expiry).count.toLocaleString('en-US')
  const ms = (name: string, figure: (one: Expiry) => number): Series => ({
    name,
    unit: 'ms',
    values: rounds.map(figure),
  })
  const under = `while ${count} readings expire under a POST every ${POST_EVERY_MS} ms`
  const past = `asOf a day ago, after ${count} readings have expired`
  const now = ms('the same of now', (one) => one.nowMs)
  return [
    {
      ...boundedRow(
        `longest block of the event loop ${under}`,
        ms(OURS, (one) => one.blockMs),
        10,
      ),
      others: [ms('the same without expiry', (one) => one.quietBlockMs)],
    },
    {
      ...boundedRow(
        `longest delay of a POST ${under}`,
        ms(OURS, (one) => one.delayMs),
        20,
      ),
      others: [ms('the same without expiry', (one) => one.quietDelayMs)],
    },
    boundedRow(
      `first page of ${PAGE} ${past}`,
      ms(OURS, (one) => one.firstMs),
      500,
    ),
    {
      work: `next page of ${PAGE} ${past}`,
      ours: ms(OURS, (one) => one.nextMs),
      better: 'less',
      goals: [times(now, 3, 'at most')],
      others: [now],
    },
  ]
}

interface Expiry {
  /** Readings that expired. */
  readonly count: number
  /** The longest block of the event loop, and the longest delay of a POST, with expiry and without it. */
  readonly blockMs: number
  readonly quietBlockMs: number
  readonly delayMs: number
  readonly quietDelayMs: number
  /** The first page of a day ago, the next ones, and those of now. */
  readonly firstMs: number
  readonly nextMs: number
  readonly nowMs: number
}

async function expiry(half: HalfYear): Promise<Expiry> {
  const { server } = half
  const posting = async (work: () => Promise<unknown>) => {
    await server.blockedMs()
    const asking = probe(server.url, half.posts(), POST_EVERY_MS)
    await work()
    await sleep(POSTING_MS)
    const { longestMs } = await asking.stop()
    return { delayMs: longestMs, blockMs: await server.blockedMs() }
  }
  const quiet = await posting(async () => {})
  let count = 0
  const busy = await posting(async () => {
    count = await half.passHour()
  })
  const asOf = new Date(half.clockMs - DAY_MS).toISOString()
  const pageOf = (page: number, more = '') => `${server.url}/api/readings?pageSize=${PAGE}&page=${page}${more}`
  return {
    count,
    ...busy,
    quietBlockMs: quiet.blockMs,
    quietDelayMs: quiet.delayMs,
    firstMs: await timed(1, () => pageOf(1, `&asOf=${asOf}`))(),
    nextMs: await timed(NEXT_PAGES, (index) => pageOf(index + 2, `&asOf=${asOf}`))(),
    nowMs: await timed(NEXT_PAGES, (index) => pageOf(index + 2))(),
  }
}
