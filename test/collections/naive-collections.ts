import { integerAfter, keyOf } from '../../src/collections/item.ts'
import { type DomainEvent, existsAfter, type ItemId, isItemEvent, type Position } from '../../src/events/event.ts'
import { Document } from '../../src/json/document.ts'
import type { Random } from '../support/random.ts'

interface NaiveItem {
  readonly key: string
  readonly id: ItemId
  readonly text: string
  readonly revision: number
  readonly position: Position
}

/** A collection as an array and a map. */
export class NaiveCollection {
  readonly name: string
  exists = false
  nextId = 0
  position: Position = 0
  items: readonly NaiveItem[] = []
  /** The last event of each item that ever existed. */
  last = new Map<string, { readonly revision: number; readonly position: Position }>()

  constructor(name: string) {
    this.name = name
  }

  get textIds(): number {
    return this.items.filter(({ id }) => typeof id === 'string').length
  }

  has(id: ItemId): boolean {
    return this.find(keyOf(id)) !== undefined
  }

  find(key: string): NaiveItem | undefined {
    return this.items.find((item) => item.key === key)
  }

  copy(): NaiveCollection {
    return Object.assign(new NaiveCollection(this.name), this, { last: new Map(this.last) })
  }

  apply(event: DomainEvent, position: Position): void {
    this.position = position
    if (event.type === 'CollectionCreated') this.exists = true
    else if (event.type === 'CollectionRemoved') this.exists = false
    else if (event.type === 'CollectionOrdered') {
      const named = [...new Set(event.ids.map(keyOf))].map((key) => this.find(key)).filter((item) => item !== undefined)
      this.items = [...named, ...this.items.filter((item) => !named.includes(item))]
    } else if (event.type === 'IdsReset') this.nextId = event.nextId
    else {
      if (!isItemEvent(event)) throw new Error(`what is ${event.type}?`)
      const { id, revision } = event
      const key = keyOf(id)
      const at = this.items.findIndex((item) => item.key === key)
      this.last.set(key, { revision, position })
      if (!('item' in event)) this.items = this.items.filter((_, index) => index !== at)
      else {
        const item = { key, id, text: event.item.text, revision, position }
        this.items = at < 0 ? [...this.items, item] : this.items.with(at, item)
        this.nextId = Math.max(this.nextId, integerAfter(id))
      }
    }
  }
}

/** Collections by name, in the order of their first creation. */
export class NaiveState {
  readonly collections = new Map<string, NaiveCollection>()
  head: Position = 0
  namesPosition: Position = 0

  /** Items in all collections. */
  get size(): number {
    return [...this.collections.values()].reduce((sum, { items }) => sum + items.length, 0)
  }

  copy(): NaiveState {
    const copy = new NaiveState()
    for (const [name, collection] of this.collections) copy.collections.set(name, collection.copy())
    copy.head = this.head
    copy.namesPosition = this.namesPosition
    return copy
  }

  collection(name: string): NaiveCollection {
    const known = this.collections.get(name) ?? new NaiveCollection(name)
    this.collections.set(name, known)
    return known
  }

  apply(event: DomainEvent): DomainEvent {
    this.collection(event.collection).apply(event, ++this.head)
    if (existsAfter(event) !== undefined) this.namesPosition = this.head
    return event
  }
}

/** Ids that are easily taken for each other; some have the same key, and are one item then. */
export const IDS: readonly ItemId[] = [
  ...[0, -0, '0', '00', 7, '7', '007', '7.0', -7, 7.5, '7.5', 2 ** 52, 2 ** 53 - 1, '9007199254740991', 1e21, '1e21'],
  ...['a', 'ab', 'a\0', '\0', 'a\0\0', 'ä', '😀', '__proto__', ' ', 'x'.repeat(256), 'x'.repeat(257), 'y'.repeat(5000)],
]

/** Makes events that may follow each other, and applies them to a naive state. */
export class EventMaker {
  readonly #random: Random
  readonly #state: NaiveState
  readonly #names: readonly string[]
  /** Integers below this one are ids, too. */
  readonly #integers: number

  constructor(random: Random, state: NaiveState, { names, integers }: { names: readonly string[]; integers: number }) {
    this.#random = random
    this.#state = state
    this.#names = names
    this.#integers = integers
  }

  /** Some events, in one write. */
  write(count: number): DomainEvent[] {
    const events: DomainEvent[] = []
    while (events.length < count) events.push(...this.#next())
    return events
  }

  order(): DomainEvent {
    const collection = this.#any()
    const ids = [...collection.items.map(({ id }) => id), ...IDS]
    const shuffled = ids.map((id) => ({ id, rank: this.#random.next() })).sort((a, b) => a.rank - b.rank)
    const some = shuffled.slice(0, this.#random.integer(ids.length + 1)).map(({ id }) => id)
    return this.#state.apply({ type: 'CollectionOrdered', collection: collection.name, ids: some })
  }

  /** One item is changed again and again, as a sensor's state is. */
  #any(): NaiveCollection {
    return this.#state.collection(this.#random.pick(this.#names))
  }

  #next(): DomainEvent[] {
    const random = this.#random
    const collection = this.#any()
    const { name } = collection
    if (!collection.exists) return [this.#state.apply({ type: 'CollectionCreated', collection: name })]
    if (random.chance(0.003)) {
      const ids = collection.items.map(({ id }) => id)
      return [
        ...ids.map((id) => this.#item(name, id, 'ItemDeleted')),
        this.#state.apply({ type: 'CollectionRemoved', collection: name }),
      ]
    }
    if (random.chance(0.01)) return [this.order()]
    if (random.chance(0.02)) {
      const nextId = random.integer(collection.nextId + 1)
      return [this.#state.apply({ type: 'IdsReset', collection: name, nextId })]
    }
    const id = random.chance(0.3) ? random.pick(IDS) : random.integer(this.#integers)
    const types = collection.has(id)
      ? (['ItemReplaced', 'ItemPatched', 'ItemDeleted'] as const)
      : (['ItemCreated'] as const)
    return [this.#item(name, id, random.pick<(typeof types)[number]>(types))]
  }

  #item(
    collection: string,
    id: ItemId,
    type: 'ItemCreated' | 'ItemReplaced' | 'ItemPatched' | 'ItemDeleted',
  ): DomainEvent {
    const before = this.#state.collection(collection).last.get(keyOf(id))
    const stamp = { collection, id, revision: (before?.revision ?? 0) + 1, prior: before?.position ?? 0 }
    if (type === 'ItemDeleted') return this.#state.apply({ type, ...stamp })
    const random = this.#random
    const length = random.pick([0, 5, 50, 300, random.chance(0.05) ? 10_000 : 20, random.chance(0.005) ? 300_000 : 9])
    const text = random.pick(['x', 'ü', '😀', '\0']).repeat(length)
    return this.#state.apply({ type, ...stamp, item: Document.of({ id, n: random.integer(1000), text }) })
  }
}
