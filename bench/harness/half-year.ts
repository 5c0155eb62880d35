import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { answered, ask, told } from './ask.ts'
import type { Bench } from './bench.ts'
import { bytesOf } from './disk.ts'
import type { Sent } from './load.ts'
import { DAY_MS, FIRST_MS, MINUTE_MS, minuteReading, minuteReadings, timeOf } from './minutes.ts'
import { anonymousBytes } from './process-figures.ts'
import { type Server, settled, until } from './servers.ts'
import { COLLECTION } from './time-series.ts'

const MIB = 2 ** 20
const SENSORS = 50
export const DAYS = 180
export const KEEP_DAYS = 30
const DAY_MINUTES = 1440
/** A batch has the readings of so many times, and of so many minutes, at most: the clock must not jump by a day. */
const BATCH_TIMES = 20
const BATCH_MINUTES = 360
const MOST_APART_MINUTES = 720
/** The readings that expire together, of so many times. */
const EXPIRING_TIMES = 60
const MOST_EXPIRING_MINUTES = 23 * 60
const EXPIRED_MS = 300_000
const POSTS = 5000
const HEADERS = { 'Content-Type': 'application/json' }

/** A server whose clock is that of the readings that it gets. It keeps those of 30 days. */
export class HalfYear {
  readonly #directory: string
  /** Minutes between two readings of a sensor: one, if as many readings are wanted. */
  readonly #apart: number
  readonly #bench: Bench
  /** The minutes of the readings that were sent. */
  readonly #minutes: number[] = []
  #posted = 0
  #server: Server | undefined
  /** The time of the server. */
  #clockMs = FIRST_MS

  private constructor(bench: Bench, directory: string) {
    this.#bench = bench
    this.#directory = directory
    this.#apart = Math.min(MOST_APART_MINUTES, Math.ceil((DAYS * DAY_MINUTES * SENSORS) / bench.items))
  }

