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
/** Verifying takes a quarter of the time: it rests for this multiple of its duration. */
const REST_FACTOR = 3
/** How long to wait before verifying again when there was no file descriptor for it. */
const RETRY_MS = 1000

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
    if (checkpoint) this.#verify(checkpoint).catch(this.#dependencies.failed)
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

  async #verify(checkpoint: Checkpoint): Promise<void> {
    const { files, log } = this.#dependencies
    let began = performance.now()
    try {
      await checkUpTo(files, this.#settings.journal, checkpoint, async () => {
        await this.#rest(REST_FACTOR * (performance.now() - began))
        began = performance.now()
      })
      log.debug({ position: checkpoint.next.position - 1 }, 'what lies before the position of the store was checked')
    } catch (error) {
      if (error instanceof Ended) return
      if (isOutOfDescriptors(error)) {
        await this.#rest(RETRY_MS).then(
          () => this.#verify(checkpoint),
          () => {},
        )
        return
      }
      if (error instanceof Corruption) this.#opened.directory.doubt('the journal was found damaged')
      throw error
    }
  }

  async #rest(ms: number): Promise<void> {
    await new Promise<void>((resolve) => this.#dependencies.schedule(resolve, ms))
    if (this.#isEnding) throw new Ended()
  }
}
