import type { Logger } from 'pino'
import { isOutOfSpace } from '../files/files.ts'
import type { Schedule } from '../runtime/turns.ts'
import type { Store } from './store.ts'
import type { StoreDirectory } from './store-directory.ts'

/** Minutes since midnight in local time. The range includes midnight if it ends before it begins. */
interface Hours {
  readonly from: number
  readonly until: number
}

interface IdleCompactionOptions {
  readonly directory: StoreDirectory
  readonly store: Store
  /** In these hours, or in quiet minutes. */
  readonly at: Hours | 'auto'
  /** The part of the time since its last call in which the event loop was busy. */
  readonly load: () => number
  readonly now: () => Date
  readonly schedule: Schedule
  readonly log: Pick<Logger, 'info' | 'warn' | 'error'>
}

/** How often to check whether to compact. */
const LOOK_MS = 60_000
/** Smaller files are never compacted. */
const LEAST_BYTES = 16 * 1024 * 1024
/** A file is compacted when it is this many times larger than its rows. */
const GROWN_FACTOR = 1.5
/** Load of a quiet minute. */
const QUIET_LOAD = 0.2
/** With this load, a compaction is abandoned, which itself takes a quarter of the time. */
const BUSY_LOAD = 0.6
/** Allowance for what is written to the copy meanwhile. */
const SPARE_FACTOR = 1.25
/** Rest after a slice as a multiple of its duration: copying takes a quarter of the time. */
const REST_FACTOR = 3

/** Compacts a store that has grown when `Store.CompactAt` says, slowly enough not to disturb requests. */
export class IdleCompaction {
  readonly #options: IdleCompactionOptions
  #timer: ReturnType<Schedule> | undefined
  #compacting: Promise<void> | undefined
  /** Ends the current rest. */
  #wake = (): void => {}
  /** Whether the last minute was quiet. */
  #isQuiet = false
  #isEnding = false

  constructor(options: IdleCompactionOptions) {
    this.#options = options
  }

  /** Checks now and once in a minute. */
  begin(): void {
    const load = this.#options.load()
    this.#isQuiet = this.#timer !== undefined && load < (this.#compacting ? BUSY_LOAD : QUIET_LOAD)
    this.#timer = this.#options.schedule(() => this.begin(), LOOK_MS)
    if (this.#compacting || !this.#isTime() || !this.#isGrown()) return
    this.#compacting = this.#compact().finally(() => {
      this.#compacting = undefined
    })
  }

  /** Abandons a running compaction. */
  async end(): Promise<void> {
    this.#isEnding = true
    this.#timer?.cancel()
    this.#wake()
    await this.#compacting
  }

  async #compact(): Promise<void> {
    const { directory, store, log, at } = this.#options
    try {
      const result = await directory.compactOpen(store, (sliceMs) => this.#rest(sliceMs))
      if (result) log.info(result, 'the store was compacted')
      else if (this.#isEnding) return
      else if (at === 'auto') log.info('the server became busy while the store was compacted; it is unchanged')
      else log.warn('the hours to compact the store ended too soon; it is unchanged')
    } catch (error) {
      if (isOutOfSpace(error)) log.warn('there was no room to compact the store; it is unchanged')
      else log.error({ err: error }, 'the store could not be compacted')
    }
  }

  /** `end` does not wait for the timer, which does not keep the process alive. */
  async #rest(sliceMs: number): Promise<boolean> {
    const rested = new Promise<void>((resolve) => {
      this.#wake = resolve
    })
    const timer = this.#options.schedule(this.#wake, REST_FACTOR * sliceMs)
    if (!this.#isEnding) await rested
    timer.cancel()
    return !this.#isEnding && this.#isTime()
  }

  #isTime(): boolean {
    const { at } = this.#options
    if (at === 'auto') return this.#isQuiet
    const { from, until } = at
    const now = this.#options.now()
    const minute = 60 * now.getHours() + now.getMinutes()
    return from < until ? from <= minute && minute < until : from <= minute || minute < until
  }

  #isGrown(): boolean {
    const { directory, store } = this.#options
    const { bytes } = directory
    const used = bytes < LEAST_BYTES ? bytes : store.usedBytes
    return bytes >= GROWN_FACTOR * used && bytes >= LEAST_BYTES && store.hasRoom(0, (SPARE_FACTOR * used) / 2)
  }
}
