import { type Checkpoint, checkpointMismatch, differenceFrom } from '../events/checkpoint.ts'
import { walk } from '../events/walk.ts'
import { isOutOfSpace } from '../files/files.ts'
import { StoredCheckpoint } from '../projections/store-fold.ts'
import { JournalMismatch, Refusal } from '../runtime/errors.ts'
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
  /** Where reading the journal begins; undefined: at its beginning. */
  readonly checkpoint: Checkpoint | undefined
  /** A store with damaged rows, which is read while this one is built. */
  readonly former: Store | undefined
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
  let checkpoint = new StoredCheckpoint(store).load()
  const why = checkpoint && (await checkpointMismatch(files, settings.journal, checkpoint))
  if (checkpoint && why !== undefined) {
    await directory.close(store)
    // `walk` throws first if the journal is damaged.
    const { next } = checkpoint
    const walked = await walk(files, settings.journal, undefined, { passing: next.position })
    // A repair may have changed the borders of segments.
    if (walked.id !== checkpoint.journal || walked.passed?.previous !== next.previous) {
      const mismatch = new JournalMismatch(
        `The store ${settings.store} ${differenceFrom(checkpoint, walked, why)}. Put the right journal back, replace what is missing with recollect repair --from <backup or copy>, or start with --accept-journal to continue with this one.`,
      )
      if (!settings.acceptJournal) throw mismatch
      log.warn(`${mismatch.message} It is accepted.`)
      directory.setAside()
    }
    store = await openStore(directory, log)
    await new StoredCheckpoint(store).forget()
    checkpoint = undefined
  }
  // The store has no complete write, and may be that of another journal.
  if (!checkpoint && why === undefined && settings.acceptJournal && store.newest(tableKey(TAG.state, 1))) {
    await directory.close(store)
    directory.setAside()
    store = await openStore(directory, log)
  }
  store.damaged = (error) => {
    directory.noteDamage(error)
    failed(error)
  }
  if (checkpoint) return { directory, store, checkpoint, former: undefined }
  return { directory, store, ...(await openFormer(directory, settings, files)) }
}

/** Opens the former store if it fits the journal. Without it the whole journal is read before the first response. */
async function openFormer(
  directory: StoreDirectory,
  settings: Settings,
  files: EngineDependencies['files'],
): Promise<Pick<JournalStore, 'checkpoint' | 'former'>> {
  const none = { checkpoint: undefined, former: undefined }
  const former = directory.openFormer()
  if (!former) return none
  try {
    const checkpoint = new StoredCheckpoint(former).load()
    if (checkpoint && (await checkpointMismatch(files, settings.journal, checkpoint)) === undefined)
      return { checkpoint, former }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
  }
  await directory.closeFormer(former)
  return none
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

/** A crash after this time is not attributed to a damaged store. */
const SETTLED_MS = 60_000
/** The recovery point advances when it is so far behind the newest commit. */
const POINT_MS = 5000
const POINT_COMMITS = 100
const POINT_ROWS = 1000
/**
 * With more commits since the last point, LMDB would find no free pages, and its file grow without bound: each commit
 * then rests.
 */
const MOST_COMMITS = 250
const COMMIT_REST_MS = 20
/** Background work on an open store: advances its recovery point, and compacts it. */
export class StoreMaintenance {
  readonly #opened: JournalStore
  readonly #settings: Settings
  readonly #dependencies: EngineDependencies
  readonly #settling: ReturnType<Schedule>
  #pointTimer: ReturnType<Schedule> | undefined
  #advancing: Promise<void> | undefined
  /** Commits since the recovery point began to advance. */
  #commits = 0
  #rows = 0
  #compaction: IdleCompaction | undefined
  /** The store holds the whole journal. */
  #isComplete = false
  #isEnding = false

  constructor(opened: JournalStore, settings: Settings, dependencies: EngineDependencies) {
    this.#opened = opened
    this.#settings = settings
    this.#dependencies = dependencies
    const { directory, store } = opened
    this.#settling = dependencies.schedule(() => void directory.settle(store), SETTLED_MS)
    store.committed = (rows) => {
      this.#commits++
      this.#rows += rows
      this.#advanceSoon()
    }
    store.rest = () => this.#rest()
  }

  /** Called when the store is complete. Compacts it in the hours of the settings. */
  begin(): void {
    this.#isComplete = true
    this.#advance()
    const { compactAt: at } = this.#settings
    if (at === 'off' || this.#isEnding) return
    let last = performance.eventLoopUtilization()
    const load = (): number => {
      const before = last
      last = performance.eventLoopUtilization()
      return performance.eventLoopUtilization(last, before).utilization
    }
    this.#compaction = new IdleCompaction({ ...this.#dependencies, ...this.#opened, at, load })
    this.#compaction.begin()
  }

  #advanceSoon(): void {
    if (this.#isEnding) return
    if (this.#commits >= POINT_COMMITS || this.#rows >= POINT_ROWS) this.#advance()
    else this.#pointTimer ??= this.#dependencies.schedule(() => this.#advance(), POINT_MS)
  }

  /** One at a time: on a slow disk, several syncs would occupy all threads that write the journal. */
  #advance(): void {
    this.#pointTimer?.cancel()
    this.#pointTimer = undefined
    if (this.#advancing || this.#isEnding) return
    this.#commits = 0
    this.#rows = 0
    const { directory, store } = this.#opened
    const advanced = this.#isComplete ? directory.advanceComplete(store) : directory.advance(store)
    this.#advancing = Promise.resolve(advanced).then(() => {
      this.#advancing = undefined
      if (this.#commits > 0) this.#advanceSoon()
    })
  }

  #rest(): Promise<void> | undefined {
    const advancing = this.#advancing
    if (!advancing || this.#commits < MOST_COMMITS) return undefined
    return new Promise((resolve) => {
      const timer = this.#dependencies.schedule(resolve, COMMIT_REST_MS)
      void advancing.then(() => {
        timer.cancel()
        resolve()
      })
    })
  }

  /** Ends the work soon; `close` waits for that. */
  end(): void {
    this.#isEnding = true
  }

  async close(): Promise<void> {
    this.end()
    this.#settling.cancel()
    await this.#compaction?.end()
    this.#pointTimer?.cancel()
    await this.#advancing
  }
}