  static async begin(bench: Bench): Promise<HalfYear> {
    const half = new HalfYear(bench, await bench.fixtures.directory())
    await writeFile(half.#file, '{"readings":[]}')
    await half.#start()
    return half
  }

  get server(): Server {
    if (!this.#server) throw new Error('The server has not started.')
    return this.#server
  }

  /** The number of readings. */
  get sent(): number {
    return this.#minutes.length * SENSORS
  }

  get #file(): string {
    return join(this.#directory, 'db.json')
  }

  get #journal(): string {
    return join(this.#directory, 'journal')
  }

  get clockMs(): number {
    return this.#clockMs
  }

  /** The time before which items expire, in milliseconds since 1970. */
  get #horizonMs(): number {
    return this.#clockMs - KEEP_DAYS * DAY_MS
  }

  /** Starts it on its files; resolves with the seconds until its first answer. */
  async #start(): Promise<number> {
    const flags = ['--Collections', JSON.stringify({ readings: { ...COLLECTION, Keep: `${KEEP_DAYS}d` } })]
    const began = performance.now()
    this.#server = await this.#bench.servers.recollect(
      { file: this.#file, journal: this.#journal, flags },
      { isWatched: true, settle: false, env: { BENCH_CLOCK_MS: String(this.#clockMs) } },
    )
    await answered(`${this.server.url}/api/readings?pageSize=1`)
    return (performance.now() - began) / 1000
  }

  /** Sends the readings of all sensors before a day, each batch at the time of its last reading. */
  async sendUntil(day: number): Promise<void> {
    const times = Math.max(1, Math.min(BATCH_TIMES, Math.floor(BATCH_MINUTES / this.#apart)))
    const end = day * DAY_MINUTES
    for (let next = (this.#minutes.at(-1) ?? -this.#apart) + this.#apart; next < end; ) {
      const minutes: number[] = []
      for (; minutes.length < times && next < end; next += this.#apart) minutes.push(next)
      const body = JSON.stringify(minuteReadings(minutes, SENSORS))
      await this.#setClock(timeOf(minutes.at(-1) as number, SENSORS))
      await told(`${this.server.url}/api/readings`, { method: 'POST', headers: HEADERS, body })
      for (const minute of minutes) this.#minutes.push(minute)
      // Readings come much faster than the time passes, and would leave no time to let others expire.
      if (Math.floor(next / DAY_MINUTES) > Math.floor((minutes[0] as number) / DAY_MINUTES))
        await this.#expired(this.#horizonMs - DAY_MS)
    }
  }

  async #setClock(ms: number): Promise<void> {
    this.#clockMs = ms
    await this.server.setClock(ms)
  }

  /** New readings, a millisecond apart from the time of the server on; no two calls have the same ones. */
  posts(): readonly Sent[] {
    return Array.from({ length: POSTS }, (_, index) => {
      const time = new Date(this.#clockMs + ++this.#posted).toISOString()
      return { method: 'POST', path: '/api/readings', body: JSON.stringify({ ...minuteReading(index, 0), time }) }
    })
  }

  /**
   * Moves the clock, so that with the next write the readings of 60 times expire, and waits until they have. Resolves with
   * their number.
   */
  async passHour(): Promise<number> {
    const times = Math.min(EXPIRING_TIMES, Math.floor(MOST_EXPIRING_MINUTES / this.#apart))
    await this.#setClock(this.#clockMs + times * this.#apart * MINUTE_MS)
    await this.#expired()
    return times * SENSORS
  }

  /** Waits until no item is older than a time, in milliseconds since 1970. */
  async #expired(beforeMs = this.#horizonMs): Promise<void> {
    await until(EXPIRED_MS, 'Items do not expire', async () => {
      const { item } = await this.#pageOf(1)
      return Date.parse(item?.time ?? '') >= beforeMs
    })
  }

  /**
   * The figures at the end of a month, after everything that is to expire has done so and the data file was written. The
   * server is killed and started again.
   */
  async endOfMonth(): Promise<MonthEnd> {
    await told(`${this.server.url}/admin/retention`, { method: 'POST' })
    await this.#expired()
    await settled(this.server)
    const faults = await this.#faults()
    const storeBytes = bytesOf(join(this.#journal, 'store'))
    const sizes = {
      memoryMiB: anonymousBytes(this.server) / MIB,
      storeMiB: storeBytes / MIB,
      journalMiB: (bytesOf(this.#journal) - storeBytes) / MIB,
      dataFileMiB: bytesOf(this.#file) / MIB,
    }
    await this.server.kill()
    const restartSeconds = await this.#start()
    faults.push(...(await this.#faults()))
    // Otherwise the next kill might be the second crash within a minute of a start, and the store would be built again.
    await this.server.stop()
    await this.#start()
    return { faults, ...sizes, restartSeconds }
  }

  /**
   * The differences between the readings that the server has and those that are to be kept: in their number, the first and
   * the last one.
   */
  async #faults(): Promise<string[]> {
    const kept: (readonly [number, number])[] = []
    for (const minute of this.#minutes) {
      for (let sensor = 0; sensor < SENSORS; sensor++) {
        if (timeOf(minute, sensor) >= this.#horizonMs) kept.push([minute, sensor])
      }
    }
    const first = await this.#pageOf(1)
    const last = await this.#pageOf(kept.length)
    const expected = (at: number) => JSON.stringify(minuteReading(...(kept.at(at) as [number, number])))
    const found = ({ item: { id: _, ...reading } = {} }: Page) => JSON.stringify(reading)
    return [
      ...(first.count === kept.length ? [] : [`${first.count} readings instead of ${kept.length}`]),
      ...(found(first) === expected(0) ? [] : [`the first is ${found(first)} instead of ${expected(0)}`]),
      ...(found(last) === expected(-1) ? [] : [`the last is ${found(last)} instead of ${expected(-1)}`]),
    ]
  }

  async #pageOf(page: number): Promise<Page> {
    const answer = await ask(`${this.server.url}/api/readings?pageSize=1&page=${page}`)
    const [item] = (await answer.json()) as Page['item'][]
    return { count: Number(answer.headers.get('x-total-count')), item }
  }
}

export interface MonthEnd {
  /** Differences between what the server has and what was sent. */
  readonly faults: readonly string[]
  readonly memoryMiB: number
  readonly storeMiB: number
  readonly journalMiB: number
  readonly dataFileMiB: number
  /** Until the first answer. */
  readonly restartSeconds: number
}

/** A page of one item. */
interface Page {
  /** All items. */
  readonly count: number
  readonly item: { readonly id?: number; readonly time?: string } | undefined
}
