import type { CollectionState } from '../collections/collection.ts'

/** The accepted state, which decisions may query. */
export interface Accepted {
  collection(name: string): CollectionState
}
