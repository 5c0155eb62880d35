import type { KeyFields } from '../collections/natural-keys.ts'
import type { DeleteItems, SelectedItems } from '../commands/decide-deletion.ts'
import { CommandHandler } from '../commands/handler.ts'
import { IdempotencyKeys } from '../commands/idempotency-keys.ts'
import { receipts } from '../commands/item-rules.ts'
import type { ExpiryRule, Rules } from '../commands/rules.ts'
import { MergedEdits } from '../data-file/merged-edits.ts'
import type { Checkpoint } from '../events/checkpoint.ts'
import type { Position } from '../events/event.ts'
import type { FileJournalOptions } from '../events/file-journal.ts'
import type { Journal, Projection, Recorded } from '../events/journal.ts'
import type { RecordSource } from '../events/repair.ts'
import type { SegmentLog } from '../events/segment-log.ts'
import { isOutOfSpace } from '../files/files.ts'
import { own } from '../json/value.ts'
import { History } from '../projections/history.ts'
import { Past } from '../projections/past.ts'
import { StoredCheckpoint } from '../projections/store-fold.ts'
import { Views } from '../projections/views.ts'
import { bytesOfParameters, scanTimeout } from '../query/parameter.ts'
import { Queries } from '../query/queries.ts'
import { parseParameters, parseQuery } from '../query/query.ts'
import { Ended, JournalMismatch, Refusal } from '../runtime/errors.ts'
import { Estimate, LimitedLog, type ProgressLog, progressLog } from '../runtime/limited-log.ts'
import type { Memory, MemoryBudget } from '../runtime/memory.ts'
import { Turns } from '../runtime/turns.ts'
import type { Settings } from '../settings/settings.ts'
import { TAG, tableKey } from '../store/keys.ts'
import type { EngineDependencies } from './dependencies.ts'
import { JournalCheck } from './journal-check.ts'
import { type JournalStore, openJournalStore, StoreMaintenance } from './journal-store.ts'
import { horizonOf, Retention } from './retention.ts'
import { expiryRulesOf, timesOf } from './rules.ts'

/** State that can be read. */
export interface ReadState {
  readonly views: Views
  readonly past: Past
  readonly queries: Queries
}

/** The projections of a journal: those with rows in the store see a write first, then those of the bus. */
export class Projections {
  readonly views: Views
  readonly history: History
  readonly idempotencyKeys: IdempotencyKeys
  readonly mergedEdits: MergedEdits
  readonly bus = new EventBus()

  /** @param dataFileId identifies the imports of this node's data file in a cluster */
  constructor(views: Views, dataFileId?: string) {
    this.views = views
    this.history = new History(views)
    this.idempotencyKeys = new IdempotencyKeys(views.store)
    this.mergedEdits = new MergedEdits(views.store, dataFileId)
    // In this order, after the collections and in their transactions.
    views.storeWith(this.history, this.idempotencyKeys, this.mergedEdits)
  }

  /** Applies all further writes of a journal. */
  follow(journal: Pick<Journal, 'follow'>, others: Omit<AppliedProjections, 'views'> = {}): void {
    this.bus.add({ ...others, views: this.views })
    journal.follow((recorded) => this.bus.publish(recorded))
  }

  /** @param pastItems Limits.PastItems */
  past(journal: Journal, memory: MemoryBudget, pastItems?: number): Past {
    return new Past(journal, this.views, this.history, memory, pastItems)
  }
}

/** Names of the projections, in the order in which they see a write that the store has. */
const ORDER = [
  // All others read the views.
  'views',
  // Responds to the client.
  'handler',
  'dataFile',
  // Builds the configured indexes of new collections.
  'queries',
  'fieldList',
  'sockets',
  // Wakes event streams, and requests that wait for a position.
  'arrivals',
  'shadowed',
  // Writes, so it comes last.
  'retention',
] as const

type AppliedProjections = Readonly<Partial<Record<(typeof ORDER)[number], Projection>>>

/** Applies every write to the projections, whose order does not depend on when they were added. */
export class EventBus {
  #byName: AppliedProjections = {}
  #inOrder: readonly Projection[] = []

  add(projections: AppliedProjections): void {
    this.#byName = { ...this.#byName, ...projections }
    this.#inOrder = ORDER.flatMap((name) => this.#byName[name] ?? [])
  }

