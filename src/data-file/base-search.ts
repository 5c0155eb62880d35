import type { ItemId, Position } from '../events/event.ts'
import { lowerBound } from '../runtime/lower-bound.ts'
import type { Turn } from '../runtime/turns.ts'
import type { EditSummary } from './edit-summary.ts'
import { type FileVersion, showsEvent } from './file-version.ts'
import {
  type ChangedItem,
  changedItems,
  type EditHistory,
  type ItemDifference,
  type ItemVersion,
} from './item-versions.ts'

/** An item that the edit may have replaced without having seen its last version. */
export interface DoubtfulItem {
  readonly collection: string
  readonly id: ItemId
}

export interface BaseSearchResult {
  /** The version from which the edit was made; undefined: the last one. */
  readonly origin: FileVersion | undefined
  readonly doubtful: readonly DoubtfulItem[]
}

export const LAST: BaseSearchResult = { origin: undefined, doubtful: [] }

/**
 * Finds the version from which an edit was made: the one that differs from the edited file in the fewest members of
 * items, and of several the latest. An editor may have opened the file long before it was last written.
 *
 * Only items with events since the oldest version distinguish the versions, so the journal is read from there on and no
 * state is folded. If no edited item is among them, the last version is the nearest, and nothing is read.
 */
export async function findOrigin(history: EditHistory, turn: Turn): Promise<BaseSearchResult> {
  const { versions, edited } = history
  if (edited.recent.size === 0) return LAST
  const changed = await changedItems(history, turn)
  return nearest(versions, edited, changed, turn)
}

async function nearest(
  versions: readonly FileVersion[],
  edited: EditSummary,
  changed: ReadonlyMap<string, ChangedItem>,
  turn: Turn,
): Promise<BaseSearchResult> {
  const totals = await totalsOf(versions, changed, turn)
  const membersIn = (index: number): number => (totals[index] as ItemDifference).members
  const mayBe = (index: number): boolean => totals[index]?.later === 0
  const last = versions.length - 1
  let best = last
  for (let index = last; index >= 0; index--) {
    if (mayBe(index) && membersIn(index) < membersIn(best)) best = index
  }
  let others = edited.others
  for (const name of edited.recent.keys()) if (!changed.has(name)) others++
  // Without differences, somebody restored exactly an earlier version on purpose.
  if (others + membersIn(best) <= 0) best = last
  const origin = versions[best] as FileVersion
  // If the edit may also have been made from an earlier version, it may not have seen what came in between.
  const earliest = versions.findIndex(
    (_, index) => index === best || (mayBe(index) && membersIn(index) <= membersIn(best)),
  )
  const doubtful = earliest < best ? await changedBetween(versions[earliest] as FileVersion, origin, changed, turn) : []
  return { origin: best === last ? undefined : origin, doubtful }
}

/** The items that differ from the edited file and were changed by clients after one version of it, up to another. */
async function changedBetween(
  earlier: FileVersion,
  origin: FileVersion,
  changed: ReadonlyMap<string, ChangedItem>,
  turn: Turn,
): Promise<readonly DoubtfulItem[]> {
  const doubtful: DoubtfulItem[] = []
  const isUnseen = ({ at, isByHand }: ItemVersion): boolean =>
    !isByHand && showsEvent(origin, at) && !showsEvent(earlier, at)
  for (const { collection, id, versions } of changed.values()) {
    if (turn.isOver) await turn.next()
    if (versionIn(versions, origin).members > 0 && versions.some(isUnseen)) doubtful.push({ collection, id })
  }
  return doubtful
}

/** How each version differs from the edited file, except for differences that all share. */
async function totalsOf(
  fileVersions: readonly FileVersion[],
  changed: ReadonlyMap<string, ChangedItem>,
  turn: Turn,
): Promise<ItemDifference[]> {
  const positions = [...new Set(fileVersions.map(({ position }) => position))].sort((a, b) => a - b)
  /** For each position, the change relative to the one before. */
  const changes = positions.map(() => ({ members: 0, later: 0 }))
  const byHand: ChangedItem[] = []
  for (const item of changed.values()) {
    if (turn.isOver) await turn.next()
    let before: ItemDifference = { members: 0, later: 0 }
    for (const version of item.versions) {
      const change = changes[lowerBound(positions, version.at)]
      if (change) {
        change.members += version.members - before.members
        change.later += version.later - before.later
      }
      before = version
    }
    if (item.versions.some(({ isByHand }) => isByHand)) byHand.push(item)
  }
  const sum = { members: 0, later: 0 }
  const sums = new Map<Position, ItemDifference>()
  for (const [index, position] of positions.entries()) {
    sum.members += changes[index]?.members ?? 0
    sum.later += changes[index]?.later ?? 0
    sums.set(position, { ...sum })
  }
  const totals: ItemDifference[] = []
  for (const { position, edits } of fileVersions) {
    const total = { ...(sums.get(position) as ItemDifference) }
    for (const { versions } of edits.length > 0 ? byHand : []) {
      if (turn.isOver) await turn.next()
      const [withEdits, without] = [
        versionIn(versions, { position, edits }),
        versionIn(versions, { position, edits: [] }),
      ]
      total.members += withEdits.members - without.members
      total.later += withEdits.later - without.later
    }
    totals.push(total)
  }
  return totals
}

/** The version of an item that a version of the file shows. */
function versionIn(versions: readonly ItemVersion[], fileVersion: FileVersion): ItemVersion {
  return versions.findLast(({ at }) => at === 0 || showsEvent(fileVersion, at)) as ItemVersion
}
