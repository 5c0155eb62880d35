import type { KeyFields } from '../collections/natural-key.ts'
import type { DeleteItems, Selection } from '../commands/bulk.ts'
import { CommandHandler } from '../commands/handler.ts'
import type { Rules } from '../commands/rules.ts'
import { type Checkpoint, checkpointMismatch } from '../events/checkpoint.ts'
import type { DirectoryOptions } from '../events/directory.ts'
import type { Position } from '../events/event.ts'
import type { Journal, Recorded } from '../events/journal.ts'
import { checkUpTo, type Walk, walk } from '../events/walk.ts'
import { isOutOfSpace } from '../files/files.ts'
import { StoredCheckpoint } from '../projections/stored-checkpoint.ts'
import { Views } from '../projections/views.ts'
import { Queries } from '../query/queries.ts'
import { parseParameters, parseQuery } from '../query/query.ts'
import { tookTooLong } from '../query/too-long.ts'
import { Corruption, Ended, JournalMismatch } from '../runtime/errors.ts'
import type { Settings } from '../settings/settings.ts'
import { IdleCompaction } from '../store/idle-compaction.ts'
import { TAG, tableKey } from '../store/keys.ts'
import type { Store } from '../store/store.ts'
import { StoreDirectory } from '../store/store-directory.ts'
import type { EngineDependencies } from './dependencies.ts'
import { Projections } from './projections.ts'

export interface DurableProjectionsOptions {
  readonly settings: Pick<Settings, 'journal' | 'store' | 'compactAt' | 'acceptJournal' | 'limits' | 'collections'>
  readonly dependencies: Pick<EngineDependencies, 'files' | 'now' | 'schedule' | 'log' | 'failed'>
  /** Identifies the imports of this node's data file in a cluster. */
  readonly dataFileId?: string
}

/** The parts of an open journal that the store needs. */
export interface MarkedJournal {
  readonly head: Position
  checkpoint(): Checkpoint | undefined
}

export interface StoreStatus {
  readonly state: 'current' | 'building' | 'full'
  /** Position of its last event. */
  readonly position: Position
  readonly bytes: number
  readonly detail?: string
}

/** How often to log the progress of building the store. */
const TOLD_MS = 5000

/** Approximate maximum of rows of an event besides its item. */
const ROWS_AN_EVENT = 8
const ROW_BYTES = 1024
/** Approximate maximum that a transaction stores. */
const EVENTS_AT_ONCE = 256
const BYTES_AT_ONCE = 1024 * 1024

/** A crash after this time is not attributed to a damaged store. */
const SETTLED_MS = 60_000

/** Delay before retrying to open the store while the disk is full. */
const FULL_MS = 500

/** How often to sync the store. */
const SYNC_MS = 5000

/**
 * The projections of a journal, kept in a store on this disk. Call order: `opening` to open the journal, `decide`,
 * `catchUp`, `begin`.
 */
export class DurableProjections extends Projections {
  readonly #options: DurableProjectionsOptions
  readonly #directory: StoreDirectory
  readonly #store: Store
  readonly #checkpoint: StoredCheckpoint
  /** The store's checkpoint when it was opened. */
  readonly #opened: Checkpoint | undefined
  #queries: Queries | undefined
  #journal: MarkedJournal | undefined
  readonly #settling: { cancel(): void }
  #syncTimer: { cancel(): void } | undefined
  #syncing: Promise<void> | undefined
  #compaction: IdleCompaction | undefined
  #isClosed = false
  #isBuilt = false

  private constructor(options: DurableProjectionsOptions, directory: StoreDirectory, store: Store) {
    super(new Views(store, undefined, keyFieldsOf(options.settings.collections)), options.dataFileId)
    this.#options = options
    this.#directory = directory
    this.#store = store
    this.#checkpoint = new StoredCheckpoint(store)
    this.#opened = this.#checkpoint.load()
    this.#settling = options.dependencies.schedule(() => directory.settle(), SETTLED_MS)
    this.views.saveWith(({ visible }) => {
      const checkpoint = this.#journal?.checkpoint()
      if (checkpoint?.next.position === visible + 1) this.#checkpoint.save(checkpoint)
    })
  }

