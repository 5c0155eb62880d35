import { keyOf } from '../collections/item.ts'
import type { Base } from '../commands/difference.ts'
import { type ItemEvent, type ItemId, isCreation, isItemEvent, type Position } from '../events/event.ts'
import { type Journal, positioned } from '../events/journal.ts'
import { parseText } from '../json/parse-text.ts'
import { equal, type JsonObject, own } from '../json/value.ts'
import type { Turn } from '../runtime/turns.ts'
import { type EditSummary, itemName, oldestOf } from './edit-summary.ts'
import { type FileVersion, lastEventOf } from './file-version.ts'
import { DATA_FILE_ACTOR } from './merged-edits.ts'

export interface EditHistory {
  readonly journal: Pick<Journal, 'read'>
  readonly idField: string
  /** The items of the edited file that differ from `base`. */
  readonly edited: EditSummary
  /** The last content of the file before the edit. */
  readonly base: Base
  /** Earlier versions of the file, in order; the last one is `base`. */
  readonly versions: readonly FileVersion[]
}

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
  readonly isByHand: boolean
}

/** An item with events since the oldest version of the file. */
export interface ChangedItem {
  readonly collection: string
  readonly id: ItemId
  /** In the order of positions. */
  readonly versions: ItemVersion[]
}

/** The items that changed between the oldest version of the file and the last one, by name, with their versions. */
export async function changedItems(history: EditHistory, turn: Turn): Promise<ReadonlyMap<string, ChangedItem>> {
  const { journal, edited, versions } = history
  const items = new Map<string, ChangedItem>()
  const end = Math.max(...versions.map(lastEventOf))
  for await (const recorded of journal.read(oldestOf(versions) + 1, end)) {
    const isByHand = recorded.actor === DATA_FILE_ACTOR
    for (const [at, event] of positioned(recorded)) {
      if (turn.isOver) await turn.next()
      if (!isItemEvent(event)) continue
      const { collection, id } = event
      const name = itemName(collection, id)
      const item = items.get(name) ?? { collection, id, versions: [await versionBefore(event, name, history)] }
      items.set(name, item)
      item.versions.push({ at, ...compared(event, name, textOf(event), history), isByHand })
    }
  }
  for (const { collection, id, versions } of items.values()) {
    if (turn.isOver) await turn.next()
    if (edited.lastChange(collection, id) <= end) ignoreReverts(versions)
  }
  return items
}

/** The version of an item before the first event that was read. */
async function versionBefore(event: ItemEvent, name: string, history: EditHistory): Promise<ItemVersion> {
  const version = { at: 0, isByHand: false }
  if (isCreation(event)) return { ...version, ...compared(event, name, undefined, history) }
  if (history.edited.recent.has(name)) {
    const text = await textAt(event.prior, history.journal)
    return { ...version, ...compared(event, name, text, history) }
  }
  // An item that the edit does not touch equals its last event, so its earlier versions differ.
  return { ...version, members: 1, later: textInFile(event, name, history) === undefined ? 0 : 1 }
}

async function textAt(position: Position, journal: Pick<Journal, 'read'>): Promise<string | undefined> {
  for await (const { events } of journal.read(position, position)) {
    for (const event of events) if (isItemEvent(event)) return textOf(event)
  }
  return undefined
}

function compared(event: ItemEvent, name: string, then: string | undefined, history: EditHistory): ItemDifference {
  const { edited, idField } = history
  const unnamed = edited.unnamed.get(event.collection)
  return differenceOf(textInFile(event, name, history), lastText(event, history), then, unnamed, idField)
}

function textInFile(event: ItemEvent, name: string, history: EditHistory): string | undefined {
  const { recent } = history.edited
  return recent.has(name) ? recent.get(name) : lastText(event, history)
}

function lastText({ collection, id }: ItemEvent, { base }: EditHistory): string | undefined {
  return base.get(collection)?.item(keyOf(id))?.text
}

/**
 * Reverting a change made by an earlier edit is no sign of an older version, because the editor knows that change. So
 * versions with and without it count as equally near, unless others wrote since: reverting would undo their writes as
 * well.
 */
function ignoreReverts(versions: ItemVersion[]): void {
  const from = Math.max(
    0,
    versions.findLastIndex(({ isByHand }) => !isByHand),
  )
  const members = Math.min(...versions.slice(from).map((version) => version.members))
  for (let index = from; index < versions.length; index++) {
    versions[index] = { ...(versions[index] as ItemVersion), members }
  }
}

function textOf(event: ItemEvent): string | undefined {
  return 'item' in event ? event.item.text : undefined
}

/** Compares an item in the file (`now`) with its text when the file was last written, and with its text `then`. */
function differenceOf(
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
