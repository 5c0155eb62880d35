import type { DomainEvent, ItemId, Position } from '../events/event.ts'
import { type CollectionState, evolve, type FoldedFacts, type FoldedItems } from './collection.ts'
import { type Item, integerAfter, isItem, keyOf, type Tombstone } from './item.ts'
import { type KeyFields, type NaturalKey, naturalKeyOf } from './natural-keys.ts'
import { type CollectionItems, itemsIn, NO_ITEMS } from './stored-items.ts'

/** The accepted state, which decisions may query. */
export interface AcceptedState {
  /** Position of the last accepted event. */
  readonly head: Position
  collection(name: string): CollectionState
}

export type CollectionLookup = (name: string) => CollectionState | undefined

/**
 * The accepted state: the durable collections, and above them the few items and collections whose events are still
 * being flushed.
 */
export class Overlay implements AcceptedState {
  readonly #durable: CollectionLookup
  readonly #keyFields: KeyFields
  readonly #layers = new Map<string, Layer>()
  #head: Position

  constructor(durable: CollectionLookup, head: Position, keyFields: KeyFields = new Map()) {
    this.#durable = durable
    this.#keyFields = keyFields
    this.#head = head
  }

  get head(): Position {
    return this.#head
  }

  collection(name: string): CollectionState {
    return this.#layers.get(name) ?? this.#durable(name) ?? this.#layer(name)
  }

  accept(events: Iterable<DomainEvent>): void {
    for (const event of events) {
      const layer = this.#layers.get(event.collection) ?? this.#layer(event.collection)
      this.#layers.set(event.collection, layer)
      layer.accept(event, ++this.#head)
    }
  }

  /** Called when the events up to a position are in the durable collections. */
  settle(upTo: Position): void {
    for (const [name, layer] of this.#layers) {
      if (layer.position <= upTo) this.#layers.delete(name)
      else layer.settle(upTo)
    }
  }

  #layer(name: string): Layer {
    return new Layer(name, () => this.#durable(name), this.#keyFields.get(name))
  }
}

/** A collection with changes that are not durable yet, above the durable one. */
class Layer implements CollectionState, FoldedFacts, FoldedItems {
  readonly name: string
  exists: boolean
  isObject: boolean
  position: Position
  nextId: number
  unusedId: number
  textIds: number
  readonly #below: () => CollectionState | undefined
  readonly #naturalKey: NaturalKey | undefined
  /** The changed items by key, in the order of their last changes. */
  readonly #changed = new Map<string, Item | Tombstone>()
  /** By natural key, the key of the item that has got it last; in this order. */
  readonly #holders = new Map<string, { readonly key: string; readonly position: Position }>()

  constructor(name: string, below: () => CollectionState | undefined, naturalKey: NaturalKey | undefined) {
    this.name = name
    this.#naturalKey = naturalKey
    this.#below = below
    const durable = below()
    this.exists = durable?.exists ?? false
    this.isObject = durable?.isObject ?? false
    this.nextId = durable?.nextId ?? 0
    this.unusedId = durable?.unusedId ?? 0
    this.textIds = durable?.textIds ?? 0
    this.position = durable?.position ?? 0
  }

  accept(event: DomainEvent, position: Position): void {
    const naturalKey = this.#naturalKey
    if (naturalKey && 'item' in event && 'id' in event) {
      const { id, item } = event
      const holding = item.derived(naturalKey, () => naturalKeyOf(item.value, naturalKey))
      if (holding !== undefined) setLast(this.#holders, holding, { key: keyOf(id), position })
    }
    evolve(this, this, event, position, 0)
  }

  settle(upTo: Position): void {
    for (const changes of [this.#changed, this.#holders]) {
      for (const [key, { position }] of changes) {
        if (position > upTo) break
        changes.delete(key)
      }
    }
  }

  get(key: string): Item | Tombstone | undefined {
    return this.#changed.get(key) ?? this.#below()?.get(key)
  }

  holderOf(naturalKey: string): string | undefined {
    return this.#holders.get(naturalKey)?.key ?? this.#below()?.holderOf(naturalKey)
  }

  items(): Iterable<Item> {
    return itemsIn(this.stored)
  }

  /** May be called only while no event is being flushed. */
  get stored(): CollectionItems {
    const below = this.#below()
    if (this.position > (below?.position ?? 0))
      throw new Error(`the items of ${this.name} are asked for while some are being flushed`)
    return below?.stored ?? NO_ITEMS
  }

  idOf(key: string): ItemId | undefined {
    const entry = this.get(key)
    return isItem(entry) ? entry.id : undefined
  }

  put(item: Item): void {
    this.unusedId = Math.max(this.unusedId, integerAfter(item.id))
    setLast(this.#changed, item.key, item)
  }

  remove(id: ItemId, tombstone: Tombstone): void {
    setLast(this.#changed, keyOf(id), tombstone)
  }
}

/** Sets the value of a key, which becomes the last one of the map. */
function setLast<Value>(map: Map<string, Value>, key: string, value: Value): void {
  const { size } = map
  map.set(key, value)
  // It keeps its place. Most keys are new.
  if (map.size > size) return
  map.delete(key)
  map.set(key, value)
}
