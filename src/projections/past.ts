import type { Collection } from '../collections/collection.ts'
import { Item, isItem } from '../collections/item.ts'
import { type ItemId, itemChanges, type Position } from '../events/event.ts'
import type { Journal } from '../events/journal.ts'
import { isOutOfSpace } from '../files/files.ts'
import { parseText } from '../json/parse.ts'
import type { JsonObject } from '../json/value.ts'
import { type CollectionSnapshot, PresentSnapshot } from '../query/collection-snapshot.ts'
import { Corruption, Refusal } from '../runtime/errors.ts'
import { Memory, type MemoryBudget, wouldNeverFit } from '../runtime/memory.ts'
import { Abandoned, type Asker, Semaphore, type Turn, Turns } from '../runtime/turns.ts'
import type { History } from './history.ts'
import { positionAt } from './moment.ts'
import { PastSnapshot } from './past-snapshot.ts'
import { FOR_A_REQUEST, Views } from './views.ts'

/** Highest total size on disk of cached folded states. */
const CACHED_BYTES = 512 * 1024 * 1024
/** Highest number of cached states. */
const MOST_STATES = 8
/** How long a state is cached after its last use; the store keeps replaced rows meanwhile. */
const CACHED_MS = 30_000
/** Highest age of a cached state, so that replaced rows are not kept for ever. */
const MOST_MS = 300_000
/** Approximate size on disk of an item besides its text. */
const ITEM_BYTES = 120
/** The memory of a changed item that `turnBack` finds. */
const CHANGED_BYTES = 150
/** Highest number of states computed at a time, since each reads the journal and holds its progress. */
const COMPUTED_AT_ONCE = 2
/** Highest number of items read at a time: others are served after each, as decoding a long one takes 5 ms. */
const READ_AT_ONCE = 4

/** The default of Limits.PastItems. */
export const PAST_ITEMS = 200_000

const NEVER_GONE: Asker = { isGone: () => false }

interface ComputingAsker extends Asker {
  readonly memory: Memory
}

/** A past state, complete or being computed. */
interface CachedState {
  readonly key: string
  readonly computed: Promise<ComputedState>
  /** Undefined until it is computed. */
  snapshot: CollectionSnapshot | undefined
  /** The clients that wait for it. */
  readonly askers: Asker[]
  /** Its size on disk, if it was folded. */
  bytes: number
  /** Holds what it has in memory, while it is cached or read. */
  readonly memory: Memory
  /** Number of readers. */
  readers: number
  usedMs: number
  readonly createdMs: number
}

interface ComputedState {
  readonly snapshot: CollectionSnapshot
  readonly bytes: number
}

/** A past state of a collection. */
interface PastState extends CollectionSnapshot {
  /** The memory that is held for it. */
  readonly memoryBytes: number
}

/** The items of a collection that match. */
interface CollectionFilter {
  readonly name: string
  readonly matches: (item: JsonObject) => boolean
}

/**
 * Reads the past. An item is read from the journal, at a position from its history. A collection is derived from the
 * present and the changes since; if there are too many of them for the memory, or its order changed, it is folded again.
 * States are cached for a while:
 *
 * | State | In `#states` | Next state |
 * |---|---|---|
 * | computed | yes | read, by those who waited for it; none, if it fails or all who waited are gone |
 * | read | until it is too old for new readers | unused, when its last reader releases it |
 * | unused | yes | read again; released, CACHED_MS after its last use, or earlier if there are many, or others need the memory |
 * | released | no | none: the store keeps no replaced rows for it |
 */
export class Past {
  readonly #journal: Pick<Journal, 'head' | 'read' | 'at'>
  readonly #views: Views
  readonly #history: History
  /** By position and collection, the least recently used first. */
  readonly #states = new Map<string, CachedState>()
  readonly #computing = new Semaphore(COMPUTED_AT_ONCE)
  readonly #reading = new Semaphore(READ_AT_ONCE)
  readonly #turns: Turns
  readonly #memory: MemoryBudget
  readonly #mostExpired: number
  #evictionTimer: NodeJS.Timeout | undefined

  /** @param mostExpired highest number of items that expired since a state of a collection */
  constructor(
    journal: Pick<Journal, 'head' | 'read' | 'at'>,
    views: Views,
    history: History,
    memory: MemoryBudget,
    mostExpired = PAST_ITEMS,
  ) {
    this.#turns = new Turns()
    this.#mostExpired = mostExpired
    this.#memory = memory
    memory.addCache(() => this.#dropUnused())
    this.#journal = journal
    this.#views = views
    this.#history = history
  }

  /** The position of the last event up to an instant, in milliseconds since 1970; 0 if there is none. */
  positionAt(ms: number): Promise<Position> {
    return positionAt(this.#journal, this.#history, ms)
  }

  /** Whether the collection existed right after an event. */
  existed(name: string, at: Position): boolean {
    return this.#history.existed(name, at)
  }

  /** The names of the collections right after an event. */
  names(at: Position, asker = NEVER_GONE): Promise<readonly string[]> {
    return this.#turns.run(async (turn) => {
      const names: string[] = []
      for (const name of this.#views.namesEver()) {
        if (turn.isOver) await turn.next()
        if (this.existed(name, at)) names.push(name)
      }
      return names
    }, asker)
  }

