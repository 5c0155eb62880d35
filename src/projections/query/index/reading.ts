import type { PinnedCollection } from '../../../collections/collection.ts'
import type { Tree } from '../../../store/tree.ts'
import type { StoredIndex } from './stored-index.ts'

/** A collection as it was at one position, with the indexes that can be read then. */
export interface Reading {
  readonly items: PinnedCollection
  readonly indexes: readonly StoredIndex[]
  /** The keys of one of the indexes. */
  treeOf(index: StoredIndex): Tree
}
