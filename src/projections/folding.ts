import { evolve } from '../collections/collection.ts'
import { Draft, storedCollections } from '../collections/draft.ts'
import { keyOf } from '../collections/item.ts'
import { type DomainEvent, existsAfter, type ItemId, type Position } from '../events/event.ts'
import { lastPosition, positioned, type Recorded } from '../events/journal.ts'
import { TAG, tableKey } from '../store/keys.ts'
import type { Pin, Store } from '../store/store.ts'
import type { StoredIndexes } from './query/index/stored-indexes.ts'

/** What else of the journal is kept in the store, written in the transactions that write the collections. */
export interface StoredProjection {
  /** Each event, once. */
  event?(event: DomainEvent, position: Position): void
  /** Each write, when all of its events were told of. */
  write?(recorded: Recorded): void
}

/** How far the store is. */
export interface StoredState {
  /** Of the last event that is in the store; its write may have more. */
  readonly applied: Position
  /** Of the last event that readers see: the last one of a write. */
  readonly visible: Position
  /** Of the last event that created or removed a collection. */
  readonly names: Position
  /** The number of the next collection or table. */
  readonly next: number
}

export interface FoldingOptions {
  readonly store: Store
  readonly projections: readonly StoredProjection[]
  readonly indexes: StoredIndexes
  /** Writes what is to be kept with the state, in its transaction. */
  readonly save: (state: StoredState) => void
  readonly wants?: ((event: DomainEvent) => boolean) | undefined
  /** What was written is committed, and readers are to see it. */
  readonly show: (drafts: Iterable<readonly [number, Draft]>) => void
}

const BEGINNING: StoredState = { applied: 0, visible: 0, names: 0, next: 1 }

/** Of a transaction; an event weighs as much as its item has characters for each unit, and one more. About a millisecond's work. */
const MOST_WEIGHT = 640
const CHARACTERS = 2048
/** What an index of its collection adds. */
const INDEX_WEIGHT = 4

export function storedState(store: Store): StoredState {
  const found = store.newest(tableKey(TAG.state, 0))
  return found ? (JSON.parse(found.toString('utf8', 0, found.length)) as StoredState) : BEGINNING
}

/** Puts what the journal's writes make of the collections into the store. */
export class Folding {
  readonly #options: FoldingOptions
  /** As it was committed. */
  #state: StoredState
  #applied: Position = 0
  #visible: Position = 0
  #names: Position = 0
  #next = 0
  readonly #numbers = new Map<string, number>()
  /** By the collections' numbers. */
  readonly #drafts = new Map<number, Draft>()
  /** Of those, what is to be shown. */
  readonly #touched = new Map<number, Draft>()
  #pin: Pin | undefined
  /** Of the last event that readers see. */
  #shown: Position

  constructor(options: FoldingOptions) {
    this.#options = options
    this.#state = storedState(options.store)
    this.#shown = this.#state.visible
    this.#beginAgain()
  }

  get state(): StoredState {
    return this.#state
  }

  numberOf(name: string): number | undefined {
    return this.#numbers.get(name)
  }