  /**
   * Opens the store of a journal that this process has locked. An unreliable store is set aside and rebuilt from the
   * journal.
   * @throws {JournalMismatch} when the journal lost its end or continued differently.
   */
  static async open(options: DurableProjectionsOptions): Promise<DurableProjections> {
    const { settings, dependencies } = options
    const directory = new StoreDirectory(settings.store)
    let store = await openStore(directory, dependencies)
    const { whyNot } = directory
    if (whyNot !== undefined) dependencies.log.warn(`The store ${settings.store} is built again: ${whyNot}.`)
    const checkpoint = new StoredCheckpoint(store).load()
    const why = checkpoint && (await checkpointMismatch(dependencies.files, settings.journal, checkpoint))
    if (checkpoint && why !== undefined) {
      await directory.close(store)
      // If the journal is damaged, that error takes precedence.
      const found = await walk(dependencies.files, settings.journal)
      const mismatch = otherJournal(settings, checkpoint, { ...found, why })
      if (!settings.acceptJournal) throw mismatch
      dependencies.log.warn(`${mismatch.message} It is accepted.`)
      directory.setAside()
      store = await openStore(directory, dependencies)
    }
    store.damaged = (error) => {
      directory.doubt(`it is damaged: ${error.message}`)
      dependencies.failed(error)
    }
    return new DurableProjections(options, directory, store)
  }

