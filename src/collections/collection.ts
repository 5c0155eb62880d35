import { type DomainEvent, type ItemId, isItemEvent, type Position } from '../events/event.ts'
import { atOnce, type Steps } from '../slices.ts'
import { type Gone, Item, integerOf, keyOf } from './item.ts'
import { KeyMap } from './key-map.ts'
import { Keys } from './keys.ts'
import { PLACES, Places } from './places.ts'

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

/** Hears of every change of a collection, after it. */
export interface CollectionObserver {
  /** There is another item at the place, or the first. */
  put(place: number, item: Item): void
  removed(place: number): void
  /** Every item has another place now. */
  reordered(): void
}

/** A collection in memory: durable state, one per name. Its items stand at places, in the collection's order. */
export class Collection implements FoldTarget {
  readonly name: string
  exists = false
  nextId = 0
  textIds = 0
  position: Position = 0
  #placeOf = new Keys()
  #items = new Places<Item>()
  #gone = new KeyMap<Gone>()
  #observer: CollectionObserver | undefined

  constructor(name: string) {
    this.name = name
  }

  get size(): number {
    return this.#items.size
  }

  /** Above the places of all items. */
  get places(): number {
    return this.#items.next
  }

  get(key: string): Item | Gone | undefined {
    return this.item(key) ?? this.#gone.get(key)
  }

  item(key: string): Item | undefined {
    const place = this.#placeOf.get(key)
    return place === undefined ? undefined : this.#items.get(place)
  }

  items(): IterableIterator<Item> {
    return this.#items.values()
  }

  /** The items from the nth on, the first being 0; it costs the same wherever they stand. */
  slice(offset: number, size: number): Item[] {
    return this.#items.slice(offset, size)
  }

  /** Where an item stands. */
  placeOf(id: ItemId): number | undefined {
    return this.#placeOf.of(id)
  }

  itemAt(place: number): Item | undefined {
    return this.#items.get(place)
  }

  /** The first place from here on that has an item; `places` when there is none. */
  seek(place: number): number {
    return this.#items.seek(place)
  }

  /** From now on one observer hears of the changes. */
  observe(observer: CollectionObserver): void {
    this.#observer = observer
  }

  /** The items as they are now, in their order; what comes later changes nothing of it. */
  snapshot(): Iterable<Item> {
    return this.#items.snapshot()
  }

  /** What is left of the items that were deleted, by key; what comes later may be seen or not. */
  gone(): Iterable<readonly [string, Gone]> {
    return this.#gone
  }

  put(item: Item): void {
    let place = this.#placeOf.of(item.id)
    if (place === undefined) {
      if (this.#items.next === PLACES) this.order([])
      place = this.#items.add(item)
      this.#placeOf.set(item.id, place)
      if (this.#gone.size > 0) this.#gone.delete(item.key)
    } else this.#items.replace(place, item)
    this.#observer?.put(place, item)
  }

  remove(key: string, gone: Gone): void {
    this.#gone.set(key, gone)
    const place = this.#placeOf.get(key)
    if (place === undefined) return
    this.#placeOf.delete(key)
    this.#items.remove(place)
    this.#observer?.removed(place)
  }

  /** Another collection in the same state; what is folded into one is not seen in the other. It costs next to nothing. */
  copy(): Collection {
    const copy = new Collection(this.name)
    copy.exists = this.exists
    copy.nextId = this.nextId
    copy.textIds = this.textIds
    copy.position = this.position
    copy.#items = this.#items.copy()
    copy.#placeOf = this.#placeOf.copy()
    copy.#gone = this.#gone.copy()
    return copy
  }

  /** Takes over the state of another, which is not to be used any more. */
  become(other: Collection): void {
    this.exists = other.exists
    this.nextId = other.nextId
    this.textIds = other.textIds
    this.position = other.position
    this.#items = other.#items
    this.#placeOf = other.#placeOf
    this.#gone = other.#gone
    this.#observer?.reordered()
  }

  /** The named items in this order, then any others as they were. */
  order(keys: readonly string[]): void {
    atOnce(this.ordering(keys))
    this.#observer?.reordered()
  }

  /** The same in steps, of a copy that nobody looks at yet. */
  *ordering(keys: Iterable<string>): Steps<void> {
    const before = this.#items
    const placeBefore = this.#placeOf
    this.#items = new Places()
    this.#placeOf = new Keys()
    for (const key of keys) {
      const place = placeBefore.get(key)
      const item = place === undefined ? undefined : before.get(place)
      if (!item || place === undefined) continue
      before.remove(place)
      this.#placeOf.set(item.id, this.#items.add(item))
      yield
    }
    for (const item of before.values()) {
      this.#placeOf.set(item.id, this.#items.add(item))
      yield
    }
  }
}
