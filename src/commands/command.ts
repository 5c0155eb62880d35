import type { PatchOperation } from '../json/json-patch.ts'
import type { JsonObject, JsonValue } from '../json/value.ts'
import type { Fault, RefusalCode } from '../runtime/errors.ts'

/** Entity tags of a conditional request (RFC 9110 §13.1), `*` for any. */
export type Tags = '*' | readonly string[]

export interface Preconditions {
  readonly ifMatch?: Tags | undefined
  readonly ifNoneMatch?: Tags | undefined
}

export interface OnItem extends Preconditions {
  readonly collection: string
  readonly key: string
}

export type Patch =
  /** Replaces the whole value. */
  | { readonly type: 'value'; readonly value: JsonValue }
  | { readonly type: 'merge'; readonly document: JsonObject }
  | { readonly type: 'operations'; readonly operations: readonly PatchOperation[] }

/** A requested change. Plain data, so that it can be sent to the leader of a cluster. */
export type Command =
  | { readonly type: 'CreateItem'; readonly collection: string; readonly item: JsonObject }
  | (OnItem & {
      readonly type: 'ReplaceItem'
      readonly item: JsonObject
      /** The item is only replaced by one with a later event time. */
      readonly onlyIfNewer?: boolean
    })
  | (OnItem & {
      readonly type: 'PatchItem'
      readonly patch: Patch
      /** Segments of a URL that name the value within the item which is patched; undefined: the item. */
      readonly inside?: readonly string[]
    })
  | (OnItem & { readonly type: 'DeleteItem' })

/** Why an item of a batch is not created. */
export interface Rejection {
  readonly code: RefusalCode
  readonly message: string
  readonly faults: readonly Fault[]
}

/** An item of a batch, or the reason why it is invalid. `line` is its line in a text, counting from 1. */
export type BatchItem = { readonly line?: number } & ({ readonly item: JsonObject } | { readonly rejection: Rejection })

/** The items of a collection that refer to others by a member. */
export interface Dependents {
  readonly collection: string
  readonly field: string
}

/** A requested change of many items or of a whole collection. Plain data as well. */
export type BulkCommand =
  | {
      readonly type: 'CreateItems'
      readonly collection: string
      readonly items: readonly BatchItem[]
      /** Invalid items are left out, instead of rejecting all of them. */
      readonly isLenient: boolean
    }
  | {
      readonly type: 'DeleteItems'
      readonly collection: string
      /** The filters, in the syntax of a URL query. */
      readonly filters: string
      /** Highest time for finding the items; undefined for no limit. */
      readonly seconds?: number
    }
  | (OnItem & {
      readonly type: 'DeleteItemWithDependents'
      /** The items that are deleted with it: those whose `field` is its id. */
      readonly dependents: readonly Dependents[]
      /** As in DeleteItems. */
      readonly seconds?: number
    })
  | { readonly type: 'CreateCollection'; readonly collection: string }
  | { readonly type: 'RemoveCollection'; readonly collection: string }
