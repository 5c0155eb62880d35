import type { ItemId, Position } from '../events/event.ts'
import { lowerBound } from '../runtime/lower-bound.ts'
import type { Steps } from '../runtime/time-slices.ts'
import type { EditSummary } from './edit-summary.ts'
import { type FileVersion, showsEvent } from './file-version.ts'
import {
  type ChangedItem,
  type EditHistory,
  type ItemDifference,
  type ItemVersion,
  ItemVersions,
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

const LAST: BaseSearchResult = { origin: undefined, doubtful: [] }

/**
 * Finds the version from which an edit was made: the one that differs from the edited file in the fewest members of
 * items, and of several the latest. An editor may have opened the file long before it was last written.
 *
 * Only items with events since the oldest version distinguish the versions, so the journal is read from there on and no
 * state is folded. If no edited item is among them, the last version is the nearest, and nothing is read.
 */
export async function findOrigin(history: EditHistory): Promise<BaseSearchResult> {
  const { versions, slices, edited, file, base } = history
  if (versions.length < 2) return LAST
  await slices.run(() => edited.removed(file, base))
  if (edited.recent.size === 0) return LAST
  const changed = await new ItemVersions(history).read()
  return slices.run(() => nearest(versions, edited, changed))
}

function* nearest(
  versions: readonly FileVersion[],
  edited: EditSummary,
  changed: ReadonlyMap<string, ChangedItem>,
): Steps<BaseSearchResult> {
  const totals = yield* totalsOf(versions, changed)
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
  const doubtful = earliest < best ? yield* changedBetween(versions[earliest] as FileVersion, origin, changed) : []
  return { origin: best === last ? undefined : origin, doubtful }
}

/** The items that differ from the edited file and were changed by clients after one version of it, up to another. */
function* changedBetween(
  earlier: FileVersion,
  origin: FileVersion,
  changed: ReadonlyMap<string, ChangedItem>,
): Steps<readonly DoubtfulItem[]> {
  const doubtful: DoubtfulItem[] = []
  const isUnseen = ({ at, isByHand }: ItemVersion): boolean =>
    !isByHand && showsEvent(origin, at) && !showsEvent(earlier, at)
  for (const { collection, id, versions } of changed.values()) {
    yield
    if (versionIn(versions, origin).members > 0 && versions.some(isUnseen)) doubtful.push({ collection, id })
  }
  return doubtful
}

/** How each version differs from the edited file, except for differences that all share. */
function* totalsOf(
  fileVersions: readonly FileVersion[],
  changed: ReadonlyMap<string, ChangedItem>,
): Steps<ItemDifference[]> {
  const positions = [...new Set(fileVersions.map(({ position }) => position))].sort((a, b) => a - b)
  /** For each position, the change relative to the one before. */
  const steps = positions.map(() => ({ members: 0, later: 0 }))
  const byHand: ChangedItem[] = []
  for (const item of changed.values()) {
    let before: ItemDifference = { members: 0, later: 0 }
    for (const version of item.versions) {
      const step = steps[lowerBound(positions, version.at)]
      if (step) {
        step.members += version.members - before.members
        step.later += version.later - before.later
      }
      before = version
      yield
    }
    if (item.versions.some(({ isByHand }) => isByHand)) byHand.push(item)
  }
  const sum = { members: 0, later: 0 }
  const sums = new Map<Position, ItemDifference>()
  for (const [index, position] of positions.entries()) {
    sum.members += steps[index]?.members ?? 0
    sum.later += steps[index]?.later ?? 0
    sums.set(position, { ...sum })
  }
  const totals: ItemDifference[] = []
  for (const { position, edits } of fileVersions) {
    const total = { ...(sums.get(position) as ItemDifference) }
    for (const { versions } of edits.length > 0 ? byHand : []) {
      const [withEdits, without] = [
        versionIn(versions, { position, edits }),
        versionIn(versions, { position, edits: [] }),
      ]
      total.members += withEdits.members - without.members
      total.later += withEdits.later - without.later
      yield
    }
    totals.push(total)
  }
  return totals
}

/** The version of an item that a version of the file shows. */
function versionIn(versions: readonly ItemVersion[], fileVersion: FileVersion): ItemVersion {
  return versions.findLast(({ at }) => at === 0 || showsEvent(fileVersion, at)) as ItemVersion
}
