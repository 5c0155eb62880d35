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
