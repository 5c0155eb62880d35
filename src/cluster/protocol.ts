/** What the nodes of a cluster say to each other besides the stream: all of it is JSON. */
import type { BulkCommand, Command, Rejection } from '../commands/command.ts'
import type { Fault, RefusalCode } from '../errors.ts'
import type { Position } from '../events/event.ts'
import type { Origin } from '../events/journal.ts'
import type { JsonObject } from '../json/value.ts'

/** Said by every node every second. */
export interface Announcement {
  readonly node: string
  readonly position: Position
  /** Where it listens, as its settings say. */
  readonly urls: readonly string[]
  readonly isDeciding: boolean
}

/** The items of a collection, or a single object. */
export type FormerText = readonly JsonObject[] | JsonObject

/** What is to be brought back; see commands/restore.ts. A collection that was not there is null. */
export type RestorationText =
  | { readonly type: 'collections'; readonly collections: readonly (readonly [string, FormerText | null])[] }
  | { readonly type: 'item'; readonly collection: string; readonly key: string; readonly item: JsonObject | null }

/** Asked of the node that decides. */
export type Question =
  | { readonly type: 'handle'; readonly command: Command; readonly origin: Origin }
  | { readonly type: 'bulk'; readonly command: BulkCommand; readonly origin: Origin }
  | { readonly type: 'restore'; readonly restoration: RestorationText; readonly origin: Origin }
  | { readonly type: 'reload' }
  | { readonly type: 'snapshot' }

export type Answer =
  | { readonly type: 'stored'; readonly position: Position; readonly events: number }
  | {
      readonly type: 'bulk-stored'
      readonly position: Position
      readonly events: number
      /** By the index of the item. */
      readonly rejected: readonly (readonly [number, Rejection])[]
    }
  | {
      readonly type: 'taken-in'
      readonly basis: Position
      readonly events: number
      readonly conflicts: readonly { readonly collection: string; readonly id: string | number }[]
      readonly basedOn: Position
    }
  | { readonly type: 'written'; readonly position: Position }
  | {
      readonly type: 'refused'
      readonly code: RefusalCode
      readonly message: string
      readonly faults: readonly Fault[]
      /** Of the last event that the one who refuses had: the refusal may rest on it. */
      readonly position: Position
    }
  /** Its log says why. */
  | { readonly type: 'failed' }
