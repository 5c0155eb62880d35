import { type DomainEvent, isItemEvent, type Position } from '../events/event.ts'
import { type Gone, Item, integerOf, keyOf } from './item.ts'

/** A collection as it may be asked. */
export interface CollectionState {
  readonly name: string
  /** False before its creation and after its removal; the ids it once had are remembered all the same. */
  readonly exists: boolean
  /** The integer that the next POST gets: one above the highest ever used. */
  readonly nextId: number
  /** How many of its items have an id that is text. */
  readonly textIds: number
  /** Of the last event that concerned it. */
  readonly position: Position
  /** The item, or what is left of it after its deletion; undefined when there never was one. */
  get(key: string): Item | Gone | undefined
  /** The items in their order. */
  items(): Iterable<Item>
}

/** What the fold needs in order to write. */
export interface FoldTarget extends CollectionState {
  exists: boolean
  nextId: number
  textIds: number
  position: Position
  put(item: Item): void
  remove(key: string, gone: Gone): void
  order(keys: readonly string[]): void
}

export function isItem(entry: Item | Gone | undefined): entry is Item {
  return entry instanceof Item
}

/** The one fold, for commands and projections alike: what an event makes of its collection. */
export function evolve(target: FoldTarget, event: DomainEvent, position: Position): void {
  target.position = position
  if (isItemEvent(event)) {
    const key = keyOf(event.id)
    const before = target.get(key)
    if (isItem(before) && typeof before.id === 'string') target.textIds--
    if (event.type === 'ItemDeleted') {
      target.remove(key, { revision: event.revision, position })
      return
    }
    if (typeof event.id === 'string') target.textIds++
    target.nextId = Math.max(target.nextId, (integerOf(event.id) ?? -1) + 1)
    target.put(new Item(event.id, event.item, event.revision, position))
    return
  }
  switch (event.type) {
    case 'CollectionCreated':
      target.exists = true
      return
    case 'CollectionRemoved':
      target.exists = false
      return
    case 'CollectionOrdered':
      target.order(event.ids.map(keyOf))
      return
    default:
      event satisfies never
  }
}

/** A collection in memory: durable state, one per name. */
export class Collection implements FoldTarget {
  readonly name: string
  exists = false
  nextId = 0
  textIds = 0
  position: Position = 0
  #items = new Map<string, Item>()
  readonly #gone = new Map<string, Gone>()

  constructor(name: string) {
    this.name = name
  }

  get size(): number {
    return this.#items.size
  }

  get(key: string): Item | Gone | undefined {
    return this.#items.get(key) ?? this.#gone.get(key)
  }

  item(key: string): Item | undefined {
    return this.#items.get(key)
  }

  items(): IterableIterator<Item> {
    return this.#items.values()
  }

  put(item: Item): void {
    this.#items.set(item.key, item)
    this.#gone.delete(item.key)
  }

  remove(key: string, gone: Gone): void {
    this.#items.delete(key)
    this.#gone.set(key, gone)
  }

  /** Another collection in the same state; what is folded into one is not seen in the other. */
  copy(): Collection {
    const copy = new Collection(this.name)
    copy.exists = this.exists
    copy.nextId = this.nextId
    copy.textIds = this.textIds
    copy.position = this.position
    for (const [key, item] of this.#items) copy.#items.set(key, item)
    for (const [key, gone] of this.#gone) copy.#gone.set(key, gone)
    return copy
  }

  /** The named items in this order, then any others as they were. */
  order(keys: readonly string[]): void {
    const before = this.#items
    this.#items = new Map()
    for (const key of keys) {
      const item = before.get(key)
      if (item) this.#items.set(key, item)
      before.delete(key)
    }
    for (const [key, item] of before) this.#items.set(key, item)
  }
}
