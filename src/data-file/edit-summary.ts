import { keyOf } from '../collections/item.ts'
import type { Edit } from '../commands/edit.ts'
import type { ItemId, Position } from '../events/event.ts'
import { parseText } from '../json/parse-text.ts'
import type { JsonObject } from '../json/value.ts'
import type { Turn } from '../runtime/turns.ts'
import type { FileVersion } from './file-version.ts'

/** The position of an item's last event, 0 if it has none. */
export type LastChange = (collection: string, id: ItemId) => Position

/** An edit of the last version: items with events since the oldest version distinguish the versions, others are counted. */
export interface EditSummary {
  readonly lastChange: LastChange
  /** By name, the text in the file; undefined for removed items. */
  readonly recent: ReadonlyMap<string, string | undefined>
  /** Number of differences that are the same for all versions. */
  readonly others: number
  /** By collection: the texts of items without an id, with their number of members. */
  readonly unnamed: ReadonlyMap<string, ReadonlyMap<string, number>>
}

export async function summaryOf(
  edit: Edit,
  itemsBefore: (collection: string) => Iterable<{ readonly id: ItemId }>,
  versions: readonly FileVersion[],
  lastChange: LastChange,
  turn: Turn,
): Promise<EditSummary> {
  const oldest = oldestOf(versions)
  const recent = new Map<string, string | undefined>()
  const allUnnamed = new Map<string, Map<string, number>>()
  let others = 0
  const add = (name: string, id: ItemId, text: string | undefined): void => {
    if (lastChange(name, id) > oldest) recent.set(itemName(name, id), text)
    else others++
  }
  for (const { name, isRemoved, wasThere, edited, removed } of edit.collections) {
    for (const { id, text } of edited) {
      if (turn.isOver) await turn.next()
      if (id !== undefined) {
        add(name, id, text)
        continue
      }
      const members = Object.keys(parseText(text) as JsonObject).length
      others += members
      const unnamed = allUnnamed.get(name) ?? new Map<string, number>()
      allUnnamed.set(name, unnamed.set(text, members))
    }
    for (const id of removed) {
      if (turn.isOver) await turn.next()
      add(name, id, undefined)
    }
    const isReplaced = isRemoved || !wasThere
    for (const { id } of isReplaced ? itemsBefore(name) : []) {
      if (turn.isOver) await turn.next()
      add(name, id, undefined)
    }
  }
  return { lastChange, recent, others, unnamed: allUnnamed }
}

export function oldestOf(versions: readonly FileVersion[]): Position {
  return Math.min(...versions.map(({ position }) => position))
}

export function itemName(collection: string, id: ItemId): string {
  return JSON.stringify([collection, keyOf(id)])
}
