import type { Sort } from '../json/order.ts'
import type { JsonObject } from '../json/value.ts'

export interface LiveListOptions {
  readonly collection: string
  readonly query: string
  readonly sort: readonly Sort[]
  /** The places to show, the second exclusive. */
  readonly window: { readonly from: number; readonly to: number } | undefined
  /** Selects fields of an item. */
  readonly select: ((item: JsonObject) => JsonObject) | undefined
  /** Begins in the past and advances at this speed up to the present. */
  readonly replay: { readonly from: number | string; readonly speed: number } | undefined
  /** The id by which changes name an item. */
  readonly idOf: (item: JsonObject) => string | number
  /** Reads all matching items at a position, for results larger than a subscription begins with. */
  readonly readAll: (position: number, signal: AbortSignal) => Promise<readonly JsonObject[]>
}
