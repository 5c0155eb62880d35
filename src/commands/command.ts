import type { Fault, RefusalCode } from '../errors.ts'
import type { PatchOperation } from '../json/json-patch.ts'
import type { JsonObject } from '../json/value.ts'

/** Entity tags that a conditional request names (RFC 9110 §13.1), `*` for any. */
export type Tags = '*' | readonly string[]

export interface Conditions {
  readonly ifMatch?: Tags | undefined
  readonly ifNoneMatch?: Tags | undefined
}

interface OnItem extends Conditions {
  readonly collection: string
  readonly key: string
}

export type Patch =
  | { readonly type: 'merge'; readonly document: JsonObject }
  | { readonly type: 'operations'; readonly operations: readonly PatchOperation[] }

/** What a client wants to happen: plain data, so that it can be sent to whoever decides. */
export type Command =
  | { readonly type: 'CreateItem'; readonly collection: string; readonly item: JsonObject }
  | (OnItem & { readonly type: 'ReplaceItem'; readonly item: JsonObject })
  | (OnItem & { readonly type: 'PatchItem'; readonly patch: Patch })
  | (OnItem & { readonly type: 'DeleteItem' })

/** Why an item of a batch is not created. */
export interface Rejection {
  readonly code: RefusalCode
  readonly message: string
  readonly faults: readonly Fault[]
}

/** One item of a batch, or why what was sent is none. The line is that of a text of lines, the first being 1. */
export type BatchItem = { readonly line?: number } & ({ readonly item: JsonObject } | { readonly rejection: Rejection })

/** What concerns many items or a collection as a whole. It is plain data, too. */
export type BulkCommand =
  | {
      readonly type: 'CreateItems'
      readonly collection: string
      readonly items: readonly BatchItem[]
      /** Items that cannot be created are left out, instead of refusing them all. */
      readonly isLenient: boolean
    }
  | {
      readonly type: 'DeleteItems'
      readonly collection: string
      /** The filters, as in the query of a URL. */
      readonly filters: string
      /** Finding the items may take so long; undefined: as long as it takes. */
      readonly seconds?: number
    }
  | { readonly type: 'CreateCollection'; readonly collection: string }
  | { readonly type: 'RemoveCollection'; readonly collection: string }