  publish(recorded: Recorded): void {
    for (const projection of this.#inOrder) projection.apply(recorded)
  }
}

interface DurableProjectionsOptions {
  readonly settings: Settings
  /** Those of the rules: a natural key that a decision derived is not derived again. */
  readonly keyFields: KeyFields
  readonly dependencies: EngineDependencies
  /** Identifies the imports of this node's data file in a cluster. */
  readonly dataFileId?: string
}

interface CheckpointedJournal extends Journal {
  checkpoint(): Checkpoint | undefined
}

export interface StoreStatus {
  readonly state: 'current' | 'building' | 'full'
  /** Position of its last event. */
  readonly position: Position
  readonly bytes: number
  /** About how long it takes until it is current. */
  readonly secondsLeft?: number
  readonly detail?: string
}

/** Approximate maximum of rows of an event besides its item. */
const ROWS_AN_EVENT = 8
const ROW_BYTES = 1024
/** Approximate maximum that a transaction stores. */
const EVENTS_AT_ONCE = 256
const BYTES_AT_ONCE = 1024 * 1024

/** Requests that still read the former store have so long. */
const FORMER_MS = 60_000
const NO_ROOM = 'the disk has no room for the store'

/**
 * The projections of a journal, in a store on disk.
 *
 * | After | The store | Then the engine |
 * |---|---|---|
 * | `open` | is at its checkpoint | opens the journal with `opening`, which reads it from the checkpoint on |
 * | `createHandler` | is saved with the checkpoint of the journal from now on | calls `follow`, which publishes further writes |
 * | `catchUp` | has all of the journal | reads the data file |
 * | `begin` | is compacted in its hours; the journal before the checkpoint is verified | accepts writes |
 * | `end` | stops its background work; `catchUp` throws | waits until its start has ended |
 * | `close` | is synced and closed | has closed the journal before |
 */
export class DurableProjections extends Projections {
  readonly #options: DurableProjectionsOptions
  readonly #opened: JournalStore
  readonly #maintenance: StoreMaintenance
  readonly #expiryRules: ReadonlyMap<string, ExpiryRule>
  readonly #checkpoint: StoredCheckpoint
  /** The store's checkpoint when it was opened. */
  readonly #openedAt: Checkpoint | undefined
  readonly #logProgress: ProgressLog
  readonly #estimate: Estimate
  #secondsLeft: number | undefined
  readonly #log: LimitedLog
  #queries: Queries | undefined
  #check: JournalCheck | undefined
  #journal: CheckpointedJournal | undefined
  #isClosed = false
  #isBuilt = false

  private constructor(options: DurableProjectionsOptions, opened: JournalStore) {
    const { settings, keyFields, dependencies, dataFileId } = options
    const { collections } = settings
    const rules = expiryRulesOf(collections)
    const expiryTimes = new Map(Array.from(rules.values(), ({ collection, time }) => [collection, time]))
    const times = timesOf(collections)
    super(new Views(opened.store, { keyFields, expiryTimes, times }), dataFileId)
    this.#expiryRules = rules
    this.#options = options
    this.#opened = opened
    this.#maintenance = new StoreMaintenance(opened, settings, dependencies)
    this.#checkpoint = new StoredCheckpoint(opened.store)
    this.#openedAt = opened.checkpoint
    this.#logProgress = progressLog(dependencies.log, dependencies.elapsedMs)
    this.#estimate = new Estimate(dependencies.elapsedMs)
    this.#log = new LimitedLog(dependencies.log, dependencies.elapsedMs)
    const { store } = opened
    const makeRoom = store.full
    store.full = () => {
      makeRoom()
      void this.#closeFormer()
      this.#noteRoom(false)
    }
    this.views.saveWith(({ visible }) => {
      const checkpoint = this.#journal?.checkpoint()
      if (checkpoint?.next.position === visible + 1) this.#checkpoint.save(checkpoint)
    })
  }

  /**
   * Opens the store of a journal that this process has locked.
   * @throws {JournalMismatch} when the journal lost its end or continued differently.
   */
  static async open(options: DurableProjectionsOptions): Promise<DurableProjections> {
    return new DurableProjections(options, await openJournalStore(options.settings, options.dependencies))
  }