  get status(): StoreStatus {
    const position = this.views.applied
    const bytes = this.#directory.bytes
    if (this.views.isFull) return { state: 'full', position, bytes, detail: 'The disk is full.' }
    return { state: this.#isBuilt ? 'current' : 'building', position, bytes }
  }

  /** Created on first use; builds the configured indexes. */
  get queries(): Queries {
    const { limits, collections } = this.#options.settings
    this.#queries ??= new Queries({ views: this.views, bytes: limits.indexBytes, collections })
    return this.#queries
  }

  /** Options to continue from the store. */
  get opening(): Required<Pick<DirectoryOptions, 'resume' | 'replay'>> & {
    readonly hasRoom: (events: number, bytes: number) => boolean
    readonly project: (batch: readonly Recorded[]) => void | Promise<void>
  } {
    return {
      resume: async () => this.#opened,
      replay: () => {},
      hasRoom: (events, bytes) => {
        // A large write takes many transactions, and waits for space in between.
        const rows = ROWS_AN_EVENT * (1 + Math.min(events, EVENTS_AT_ONCE))
        return !this.views.isFull && this.#store.hasRoom(rows, ROW_BYTES * rows + Math.min(bytes, BYTES_AT_ONCE))
      },
      project: (batch) => {
        const put = this.views.put(batch)
        this.#syncSoon()
        return put
      },
    }
  }

  /** Creates the command handler of an open journal. */
  decide(journal: Journal & MarkedJournal, rules: Rules, now: () => Date): CommandHandler {
    this.#journal = journal
    return new CommandHandler({
      journal,
      durable: this.views.any,
      rules,
      now,
      idempotencyKeys: this.idempotencyKeys,
      select: (command) => this.#select(command),
    })
  }

  /**
   * Stores what the journal has beyond the store; what is stored remains after an interruption. Waits while the disk is
   * full.
   */
  async catchUp(journal: Journal & MarkedJournal): Promise<void> {
    try {
      await this.#catchUp(journal)
    } catch (error) {
      throw this.#isClosed ? new Ended() : error
    }
  }

  async #catchUp(journal: Journal & MarkedJournal): Promise<void> {
    const { log } = this.#options.dependencies
    await this.#checkJournal(journal)
    let toldMs = performance.now()
    await this.views.build(journal.read(this.views.position + 1), 'wait', () => {
      if (this.#isClosed) throw new Ended()
      if (performance.now() - toldMs < TOLD_MS) return
      toldMs = performance.now()
      log.info({ position: this.views.applied, of: journal.head }, 'the store is being built from the journal')
    })
    const checkpoint = journal.checkpoint()
    if (checkpoint && checkpoint.next.position !== this.#opened?.next.position) this.#saveCheckpoint(checkpoint)
    this.#isBuilt = true
  }

  /**
   * Builds the natural keys that the settings want, before anything is written.
   * @throws {Refusal} `Conflict` when two items have the same one.
   */
  async buildNaturalKeys(): Promise<void> {
    if (this.views.hasNaturalKeys) return
    this.#options.dependencies.log.info('the natural keys that the settings want are being built')
    await this.views.buildNaturalKeys()
  }

  /** Without space, the next write saves the checkpoint, or the next start reads from an earlier one. */
  #saveCheckpoint(checkpoint: Checkpoint): void {
    try {
      this.#store.transaction(() => this.#checkpoint.save(checkpoint))
    } catch (error) {
      if (!isOutOfSpace(error)) throw error
    }
  }

  /** Throws if the store belongs to another journal. */
  async #checkJournal({ id, head }: Journal): Promise<void> {
    const key = tableKey(TAG.state, 1)
    const known = this.#store.newest(key)?.toString()
    const { settings } = this.#options
    if (known !== undefined && (known !== id || head < this.views.applied)) {
      throw new JournalMismatch(
        `The store ${settings.store} has position ${this.views.applied} of the journal ${known}, and ` +
          `${settings.journal} holds ${id} up to position ${head}. Remove the store to build it from this journal.`,
      )
    }
    if (known !== undefined) return
    await this.views.onceRoom(() => this.#store.transaction(() => this.#store.set(key, Buffer.from(id))))
  }

  async #select({ collection: name, filters, seconds }: DeleteItems): Promise<Selection | undefined> {
    const collection = this.views.find(name)
    if (!collection) return undefined
    const { queryParameters: parameters, pageSize } = this.#options.settings.limits
    const context = { time: this.queries.timeOf(name), now: this.#options.dependencies.now().getTime() }
    const query = parseQuery(parseParameters(filters, parameters), { parameters, pageSize }, context)
    const limit = seconds === undefined ? undefined : { seconds, refusal: () => tookTooLong(seconds) }
    return this.queries.select(collection, query, limit)
  }

  /**
   * Verifies the part of the journal that the start did not read, in the background, for at most a quarter of the time.
   */
  begin(): void {
    const { settings, dependencies } = this.#options
    this.#check().catch(dependencies.failed)
    const { compactAt: hours } = settings
    if (!hours || this.#isClosed) return
    const compacted = (): void => this.#syncSoon()
    const [directory, store] = [this.#directory, this.#store]
    this.#compaction = new IdleCompaction({ ...dependencies, directory, store, hours, compacted })
    this.#compaction.begin()
  }

  /** Ends background work soon. */
  end(): void {
    this.#isClosed = true
    this.views.end()
  }

  async close(): Promise<void> {
    this.end()
    this.#settling.cancel()
    await this.#compaction?.end()
    this.#syncTimer?.cancel()
    await this.#syncing
    await this.#directory.close(this.#store)
  }

  async #check(): Promise<void> {
    const { files, schedule, log } = this.#options.dependencies
    const checkpoint = this.#opened
    if (!checkpoint) return
    let began = performance.now()
    try {
      await checkUpTo(files, this.#options.settings.journal, checkpoint, async () => {
        const restMs = 3 * (performance.now() - began)
        await new Promise<void>((resolve) => schedule(resolve, restMs))
        if (this.#isClosed) throw new Ended()
        began = performance.now()
      })
      log.debug({ position: checkpoint.next.position - 1 }, 'what lies before the position of the store was checked')
    } catch (error) {
      if (error instanceof Ended) return
      if (error instanceof Corruption) this.#directory.doubt('the journal was found damaged')
      throw error
    }
  }

  #syncSoon(): void {
    if (this.#syncTimer || this.#isClosed) return
    this.#syncTimer = this.#options.dependencies.schedule(() => {
      this.#syncTimer = undefined
      this.#syncing = this.#directory.sync(this.#store)
    }, SYNC_MS)
  }
}

/** The fields of the natural keys that the settings name. */
export function keyFieldsOf(collections: Settings['collections']): KeyFields {
  return new Map(Object.entries(collections).flatMap(([name, { key }]) => (key ? [[name, key]] : [])))
}

/** A start needs a store, so it waits for space on the disk. */
async function openStore(
  directory: StoreDirectory,
  { log }: DurableProjectionsOptions['dependencies'],
): Promise<Store> {
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

function otherJournal(
  { store }: DurableProjectionsOptions['settings'],
  { journal, next }: Checkpoint,
  { id, next: end, why }: Pick<Walk, 'id' | 'next'> & { readonly why: string },
): JournalMismatch {
  const [last, head] = [next.position - 1, end.position - 1]
  const what =
    id !== journal
      ? `was built from the journal ${journal}, and this one is ${id ?? 'empty'}`
      : head < last
        ? `has position ${last}, and the journal ends at ${head}: it has lost the events ${head + 1} to ${last}`
        : `was built up to position ${last} of a journal that went on differently: ${why}`
  return new JournalMismatch(
    `The store ${store} ${what}. Put the right journal back, or start with --accept-journal to go on with this one.`,
  )
}