  /**
   * Puts writes into the store, a transaction a step; readers see nothing of them before `show`. What the store has already
   * is passed over, so that it can be begun anew after it failed. `isRead` says whether there are readers.
   */
  *folding(batch: readonly Recorded[], isRead: boolean): Generator<undefined, void> {
    if (isRead && this.#weighsMuch(batch)) this.#pin ??= this.#options.store.pin(this.#shown)
    const steps = this.#steps(batch)
    while (!this.#transaction(steps)) yield
  }

  /** Readers see all that was put. */
  show(): void {
    this.#shown = this.#state.visible
    this.#options.show(this.#touched)
    for (const draft of this.#touched.values()) draft.shown()
    this.#touched.clear()
    this.#pin?.release()
    this.#pin = undefined
  }

  /** Whether it was the last one. */
  #transaction(steps: Generator<number, void>): boolean {
    const { store, save, indexes } = this.#options
    let isDone = false
    let state = this.#state
    try {
      store.transaction(() => {
        for (let weight = 0; weight < MOST_WEIGHT && !isDone; ) {
          const step = steps.next()
          isDone = step.done === true
          weight += step.value ?? 0
        }
        for (const [number, draft] of this.#touched) draft.save(number)
        state = { applied: this.#applied, visible: this.#visible, names: this.#names, next: this.#next }
        indexes.save(state.applied)
        store.set(tableKey(TAG.state, 0), Buffer.from(JSON.stringify(state)))
        save(state)
      })
    } catch (error) {
      indexes.abandoned()
      this.#beginAgain()
      throw error
    }
    this.#state = state
    indexes.committed()
    return isDone
  }

  /** Each step puts little, and says how much. */
  *#steps(batch: readonly Recorded[]): Generator<number, void> {
    const { projections, wants } = this.#options
    for (const recorded of batch) {
      const last = lastPosition(recorded)
      if (last <= this.#applied) continue
      const timeMs = Date.parse(recorded.time)
      for (const [position, event] of positioned(recorded)) {
        if (position <= this.#applied || wants?.(event) === false) continue
        const draft = this.#draftOf(event.collection)
        if (event.type === 'CollectionOrdered') {
          for (const _ of draft.ordering(keysOf(event.ids), this.#next++, position)) yield 1
        } else if (existsAfter(event) !== undefined) this.#names = position
        evolve(draft, event, position, timeMs)
        for (const projection of projections) projection.event?.(event, position)
        this.#applied = position
        if (position < last) yield this.#weightOf(event, draft)
      }
      for (const projection of projections) projection.write?.(recorded)
      this.#applied = last
      this.#visible = last
      const event = recorded.events.at(-1)
      yield this.#weightOf(event, event && this.#draftOf(event.collection))
    }
  }

  /** From what was committed. */
  #beginAgain(): void {
    const { store } = this.#options
    const { applied, visible, names, next } = this.#state
    this.#applied = applied
    this.#visible = visible
    this.#names = names
    this.#next = next
    this.#drafts.clear()
    this.#touched.clear()
    this.#numbers.clear()
    for (const [number, facts] of storedCollections(store)) {
      this.#numbers.set(facts.name, number)
      const draft = new Draft(store, facts, this.#options.indexes)
      this.#drafts.set(number, draft)
      if (applied > this.#shown) this.#touched.set(number, draft.unknown())
    }
    if (applied > this.#shown) this.#pin ??= store.pin(this.#shown)
  }

  /** Whether writes need several transactions. */
  #weighsMuch(batch: readonly Recorded[]): boolean {
    let weight = 0
    for (const { events } of batch) {
      for (const event of events) {
        // Of an order nobody knows how much there is to be moved.
        if (event.type === 'CollectionOrdered') return true
        weight += this.#weightOf(event, this.#drafts.get(this.#numbers.get(event.collection) ?? 0))
        if (weight > MOST_WEIGHT) return true
      }
    }
    return false
  }

  #weightOf(event: DomainEvent | undefined, draft: Draft | undefined): number {
    const indexes = draft ? this.#options.indexes.of(draft.facts.table).length : 0
    return 1 + INDEX_WEIGHT * indexes + (event && 'item' in event ? event.item.text.length / CHARACTERS : 0)
  }

  #draftOf(name: string): Draft {
    let number = this.#numbers.get(name)
    if (number === undefined) {
      number = this.#next++
      this.#numbers.set(name, number)
      const none = { exists: false, isObject: undefined, nextId: 0, textIds: 0 }
      const nothing = { ...none, position: 0, size: 0, places: 0, ordered: 0 }
      this.#drafts.set(
        number,
        new Draft(this.#options.store, { name, ...nothing, table: number }, this.#options.indexes),
      )
    }
    const draft = this.#drafts.get(number) as Draft
    this.#touched.set(number, draft)
    return draft
  }
}

function* keysOf(ids: readonly ItemId[]): Generator<string> {
  for (const id of ids) yield keyOf(id)
}
