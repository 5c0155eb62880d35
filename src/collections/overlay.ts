import {
  type DomainEvent,
  type ItemEvent,
  type ItemId,
  isCreation,
  isItemEvent,
  type Position,
} from '../events/event.ts'
import type { CollectionState } from './collection.ts'
import { evolve, type FoldTarget } from './evolve.ts'
import { type Item, isItem, keyOf, type Tombstone } from './item.ts'
import { type KeyFields, type NaturalKey, naturalKeyOf } from './natural-key.ts'
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
  settle(events: Iterable<DomainEvent>, upTo: Position): void {
    for (const { collection } of events) {
      const layer = this.#layers.get(collection)
      if (!layer) continue
      if (layer.position <= upTo) this.#layers.delete(collection)
      else layer.settle(upTo)
    }
  }

  #layer(name: string): Layer {
    return new Layer(name, () => this.#durable(name), this.#keyFields.get(name))
  }
}

interface PendingEvent {
  readonly event: DomainEvent
  readonly position: Position
  /** Those that another item has after the event. */
  readonly naturalKeys: readonly string[]
}

/** A collection with changes that are not durable yet, above the durable one. */
class Layer implements CollectionState, FoldTarget {
  readonly name: string
  exists: boolean
  isObject: boolean
  position: Position
  nextId: number
  textIds: number
  readonly #below: () => CollectionState | undefined
  readonly #changed = new Map<string, Item | Tombstone>()
  /** Changes that are not durable yet, oldest first, with the events' positions. */
  readonly #pending: PendingEvent[] = []
  readonly #naturalKey: NaturalKey | undefined
  /** The keys of the items that have natural keys which changed; undefined where none has it any more. */
  readonly #holders = new Map<string, { readonly key: string | undefined; readonly position: Position }>()

  constructor(name: string, below: () => CollectionState | undefined, naturalKey: NaturalKey | undefined) {
    this.name = name
    this.#naturalKey = naturalKey
    this.#below = below
    const durable = below()
    this.exists = durable?.exists ?? false
    this.isObject = durable?.isObject ?? false
    this.nextId = durable?.nextId ?? 0
    this.textIds = durable?.textIds ?? 0
    this.position = durable?.position ?? 0
  }

  accept(event: DomainEvent, position: Position): void {
    const naturalKeys =
      this.#naturalKey && isItemEvent(event) ? this.#changeHolders(event, position, this.#naturalKey) : []
    evolve(this, event, position, 0)
    this.#pending.push({ event, position, naturalKeys })
  }

  settle(upTo: Position): void {
    const after = this.#pending.findIndex(({ position }) => position > upTo)
    for (const { event, naturalKeys } of this.#pending.splice(0, after < 0 ? this.#pending.length : after)) {
      for (const one of naturalKeys) if ((this.#holders.get(one)?.position ?? upTo) <= upTo) this.#holders.delete(one)
      const key = isItemEvent(event) ? keyOf(event.id) : undefined
      const entry = key === undefined ? undefined : this.#changed.get(key)
      if (key !== undefined && entry && entry.position <= upTo) this.#changed.delete(key)
    }
  }

  get(key: string): Item | Tombstone | undefined {
    return this.#changed.get(key) ?? this.#below()?.get(key)
  }

  holderOf(naturalKey: string): string | undefined {
    const changed = this.#holders.get(naturalKey)
    return changed ? changed.key : this.#below()?.holderOf(naturalKey)
  }

  /** The natural keys that another item has after an event. */
  #changeHolders(event: ItemEvent, position: Position, naturalKey: NaturalKey): readonly string[] {
    const key = keyOf(event.id)
    const before = isCreation(event) ? undefined : this.get(key)
    const old = isItem(before) ? naturalKeyOf(before.value, naturalKey) : undefined
    const item = 'item' in event ? event.item : undefined
    const now = item?.derived(naturalKey, () => naturalKeyOf(item.value, naturalKey))
    const changed: string[] = []
    if (old === now) return changed
    if (old !== undefined && this.holderOf(old) === key) {
      this.#holders.set(old, { key: undefined, position })
      changed.push(old)
    }
    if (now !== undefined) {
      this.#holders.set(now, { key, position })
      changed.push(now)
    }
    return changed
  }

  items(): Iterable<Item> {
    return itemsIn(this.stored)
  }

  /** May be called only while no event is being flushed. */
  get stored(): CollectionItems {
    if (this.#pending.length > 0)
      throw new Error(`the items of ${this.name} are asked for while some are being flushed`)
    return this.#below()?.stored ?? NO_ITEMS
  }

  idOf(key: string): ItemId | undefined {
    const entry = this.get(key)
    return isItem(entry) ? entry.id : undefined
  }

  put(item: Item): void {
    this.#changed.set(item.key, item)
  }

  remove(id: ItemId, tombstone: Tombstone): void {
    this.#changed.set(keyOf(id), tombstone)
  }
}
