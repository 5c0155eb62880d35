import type { Fault } from '../errors.ts'
import type { JsonObject } from '../json/value.ts'

/** What the settings say about writes. */
export interface Rules {
  readonly upsertOnPut: boolean
  readonly clientIdsOnPost: boolean
  /** UTF-8 bytes of an item without its id. */
  readonly itemBytes: number
  readonly patchOperations: number
  /** Whether the collection has a JSON Schema, so that an item need not be parsed to be checked where it has none. */
  readonly hasSchema: (collection: string) => boolean
  /** What the collection's JSON Schema finds wrong with an item. */
  readonly faultsOf: (collection: string, item: JsonObject) => readonly Fault[]
}
