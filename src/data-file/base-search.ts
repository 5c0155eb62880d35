import type { ItemId } from '../events/event.ts'
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

/** File versions between two looks at the turn. */
const STEP_VERSIONS = 8

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
  const totals = fileVersions.map(() => ({ members: 0, later: 0 }))
  for (const { versions } of changed.values()) {
    for (let index = 0; index < fileVersions.length; index++) {
      if (index % STEP_VERSIONS === 0 && turn.isOver) await turn.next()
      const total = totals[index] as { members: number; later: number }
      const { members, later } = versionIn(versions, fileVersions[index] as FileVersion)
      total.members += members
      total.later += later
    }
  }
  return totals
}

/** The version of an item that a version of the file shows. */
function versionIn(versions: readonly ItemVersion[], fileVersion: FileVersion): ItemVersion {
  return versions.findLast(({ at }) => at === 0 || showsEvent(fileVersion, at)) as ItemVersion
}
