import {
  type Collection,
  type CollectionItems,
  itemsIn,
  type PinnedCollection,
} from '../../../collections/collection.ts'
import type { Item } from '../../../collections/item.ts'
import type { Position } from '../../../events/event.ts'
import type { Steps } from '../../../slices.ts'
import type { Keys } from '../../../store/tree.ts'
import type { StoredIndex } from './stored-index.ts'

/** A collection as it was at one position, with the indexes that tell what there was then, until it is released. */
export interface Reading {
  readonly items: CollectionItems
  /** A position right after which the collection was like this. */
  readonly at: Position
  /** Of the last event of the collection up to then. */
  readonly position: Position
  readonly exists: boolean
  readonly indexes: readonly StoredIndex[]
  /** The keys that one of the indexes had. */
  keysOf(index: StoredIndex): Steps<Keys>
  release(): void
}

/** All items of a reading, in their order. */
export function itemsOf({ items }: Reading): Generator<Item> {
  return itemsIn(items)
}

/** The present state of a collection. Later events do not change it. */
export class HeldReading implements Reading {
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

  // biome-ignore lint/correctness/useYield: a collection as it was takes longer
  *keysOf({ tree }: StoredIndex): Steps<Keys> {
    return tree.at(this.at)
  }

  release(): void {
    for (const index of this.indexes) index.readers--
    this.items.release()
  }
}
