import type { ItemChange, ItemId, Position } from '../events/event.ts'
import { parseText } from '../json/parse.ts'
import { equal, type JsonObject, own } from '../json/value.ts'
import { type FileVersion, showsEvent } from './state-file.ts'

/** How an item differs from that in the edited file. */
export interface ItemDifference {
  /** Number of members that differ. */
  readonly members: number
  /**
   * Number of differing members whose value the file has in common with its last content: the file cannot have been
   * edited from an earlier version.
   */
  readonly later: number
}

/** An item from one event to the next. */
export interface ItemVersion extends ItemDifference {
  /** Position of the event; 0 for the version before the first event that was read. */
  readonly at: Position
  readonly isFromFile: boolean
}

/** An item with events since the oldest version of the file. */
export interface ChangedItem {
  readonly collection: string
  readonly id: ItemId
  /** In the order of positions. */
  readonly versions: ItemVersion[]
}

/** The version of an item that a version of the file shows. */
export function shownVersion(versions: readonly ItemVersion[], fileVersion: FileVersion): ItemVersion {
  return versions.findLast(({ at }) => at === 0 || showsEvent(fileVersion, at)) as ItemVersion
}

/**
 * Reverting a change made by an earlier edit is no sign of an older version, because the editor knows that change. So
 * versions with and without it count as equally near, unless others wrote since: reverting would undo their writes as
 * well.
 */
export function ignoreReverts(versions: ItemVersion[]): void {
  const from = Math.max(
    0,
    versions.findLastIndex(({ isFromFile }) => !isFromFile),
  )
  const members = Math.min(...versions.slice(from).map((version) => version.members))
  for (let index = from; index < versions.length; index++) {
    versions[index] = { ...(versions[index] as ItemVersion), members }
  }
}

export function itemTextAfter(event: ItemChange): string | undefined {
  return 'item' in event ? event.item.text : undefined
}

/** Compares an item in the file (`now`) with its text when the file was last written, and with its text `then`. */
export function differenceOf(
  now: string | undefined,
  last: string | undefined,
  then: string | undefined,
  unnamed: ReadonlyMap<string, number> | undefined,
  idField: string,
): ItemDifference {
  if (now === then) return { members: 0, later: 0 }
  const thenItem = parsed(then)
  if (now === undefined) {
    if (thenItem && unnamed) {
      const { [idField]: _, ...rest } = thenItem
      // The file contains it without its id, so the item must not count as new.
      const members = unnamed.get(JSON.stringify(rest))
      if (members !== undefined) return { members: -members, later: 0 }
    }
    return { members: Object.keys(thenItem ?? {}).length, later: 0 }
  }
  const nowItem = parsed(now) as JsonObject
  const lastItem = last === now ? nowItem : parsed(last)
  let members = 0
  let later = 0
  for (const name of new Set([...Object.keys(nowItem), ...Object.keys(thenItem ?? {})])) {
    const value = own(nowItem, name)
    if (thenItem && equal(value, own(thenItem, name))) continue
    members++
    if (lastItem && equal(value, own(lastItem, name))) later++
  }
  return { members, later }
}

function parsed(text: string | undefined): JsonObject | undefined {
  return text === undefined ? undefined : (parseText(text) as JsonObject)
}
