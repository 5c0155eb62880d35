import type { FileItem } from '../collections/file-items.ts'
import type { Item } from '../collections/item.ts'
import type { ItemId } from '../events/event.ts'
import { parseText } from '../json/parse.ts'
import { equal } from '../json/value.ts'
import type { List } from '../runtime/chunked-list.ts'

/** How a data file, or a state to restore, differs from the state that it was made from. */
export interface Edit {
  readonly collections: readonly CollectionEdit[]
  readonly kind: EditKind
}

/**
 * Restored items are equal only byte for byte; otherwise the order of their members does not matter. The items of an edit
 * of the data file have at most Limits.ItemValues values.
 */
export type EditKind = 'edit' | 'first items' | 'restore'

/** An item that is not in the base, or not the same there. */
export interface EditedItem extends FileItem {
  /** Its index in the list of the file. */
  readonly index: number
}

export interface CollectionEdit {
  readonly name: string
  /** The file does not have the collection. */
  readonly isRemoved: boolean
  /** Whether the file has a single object. */
  readonly isObject: boolean
  /** Whether the base has the collection, of the same kind. */
  readonly wasThere: boolean
  readonly edited: List<EditedItem>
  /** The ids of the items of the base that the file does not have. */
  readonly removed: List<ItemId>
  /** The item of the base. */
  readonly before: (id: ItemId) => Item | undefined
  /** Whether the items of the base are not in their order, or not before all others. */
  readonly isReordered: boolean
  /** If they are reordered, the ids of the file in order, undefined for new ones; undefined if the order is not merged. */
  readonly order: Iterable<ItemId | undefined> | undefined
  /** Whether the file has items without ids. */
  readonly hasUnnamed: boolean
  /** Above all integer ids of the file. */
  readonly nextId: number
  /** Whether an item of the file that is not in the base has this id. */
  readonly isAdded: (id: ItemId) => boolean
}

/** The edit of a collection of which no item was read. */
export const NO_ITEMS_OF_FILE = {
  edited: [],
  removed: [],
  isReordered: false,
  order: undefined,
  hasUnnamed: false,
  nextId: 0,
  isAdded: () => false,
} satisfies Partial<CollectionEdit>

export function isSame(a: string | undefined, b: string | undefined, kind: EditKind): boolean {
  if (a === b) return true
  return kind !== 'restore' && a !== undefined && b !== undefined && equal(parseText(a), parseText(b))
}

/** The memory of parts of an edit and of its decision, besides texts and ids. */
export const BYTES = {
  edited: 60,
  /** An id in a list. */
  listed: 10,
  /** An id in an `IdIndex`. */
  indexed: 70,
  /** A number of an item for a place. */
  place: 4,
  conflict: 200,
  /** An event in an `Overlay`, with its natural key. */
  accepted: 350,
} as const
