import { type Checkpoint, checkpointMismatch } from '../events/checkpoint.ts'
import { checkUpTo, type Walk, walk } from '../events/walk.ts'
import { isOutOfSpace } from '../files/files.ts'
import { StoredCheckpoint } from '../projections/store-fold.ts'
import { Corruption, Ended, isOutOfDescriptors, JournalMismatch } from '../runtime/errors.ts'
import type { Schedule } from '../runtime/turns.ts'
import type { Settings } from '../settings/settings.ts'
import { IdleCompaction } from '../store/idle-compaction.ts'
import { TAG, tableKey } from '../store/keys.ts'
import type { Store } from '../store/store.ts'
import { StoreDirectory } from '../store/store-directory.ts'
import type { EngineDependencies } from './dependencies.ts'

/** The open store that is built from a journal. */
export interface JournalStore {
  readonly directory: StoreDirectory
  readonly store: Store
}

/**
 * Opens the store of a journal that this process has locked. An unreliable store is set aside, to be built again from
 * the journal.
 * @throws {JournalMismatch} when the journal lost its end or continued differently.
 */
export async function openJournalStore(
  settings: Settings,
  { files, log, failed }: EngineDependencies,
): Promise<JournalStore> {
  const directory = new StoreDirectory(settings.store)
  let store = await openStore(directory, log)
  const { whyNot } = directory
  if (whyNot !== undefined) log.warn(`The store ${settings.store} is built again: ${whyNot}.`)
  const checkpoint = new StoredCheckpoint(store).load()
  const why = checkpoint && (await checkpointMismatch(files, settings.journal, checkpoint))
  if (checkpoint && why !== undefined) {
    await directory.close(store)
    // `walk` throws first if the journal is damaged.
    const mismatch = journalMismatch(settings.store, checkpoint, await walk(files, settings.journal), why)
    if (!settings.acceptJournal) throw mismatch
    log.warn(`${mismatch.message} It is accepted.`)
    directory.setAside()
    store = await openStore(directory, log)
  }
  // The store has no complete write, and may be that of another journal.
  if (!checkpoint && settings.acceptJournal && store.newest(tableKey(TAG.state, 1))) {
    await directory.close(store)
    directory.setAside()
    store = await openStore(directory, log)
  }
  store.damaged = (error) => {
    directory.doubt(`it is damaged: ${error.message}`)
    failed(error)
  }
  return { directory, store }
}

/** Delay before retrying to open the store while the disk is full. */
const FULL_MS = 500

/** A start needs a store, so it waits for space on the disk. */
async function openStore(directory: StoreDirectory, log: EngineDependencies['log']): Promise<Store> {
  for (let attempt = 0; ; attempt++) {
    try {
      return directory.open()
    } catch (error) {
      if (!isOutOfSpace(error)) throw error
      if (attempt === 0) log.error(`The start waits: the disk has no room to open the store ${directory.path}.`)
      await new Promise<void>((resolve) => setTimeout(resolve, FULL_MS))
    }
  }
}

/** @param why why the journal does not have the checkpoint */
function journalMismatch(store: string, { journal, next }: Checkpoint, found: Pick<Walk, 'id' | 'next'>, why: string) {
  const [last, head] = [next.position - 1, found.next.position - 1]
  const what =
    found.id !== journal
      ? `was built from the journal ${journal}, and this one is ${found.id ?? 'empty'}`
      : head < last
        ? `has position ${last}, and the journal ends at ${head}: it has lost the events ${head + 1} to ${last}`
        : `was built up to position ${last} of a journal that continued differently: ${why}`
  return new JournalMismatch(
    `The store ${store} ${what}. Put the right journal back, or start with --accept-journal to continue with this one.`,
  )
}

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
  readonly #settings: Settings
  readonly #dependencies: EngineDependencies
  readonly #settling: ReturnType<Schedule>
  #syncTimer: ReturnType<Schedule> | undefined
  #syncing: Promise<void> | undefined
  /** There were writes since the last sync began. */
  #isChanged = false
  #compaction: IdleCompaction | undefined
  /** The store holds the whole journal. */
  #isComplete = false
  #isEnding = false

  constructor(opened: JournalStore, settings: Settings, dependencies: EngineDependencies) {
    this.#opened = opened
    this.#settings = settings
    this.#dependencies = dependencies
    this.#settling = dependencies.schedule(() => opened.directory.settle(), SETTLED_MS)
  }

  /**
   * Called when the store is complete. Verifies the part of the journal before `checkpoint`, which the start did not
   * read, and compacts the store in the hours of the settings.
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
    // Until now it kept `syncSoon` from beginning another sync.
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
      log.debug({ position: checkpoint.next.position - 1 }, 'the journal up to the position of the store was verified')
    } catch (error) {
      if (error instanceof Ended) return
      if (isOutOfDescriptors(error)) return void schedule(() => this.#beginVerifying(checkpoint), RETRY_MS)
      if (error instanceof Corruption) this.#opened.directory.doubt('the journal was found damaged')
      throw error
    }
  }
}
