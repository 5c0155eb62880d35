import type { Checkpoint } from '../events/checkpoint.ts'
import { checkUpTo } from '../events/walk.ts'
import { Corruption, Ended, isOutOfDescriptors } from '../runtime/errors.ts'
import type { Settings } from '../settings/settings.ts'
import { IdleCompaction } from '../store/idle-compaction.ts'
import type { EngineDependencies } from './dependencies.ts'
import type { JournalStore } from './journal-store.ts'

/** A crash after this time is not attributed to a damaged store. */
const SETTLED_MS = 60_000
const SYNC_MS = 5000
/** Delay before verifying again after there was no file descriptor for a segment. */
const RETRY_MS = 5000
/** Verifying takes a quarter of the time: it rests for this multiple of its duration. */
const REST_FACTOR = 3

/** Background work on an open store: syncs and compacts it, and verifies the journal before its checkpoint. */
export class StoreMaintenance {
  readonly #opened: JournalStore
  readonly #settings: Pick<Settings, 'journal' | 'compactAt'>
  readonly #dependencies: Pick<EngineDependencies, 'files' | 'now' | 'schedule' | 'log' | 'failed'>
  readonly #settling: { cancel(): void }
  #syncTimer: { cancel(): void } | undefined
  #syncing: Promise<void> | undefined
  /** There were writes since the last sync began. */
  #isChanged = false
  #compaction: IdleCompaction | undefined
  /** The store holds the whole journal. */
  #isComplete = false
  #isEnding = false

  constructor(
    opened: JournalStore,
    settings: Pick<Settings, 'journal' | 'compactAt'>,
    dependencies: Pick<EngineDependencies, 'files' | 'now' | 'schedule' | 'log' | 'failed'>,
  ) {
    this.#opened = opened
    this.#settings = settings
    this.#dependencies = dependencies
    this.#settling = dependencies.schedule(() => opened.directory.settle(), SETTLED_MS)
  }

  /**
   * Called when the store is complete. Verifies the part of the journal before `checkpoint`, which the start did not
   * read, and compacts in its hours.
   */
  begin(checkpoint: Checkpoint | undefined): void {
    this.#isComplete = true
    this.syncSoon()
    if (checkpoint) this.#beginVerifying(checkpoint)
    const { compactAt: hours } = this.#settings
    if (!hours || this.#isEnding) return
    const compacted = (): void => this.syncSoon()
    this.#compaction = new IdleCompaction({ ...this.#dependencies, ...this.#opened, hours, compacted })
    this.#compaction.begin()
  }

  /** Only one sync runs at a time: on a slow disk, several would occupy all threads that write the journal. */
  syncSoon(): void {
    this.#isChanged = true
    if (this.#syncTimer || this.#isEnding) return
    this.#syncTimer = this.#dependencies.schedule(() => {
      this.#syncing = this.#sync()
    }, SYNC_MS)
  }

  async #sync(): Promise<void> {
    this.#isChanged = false
    const { directory, store } = this.#opened
    await (this.#isComplete ? directory.syncComplete(store) : directory.sync(store))
    this.#syncTimer = undefined
    if (this.#isChanged) this.syncSoon()
  }

  /** Ends the work soon; `close` waits for that. */
  end(): void {
    this.#isEnding = true
  }

  async close(): Promise<void> {
    this.end()
    this.#settling.cancel()
    await this.#compaction?.end()
    this.#syncTimer?.cancel()
    await this.#syncing
  }

  #beginVerifying(checkpoint: Checkpoint): void {
    if (!this.#isEnding) this.#verify(checkpoint).catch(this.#dependencies.failed)
  }

  async #verify(checkpoint: Checkpoint): Promise<void> {
    const { files, schedule, log } = this.#dependencies
    let began = performance.now()
    try {
      await checkUpTo(files, this.#settings.journal, checkpoint, async () => {
        const restMs = REST_FACTOR * (performance.now() - began)
        await new Promise<void>((resolve) => schedule(resolve, restMs))
        if (this.#isEnding) throw new Ended()
        began = performance.now()
      })
      log.debug({ position: checkpoint.next.position - 1 }, 'what lies before the position of the store was checked')
    } catch (error) {
      if (error instanceof Ended) return
      if (isOutOfDescriptors(error)) return void schedule(() => this.#beginVerifying(checkpoint), RETRY_MS)
      if (error instanceof Corruption) this.#opened.directory.doubt('the journal was found damaged')
      throw error
    }
  }
}
