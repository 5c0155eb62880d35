import type { Position } from '../events/event.ts'
import type { PatchOperation } from '../json/json-patch.ts'
import type { JsonObject, JsonValue } from '../json/value.ts'
import { type Fault, Refusal, type RefusalCode } from '../runtime/errors.ts'

/** Entity tags of a conditional request (RFC 9110 §13.1), `*` for any. */
export type Tags = '*' | readonly string[]

interface Preconditions {
  readonly ifMatch?: Tags | undefined
  readonly ifNoneMatch?: Tags | undefined
  /** The position at which the client has read the item. */
  readonly ifUnchangedSince?: Position | undefined
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
interface Dependents {
  readonly collection: string
  readonly field: string
}

/** A requested creation of many items or of a whole collection, in one write. Plain data as well. */
export type BulkCommand =
  | {
      readonly type: 'CreateItems'
      readonly collection: string
      readonly items: readonly BatchItem[]
      /** Invalid items are left out, instead of rejecting all of them. */
      readonly isLenient: boolean
    }
  | { readonly type: 'CreateCollection'; readonly collection: string }

/** A requested deletion of many items or of a whole collection, in one write or in several. Plain data as well. */
export type Deletion =
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
  | { readonly type: 'RemoveCollection'; readonly collection: string }

/**
 * RFC 9110 §13.1, and the position of the item's last event. `tagsOf` returns the entity tags of the value to be changed,
 * the item's first. A value that does not exist has none, and matches nothing, not even `*`. It is called only if there is
 * a condition, because hashing an item takes as long as writing it to the store.
 */
export function checkPreconditions(
  { ifMatch, ifNoneMatch, ifUnchangedSince }: Preconditions,
  changedAt: Position | undefined,
  tagsOf: () => readonly string[],
): void {
  if (ifUnchangedSince !== undefined && !(changedAt !== undefined && changedAt <= ifUnchangedSince)) {
    const why = changedAt === undefined ? 'the item does not exist' : `the item was changed at position ${changedAt}`
    throw new Refusal('PreconditionFailed', `If-Unchanged-Since ${ifUnchangedSince} does not hold: ${why}.`)
  }
  if (ifMatch === undefined && ifNoneMatch === undefined) return
  const tags = tagsOf()
  const [tag] = tags
  if (ifMatch !== undefined && !matchesAny(ifMatch, tags)) {
    const why = tag === undefined ? 'the item does not exist' : `the item's entity tag is ${tag} now`
    throw new Refusal('PreconditionFailed', `If-Match does not match: ${why}.`)
  }
  if (ifNoneMatch !== undefined && matchesAny(ifNoneMatch, tags)) {
    throw new Refusal('PreconditionFailed', `If-None-Match matches: the item's entity tag is ${tag}.`)
  }
}

function matchesAny(wanted: Tags, tags: readonly string[]): boolean {
  return tags.some((tag) => matches(wanted, tag))
}

/** The end of an entity tag, with what a proxy that compresses the response puts before the quote. */
const TAG_END = /^(?:(?:--?|;)(?:gzip|deflate|br|zstd))?"$/

/** Whether one of the sent tags is the current one, possibly changed by a proxy. */
export function matches(tags: Tags, tag: string): boolean {
  const begin = tag.slice(0, -1)
  return tags === '*' || tags.some((sent) => sent.startsWith(begin) && TAG_END.test(sent.slice(begin.length)))
}