  /** The item right after an event. */
  async item(collection: string, key: string, at: Position): Promise<Item | undefined> {
    const now = this.#views.any(collection)?.get(key)
    if (!now || now.position <= at) return isItem(now) ? now : undefined
    const last = await this.#reading.run(() => this.#history.lastEventOf(this.#journal, collection, key, at))
    if (!last || !('item' in last.event)) return undefined
    const { event, position } = last
    return new Item(event.id, event.item, event.revision, position)
  }

  /**
   * The state of a collection, which must have existed, right after an event. The caller must release it. Throws when
   * all clients that wait for it have disconnected.
   */
  async collection(name: string, at: Position, asker = NEVER_GONE): Promise<PastState> {
    const now = this.#views.any(name) as Collection
    // After its last event, its state is the same at any position.
    const position = Math.min(at, now.position)
    const key = `${position} ${name}`
    const found = this.#states.get(key)
    // One that is too old is replaced, and released by its last reader.
    const known = found && performance.now() - found.createdMs < MOST_MS ? found : undefined
    const state = known ?? this.#beginComputing(key, now, position, asker)
    if (known) known.askers.push(asker)
    state.readers++
    // Moves it to the end.
    this.#states.delete(key)
    this.#states.set(key, state)
    if (found && !known) this.#release(found)
    try {
      const { snapshot, bytes } = await state.computed
      state.askers.length = 0
      state.bytes = bytes
      state.snapshot = snapshot
      this.#evict()
      return { ...releasing(snapshot, at, () => this.#endRead(state)), memoryBytes: state.memory.bytes }
    } catch (error) {
      if (this.#states.get(key) === state) this.#states.delete(key)
      state.memory.release()
      throw error
    }
  }

  /**
   * The number of items of a collection, which must have existed, right after an event; null for a single object. Items
   * are read only if too many have changed since.
   */
  async size(name: string, at: Position, asker = NEVER_GONE): Promise<number | null> {
    if (this.#history.wasObject(name, at)) return null
    const now = this.#views.any(name) as Collection
    if (at >= now.position) return now.size
    const memory = new Memory(this.#memory, 'past')
    const sources = this.#sources(memory)
    try {
      const counter = { isGone: () => asker.isGone(), memory }
      const count = (turn: Turn): Promise<number | undefined> => PastSnapshot.sizeAt(now, at, sources, turn)
      const size = await this.#computing.run(() => this.#turns.run(count, counter))
      if (size !== undefined) return size
    } catch (error) {
      if (!wouldNeverFit(error)) throw error
    } finally {
      memory.release()
    }
    const state = await this.collection(name, at, asker)
    state.release()
    return state.items.size
  }

  /**
   * Turns the ids of the matching items at one position into those at an earlier position. The cost is proportional to
   * the changes in between. False if more than `most` items were changed; the ids are then unchanged. Throws when the
   * client has disconnected.
   */
  async turnBack(
    ids: Map<string, ItemId>,
    now: Position,
    then: Position,
    { name, matches }: CollectionFilter,
    most: number,
    asker: Asker,
  ): Promise<boolean> {
    /** The changed items, each with the position of its last event up to `then`. */
    const changed = new Map<string, Position>()
    for await (const { events } of this.#journal.read(then + 1, now)) {
      if (asker.isGone()) throw new Abandoned()
      for (const event of events) {
        if (event.collection !== name) continue
        for (const { id, prior } of itemChanges(event)) {
          const key = String(id)
          if (changed.has(key)) continue
          asker.memory?.hold(CHANGED_BYTES)
          changed.set(key, prior)
        }
      }
      if (changed.size > most) return false
    }
    for (const key of changed.keys()) ids.delete(key)
    const versions = Array.from(changed.values()).filter((prior) => prior > 0)
    for await (const { events } of this.#journal.at(versions.sort((a, b) => a - b))) {
      if (asker.isGone()) throw new Abandoned()
      for (const event of events) {
        if (!('item' in event)) continue
        if (matches(parseText(event.item.text) as JsonObject)) ids.set(String(event.id), event.id)
      }
    }
    return true
  }

  #beginComputing(key: string, now: Collection, at: Position, asker: Asker): CachedState {
    const askers = [asker]
    const isGone = (): boolean => {
      const areAllGone = askers.every((one) => one.isGone())
      // The computation ends, so that later requests start another one.
      if (areAllGone) this.#states.delete(key)
      return areAllGone
    }
    const memory = new Memory(this.#memory, 'past')
    const all = { isGone, memory }
    const computed = this.#computing.run(() => this.#turns.run((turn) => this.#compute(now, at, all, turn), all))
    const createdMs = performance.now()
    return { key, computed, snapshot: undefined, askers, bytes: 0, memory, readers: 0, usedMs: 0, createdMs }
  }

  async #compute(now: Collection, at: Position, asker: ComputingAsker, turn: Turn): Promise<ComputedState> {
    const sources = {
      ...this.#sources(asker.memory),
      indexes: this.#views.indexes.of(now.facts.table),
      others: Array.from(this.#states.values()).flatMap(({ snapshot }) =>
        snapshot instanceof PastSnapshot && snapshot.isOf(now) ? [snapshot] : [],
      ),
    }
    try {
      const past = await PastSnapshot.at(now, at, sources, turn)
      if (past) return { snapshot: past, bytes: 0 }
    } catch (error) {
      // Expired items are not folded again: that would be all that ever came.
      if (!wouldNeverFit(error) || PastSnapshot.hasExpiredSince(now, at, sources)) throw error
    }
    asker.memory.release()
    try {
      return await this.#fold(now.name, at, asker)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') {
        throw new Corruption(`The directory ${this.#views.store.directory} was removed.`)
      }
      if (!isOutOfSpace(error)) throw error
      throw new Refusal('DiskFull', 'The disk is full: there is no room to compute a past state.', [], { cause: error })
    }
  }

  #sources(memory: Memory) {
    const [journal, history, mostExpired] = [this.#journal, this.#history, this.#mostExpired]
    return { store: this.#views.store, journal, history, memory, mostExpired }
  }

  /** Folds the state from the journal into a temporary store. */
  async #fold(name: string, at: Position, asker: Asker): Promise<ComputedState> {
    const views = Views.temporary(this.#views.store.directory, {
      wants: ({ collection }) => collection === name,
    })
    let bytes = 0
    const journal = this.#journal
    const writes = async function* () {
      for await (const recorded of journal.read(1, at)) {
        if (asker.isGone()) throw new Abandoned()
        for (const event of recorded.events) {
          if (event.collection === name && 'item' in event) bytes += ITEM_BYTES + event.item.text.length
        }
        yield recorded
      }
    }
    await views.build(writes(), FOR_A_REQUEST)
    return { snapshot: new PresentSnapshot(views.any(name) as Collection, []), bytes }
  }

  #endRead(state: CachedState): void {
    state.readers--
    state.usedMs = performance.now()
    if (this.#states.get(state.key) !== state) this.#release(state)
    this.#evict()
  }

  /** Releases a state that is no longer cached if nobody reads it; otherwise its last reader releases it. */
  #release({ readers, computed, memory }: CachedState): void {
    if (readers > 0) return
    memory.release()
    void computed.then(({ snapshot }) => snapshot.release())
  }

  /** Drops the unused state in memory that was used least recently. False if there is none. */
  #dropUnused(): boolean {
    for (const state of this.#states.values()) {
      if (state.readers > 0 || state.memory.bytes === 0) continue
      this.#states.delete(state.key)
      this.#release(state)
      return true
    }
    return false
  }

  /** Drops unused states that are too many or too old. */
  #evict(): void {
    const last = [...this.#states.values()].at(-1)
    let total = 0
    for (const { bytes } of this.#states.values()) total += bytes
    const oldestMs = performance.now() - CACHED_MS
    for (const state of this.#states.values()) {
      const { key, bytes, readers, usedMs } = state
      if (readers > 0) continue
      const isOld = usedMs <= oldestMs
      if (!isOld && (state === last || (total <= CACHED_BYTES && this.#states.size <= MOST_STATES))) continue
      this.#states.delete(key)
      total -= bytes
      this.#release(state)
    }
    if (this.#states.size === 0) return
    this.#evictionTimer ??= setTimeout(() => {
      this.#evictionTimer = undefined
      this.#evict()
    }, CACHED_MS).unref()
  }
}

/** The cached snapshot for one reader, with the position that this one asked for. */
function releasing(snapshot: CollectionSnapshot, at: Position, released: () => void): CollectionSnapshot {
  const { items, position, exists, indexes } = snapshot
  return {
    items,
    at,
    position,
    exists,
    indexes,
    keysOf: (index, turn) => snapshot.keysOf(index, turn),
    release: released,
  }
}
