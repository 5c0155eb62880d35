import type { Collection } from '../collections/collection.ts'
import type { Item } from '../collections/item.ts'
import { type CollectionItems, itemsIn, type PinnedCollection } from '../collections/stored-items.ts'
import type { Position } from '../events/event.ts'
import type { Turn } from '../runtime/turns.ts'
import type { OrderedKeys } from '../store/tree.ts'
import type { StoredIndex } from './index/stored-index.ts'

/** A collection at one position, with usable indexes, until released. */
export interface CollectionSnapshot {
  readonly items: CollectionItems
  /** A position at which the collection had this state. */
  readonly at: Position
  /** Position of the collection's last event up to then. */
  readonly position: Position
  readonly exists: boolean
  readonly indexes: readonly StoredIndex[]
  /** The keys of an index at that position. */
  keysOf(index: StoredIndex, turn: Turn): Promise<OrderedKeys>
  release(): void
}

/** All items of a snapshot in order. */
export function itemsOf({ items }: CollectionSnapshot): Generator<Item> {
  return itemsIn(items)
}

/** The present state of a collection. Later events do not change it. */
export class PresentSnapshot implements CollectionSnapshot {
  readonly items: PinnedCollection
  readonly indexes: readonly StoredIndex[]

  /** `indexes` are those of the collection's table. */
  constructor(collection: Collection, indexes: readonly StoredIndex[]) {
    this.items = collection.held()
    this.indexes = indexes.filter((index) => index.isReadableAt(this.at))
    for (const index of this.indexes) index.readers++
  }

  get at(): Position {
    return this.items.at
  }

  get position(): Position {
    return this.items.facts.position
  }

  get exists(): boolean {
    return this.items.facts.exists
  }

  async keysOf({ tree }: StoredIndex): Promise<OrderedKeys> {
    return tree.at(this.at)
  }

  release(): void {
    for (const index of this.indexes) index.readers--
    this.items.release()
  }
}
