/**
 * Messages between the nodes of a cluster, besides those of the stream. All of them are JSON.
 *
 * | Subject | Message | Response |
 * |---|---|---|
 * | `recollect.<stream>.announcements` | an `Announcement` to all nodes | |
 * | `recollect.<stream>.nodes.<node>` | an array of `LeaderRequest` to the leader | an array of `LeaderResponse`, one for each |
 */

import type { BulkCommand, Command, Deletion } from '../commands/command.ts'
import type { NotCreated } from '../commands/create-items.ts'
import type { DeletionOptions, DeletionOutcome } from '../commands/deletions.ts'
import type { Expiration } from '../commands/expiry.ts'
import type { ExpiryOutcome, ImportOutcome } from '../commands/handler.ts'
import type { RestoreCondition } from '../commands/restore.ts'
import type { ItemId, Position } from '../events/event.ts'
import type { Origin } from '../events/journal.ts'
import type { JsonObject } from '../json/value.ts'
import type { Fault, Progress, RefusalCode } from '../runtime/errors.ts'

/** The heartbeat of a node, sent every second. */
export interface Announcement {
  readonly node: string
  readonly position: Position
  /** The addresses at which it listens, from its settings. */
  readonly urls: readonly string[]
  /** Whether it is the leader; the name is part of the protocol between versions. */
  readonly isDeciding: boolean
}

/** Another node, as its last announcement tells. */
export interface Peer {
  readonly node: string
  readonly position: Position
  readonly urls: readonly string[]
}

/** The items of a collection, or a single object. */
export type CollectionText = readonly JsonObject[] | JsonObject

/** The state to restore; see commands/restore.ts. Null for a collection that did not exist. */
export type RestorationText = RestoreCondition &
  (
    | {
        readonly type: 'collections' | 'reset' | 'import'
        readonly collections: readonly (readonly [string, CollectionText | null])[]
      }
    | { readonly type: 'item'; readonly collection: string; readonly key: string; readonly item: JsonObject | null }
  )

export type LeaderRequest =
  | { readonly type: 'handle'; readonly command: Command; readonly origin: Origin }
  | { readonly type: 'bulk'; readonly command: BulkCommand; readonly origin: Origin }
  | {
      readonly type: 'delete'
      readonly deletion: Deletion
      readonly origin: Origin
      readonly options: DeletionOptions
    }
  | { readonly type: 'expire'; readonly expiration: Expiration; readonly origin: Origin }
  | { readonly type: 'restore'; readonly restoration: RestorationText; readonly origin: Origin }
  | { readonly type: 'reload' }
  | { readonly type: 'snapshot' }

export type LeaderResponse =
  | { readonly type: 'stored'; readonly position: Position; readonly events: number }
  /** Nothing was written: the item stays as it is. */
  | { readonly type: 'unchanged'; readonly position: Position; readonly id: ItemId }
  | {
      readonly type: 'bulk-stored'
      readonly position: Position
      readonly events: number
      /** By the index of the item. */
      readonly notCreated: readonly (readonly [number, NotCreated])[]
    }
  /** The ids are read from the journal. */
  | ({ readonly type: 'deleted' } & Omit<DeletionOutcome, 'ids'>)
  /** The data file was imported. */
  | ({ readonly type: 'taken-in' } & ImportOutcome)
  | ({ readonly type: 'expired' } & ExpiryOutcome)
  | { readonly type: 'written'; readonly position: Position }
  | {
      readonly type: 'refused'
      readonly code: RefusalCode
      readonly message: string
      readonly faults: readonly Fault[]
      readonly progress?: Progress | undefined
      /** Position of the last event when the command was rejected: the refusal may rest on it. */
      readonly position: Position
    }
  /** An unexpected error, which the leader has logged. */
  | { readonly type: 'failed' }
