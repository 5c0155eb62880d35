import { type Collection, type CollectionItems, itemsIn } from '../../../collections/collection.ts'
import type { Item } from '../../../collections/item.ts'
import type { Position } from '../../../events/event.ts'
import type { Steps } from '../../../slices.ts'
import type { Keys } from '../../../store/tree.ts'
import type { StoredIndex } from './stored-index.ts'

/** A collection as it was at one position, with the indexes that tell what there was then, until it is released. */
export interface Reading {
  readonly items: CollectionItems
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

/** A collection as readers see it now, whatever comes later; `indexes` are those of its table. */
export function heldReading(
  collection: Collection,
  indexes: readonly StoredIndex[],
): Reading & { readonly at: Position } {
  const items = collection.held()
  const { at } = items
  const readable = indexes.filter((index) => index.isReadableAt(at))
  for (const index of readable) index.readers++
  return {
    items,
    at,
    position: items.facts.position,
    exists: items.facts.exists,
    indexes: readable,
    // biome-ignore lint/correctness/useYield: a collection as it was takes longer
    *keysOf({ tree }) {
      return tree.at(at)
    },
    release() {
      for (const index of readable) index.readers--
      items.release()
    },
  }
}
