import type { ExpiryTime } from '../collections/least-times.ts'
import type { KeyFields } from '../collections/natural-keys.ts'
import type { Path } from '../json/paths.ts'
import type { JsonObject } from '../json/value.ts'
import type { Fault } from '../runtime/errors.ts'

/** Another collection has the newest item of each value of a field, with that value as its id. */
export interface Latest {
  readonly in: string
  readonly by: Path
}

/** How a collection treats the event times of its items. */
export interface EventTimeRule {
  readonly path: Path
  /** Items without a valid event time are refused. */
  readonly isTimeRequired: boolean
  /** An item without an event time gets the time of receipt. */
  readonly defaultsToReceipt: boolean
  /** Later event times than this after now are not valid. */
  readonly maxAheadMs: number
}

/** Until when the items of a collection are kept. */
export interface ExpiryRule {
  readonly collection: string
  /** As in an `ItemsExpired` event, such as `90d, 1000 items`. */
  readonly text: string
  /** The setting Keep, such as `90d`. */
  readonly keep: string | undefined
  readonly keepMs: number | undefined
  readonly keepItems: number | undefined
  readonly time: ExpiryTime
}

export interface Rules {
  readonly idField: string
  readonly upsertOnPut: boolean
  readonly clientIdsOnPost: boolean
  /** POST makes ids as json-server does, and no write creates a collection. */
  readonly jsonServer?: { readonly newTextId: () => string }
  /** UTF-8 bytes of an item without its id. */
  readonly itemBytes: number
  /** Highest weighted number of values of an item without its id; see `checkValues`. */
  readonly itemValues: number
  readonly patchOperations: number
  readonly keyFields: KeyFields
  /** The collections in which POST replaces a different item that has the same natural key. */
  readonly replacing: ReadonlySet<string>
  /** By collection. */
  readonly times: ReadonlyMap<string, EventTimeRule>
  /** The later one of the current time and that of the last event, in milliseconds since 1970. */
  readonly nowMs: () => number
  /** The time of receipt, as ISO 8601: later with every call, so that readings of one millisecond differ. */
  readonly received: () => string
  /** By the collection of the readings. */
  readonly latest: ReadonlyMap<string, Latest>
  /** By collection. */
  readonly expiry: ReadonlyMap<string, ExpiryRule>
  /** Items of a collection with an earlier time have expired, in milliseconds since 1970; undefined if none expire yet. */
  readonly horizonMs: (collection: string) => number | undefined
  /** Whether the collection has a JSON Schema; without one, items need not be parsed. */
  readonly hasSchema: (collection: string) => boolean
  /** The errors of an item according to the collection's JSON Schema. */
  readonly faultsOf: (collection: string, item: JsonObject) => readonly Fault[]
}
