import type { Fault } from '../errors.ts'
import type { JsonObject } from '../json/value.ts'

/** The settings that apply to writes. */
export interface Rules {
  /** The member of an item that is its id. */
  readonly idField: string
  readonly upsertOnPut: boolean
  readonly clientIdsOnPost: boolean
  /** UTF-8 bytes of an item without its id. */
  readonly itemBytes: number
  readonly patchOperations: number
  /** Whether the collection has a JSON Schema; without one, items need not be parsed. */
  readonly hasSchema: (collection: string) => boolean
  /** The errors of an item according to the collection's JSON Schema. */
  readonly faultsOf: (collection: string, item: JsonObject) => readonly Fault[]
}