  get status(): StoreStatus {
    const position = this.views.applied
    const bytes = this.#opened.directory.bytes
    if (this.views.isFull) return { state: 'full', position, bytes, detail: 'The disk is full.' }
    if (this.#isBuilt) return { state: 'current', position, bytes }
    const secondsLeft = this.#secondsLeft
    return { state: 'building', position, bytes, ...(secondsLeft !== undefined && { secondsLeft }) }
  }

  /** Created on first use; builds the configured indexes. */
  get queries(): Queries {
    const { settings, dependencies } = this.#options
    const { limits, collections } = settings
    const turns = new Turns({ memory: dependencies.memory })
    this.#queries ??= new Queries({ views: this.views, bytes: limits.indexBytes, collections, turns })
    return this.#queries
  }

  /** The state of the store with damaged rows; undefined if there is none, or it cannot be read at all. */
  former(journal: Journal): ReadState | undefined {
    const { settings, dependencies } = this.#options
    const { former } = this.#opened
    if (!former) return undefined
    const { memory } = dependencies
    try {
      const views = new Views(former, { times: timesOf(settings.collections), isReadOnly: true })
      const turns = new Turns({ memory })
      const queries = new Queries({ views, bytes: settings.limits.indexBytes, turns, isReadOnly: true })
      return { views, queries, past: new Projections(views).past(journal, memory, settings.limits.pastItems) }
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      return undefined
    }
  }

  get hasRoom(): boolean {
    return this.#hasRoom(1, 0)
  }

  /** Options for opening the journal, to continue from the store. */
  get opening(): Omit<FileJournalOptions, 'lock' | 'failed'> {
    const { settings, dependencies } = this.#options
    const { files, now, newId, schedule, elapsedMs, log } = dependencies
    const { journal: directory, segmentBytes, compressAfter } = settings
    return {
      files,
      directory,
      segmentBytes,
      ...(compressAfter !== 'off' && { compress: { afterMs: 1000 * compressAfter, schedule, log } }),
      now,
      newId,
      log: new LimitedLog(log, elapsedMs),
      from: this.#openedAt,
      progress: (segments, of) => this.#logProgress({ segments, of }, 'the journal is being read and checked'),
      hasRoom: (events, bytes) => this.#hasRoom(events, bytes),
      project: (batch) => this.views.put(batch),
    }
  }

  /** Creates the command handler of an open journal. */
  createHandler(journal: CheckpointedJournal, rules: Rules, now: () => Date): CommandHandler {
    this.#journal = journal
    // The clock may be behind the last event after it was set back.
    const nowMs = (): number => Math.max(now().getTime(), journal.timeMs)
    return new CommandHandler({
      journal,
      durable: this.views.any,
      rules: { ...rules, nowMs, received: receipts(nowMs), horizonMs: (name) => this.#horizonMs(name) },
      now,
      memory: this.#options.dependencies.memory,
      elapsedMs: this.#options.dependencies.elapsedMs,
      idempotencyKeys: this.idempotencyKeys,
      select: (command, memory) => this.#select(command, memory),
      atomicItems: this.#options.settings.limits.atomicItems,
    })
  }

  /** Only by a rule that was confirmed. */
  #horizonMs(name: string): number | undefined {
    const rule = this.#expiryRules.get(name)
    const isConfirmed = rule !== undefined && this.views.find(name)?.facts.rule === rule.text
    return isConfirmed ? horizonOf(rule, this.views.receipt) : undefined
  }

  /** Lets items expire after its `begin`; on a read-only server nothing does. */
  retention(handler: Pick<CommandHandler, 'expire'>, isLeader = () => true): Retention {
    const { dependencies, settings } = this.#options
    const { now, elapsedMs, newId } = dependencies
    const [views, log] = [this.views, this.#log]
    const rules = settings.api.readOnly ? new Map<string, ExpiryRule>() : this.#expiryRules
    return new Retention({ views, handler, rules, now, elapsedMs, newId, log, isLeader })
  }

  /**
   * Stores what the journal has beyond the store, and builds the natural keys that the settings want. What is stored
   * remains after an interruption. Waits while the disk is full.
   * @throws {JournalMismatch} when the items have their ids in another field.
   * @throws {Refusal} `Conflict` when two items have the same natural key.
   */
  async catchUp(journal: CheckpointedJournal, idField: string): Promise<void> {
    await this.#checkJournal(journal)
    await this.views.build(journal.read(this.views.position + 1), {
      waits: true,
      isAlone: !this.#opened.former,
      built: () => {
        if (this.#isClosed) throw new Ended()
        const { applied: position } = this.views
        const of = journal.head
        this.#secondsLeft = this.#estimate.secondsLeft(position, of)
        this.#logProgress({ position, of }, 'the store is being built from the journal')
      },
    })
    const checkpoint = journal.checkpoint()
    const isSaved = !this.#opened.former && checkpoint?.next.position === this.#openedAt?.next.position
    if (checkpoint && !isSaved) this.#saveCheckpoint(checkpoint)
    this.#isBuilt = true
    if (this.#opened.former) this.#options.dependencies.schedule(() => void this.#closeFormer(), FORMER_MS)
    checkIdField(this.views, idField)
    if (this.views.hasNaturalKeys) return
    const message = 'the natural keys that the settings want are being built'
    this.#options.dependencies.log.info(message)
    await this.views.buildNaturalKeys((places, of) => this.#logProgress({ places, of }, message))
  }

  begin(): void {
    this.queries.apply()
    void this.views.pack()
    this.#maintenance.begin()
    this.#check?.begin(this.#openedAt)
    void this.#countEarlierEvents()
    void this.views.tidyNaturalKeys()
  }

  /** Events that an earlier version stored. They are never needed for a write, so a failure leaves them uncounted. */
  async #countEarlierEvents(): Promise<void> {
    const { log } = this.#options.dependencies
    if (this.views.eventCounts.isComplete || !this.#journal) return
    log.info('the events are being counted for the first time')
    try {
      await this.views.countEarlier(this.#journal)
    } catch (error) {
      if (!this.#isClosed) log.error({ error }, 'the events could not be counted; the next start continues')
    }
  }

  /** Reports damage of the journal from now on, and verifies it after `begin`; repairs it from another copy. */
  check(log: SegmentLog, source?: RecordSource): JournalCheck {
    const { settings, dependencies } = this.#options
    const { directory } = this.#opened
    const doubt = (why: string): void => directory.doubt(why)
    this.#check = new JournalCheck({ log, source, directory: settings.journal, dependencies, doubt })
    return this.#check
  }

  /** Ends background work soon. */
  end(): void {
    this.#isClosed = true
    this.#check?.end()
    this.#maintenance.end()
    this.views.end()
  }

  async close(): Promise<void> {
    this.end()
    await this.#maintenance.close()
    await this.#closeFormer()
    const { directory, store } = this.#opened
    await directory.close(store)
  }

  async #closeFormer(): Promise<void> {
    const { directory, former } = this.#opened
    if (former) await directory.closeFormer(former)
  }

  /** Without space, the next write saves the checkpoint, or the next start reads from an earlier one. */
  #saveCheckpoint(checkpoint: Checkpoint): void {
    try {
      this.#opened.store.transaction(() => this.#checkpoint.save(checkpoint))
    } catch (error) {
      if (!isOutOfSpace(error)) throw error
    }
  }

  /** Throws if the store belongs to another journal; a new store gets the id of this one. */
  async #checkJournal({ id, head }: Journal): Promise<void> {
    const key = tableKey(TAG.state, 1)
    const known = this.#opened.store.newest(key)?.toString()
    const { settings } = this.#options
    if (known !== undefined && (known !== id || head < this.views.applied)) {
      throw new JournalMismatch(
        `The store ${settings.store} has position ${this.views.applied} of the journal ${known}, and ` +
          `${settings.journal} holds ${id} up to position ${head}. Remove the store to build it from this journal.`,
      )
    }
    if (known !== undefined) return
    await this.views.onceRoom(() => this.#opened.store.transaction(() => this.#opened.store.set(key, Buffer.from(id))))
  }

  async #select(
    { collection: name, filters, seconds }: DeleteItems,
    memory: Memory,
  ): Promise<SelectedItems | undefined> {
    const collection = this.views.find(name)
    if (!collection) return undefined
    const { queryParameters: parameters, pageSize } = this.#options.settings.limits
    const context = { time: this.queries.timeOf(name), now: this.#options.dependencies.now().getTime() }
    const parsed = parseParameters(filters, parameters)
    memory.hold(bytesOfParameters(parsed))
    const query = parseQuery(parsed, { parameters, pageSize }, context)
    const limit = seconds === undefined ? undefined : { seconds, refusal: () => scanTimeout(seconds) }
    return this.queries.select(collection, query, { isGone: () => false, limit, memory })
  }

  #hasRoom(events: number, bytes: number): boolean {
    // A large write takes many transactions, and waits for space in between.
    const rows = ROWS_AN_EVENT * (1 + Math.min(events, EVENTS_AT_ONCE))
    const most = ROW_BYTES * rows + Math.min(bytes, BYTES_AT_ONCE)
    const hasRoom = !this.views.isFull && this.#opened.store.hasRoom(rows, most)
    this.#noteRoom(hasRoom)
    return hasRoom
  }

  #noteRoom(hasRoom: boolean): void {
    const facts = { path: this.#options.settings.store }
    if (hasRoom) this.#log.recovered(NO_ROOM, facts, 'the disk has room for the store again')
    else this.#log.error(facts, NO_ROOM)
  }
}

/** Items of each collection that are checked. */
const CHECKED_ITEMS = 20

/**
 * Refuses items that have their ids in another member than the setting says: they were written with another setting.
 * @throws {JournalMismatch}
 */
function checkIdField(views: Pick<Views, 'names' | 'find'>, idField: string): void {
  for (const name of views.names()) {
    const collection = views.find(name)
    if (!collection || collection.isObject) continue
    let checked = 0
    for (const { id, value } of collection.items()) {
      if (own(value, idField) !== id) {
        const field = Object.keys(value).find((member) => value[member] === id)
        const hint = field === undefined ? '' : ` It seems to be ${JSON.stringify(field)}.`
        throw new JournalMismatch(
          `The journal was written with another DataStore.IdField than ${JSON.stringify(idField)}: the item ${JSON.stringify(id)} of ${JSON.stringify(name)} has its id in another field.${hint} Start with that setting, or begin a new journal with --journal.`,
        )
      }
      if (++checked === CHECKED_ITEMS) break
    }
  }
}
