import type { Steps } from '../../../slices.ts'
import type { Keys } from '../../../store/tree.ts'
import type { Access, AccessPaths, KeyRange } from './access.ts'
import type { Reading } from './reading.ts'
import type { StoredIndex } from './stored-index.ts'
import { KIND } from './tuples.ts'

/** So few items are looked at one by one, whatever there is to check or sort by. */
export const FEW = 200
/** So many items that an index does not place are looked at one by one, and put among the others. */
const FEW_OTHERS = 1000

/** Before all keys of items that an index places. */
const SINGLE = Buffer.from([KIND.single])

/** Where an index has what a query asks for. */
export interface Lead {
  readonly index: StoredIndex
  readonly tree: Keys
  readonly access: Access
  /** Those of the access that are not empty. */
  readonly single: readonly Counted[]
  /** Keys of items that must be looked at. */
  readonly others: number
  /** All keys together. */
  readonly size: number
  /** Whether the page is where its keys are, but for a few items that belong among them. */
  readonly isInOrder: boolean
}

/** A range, and how many keys are before it and in it. */
export interface Counted {
  readonly range: KeyRange
  readonly prefix: string
  readonly before: number
  readonly size: number
}

/** The index that leaves the least to be looked at; undefined when all items may as well be gone through. */
export function* leadOf(reading: Reading, accessPaths: AccessPaths): Steps<Lead | undefined> {
  let best: Lead | undefined
  for (const index of reading.indexes) {
    const access = accessPaths.by(index.paths)
    if (!access) continue
    const lead = yield* counted(index, yield* reading.keysOf(index), access)
    if (lead.isInOrder) return lead
    if (lead.size < (best?.size ?? reading.items.size)) best = lead
  }
  return best
}

function* counted(index: StoredIndex, tree: Keys, access: Access): Steps<Lead> {
  const single: Counted[] = []
  let size = 0
  for (const [at, range] of access.single.entries()) {
    const before = yield* tree.rank(bytesOf(range.from))
    const within = (yield* tree.rank(bytesOf(range.to))) - before
    if (within > 0) single.push({ range, prefix: access.prefixes[at] as string, before, size: within })
    size += within
    yield
  }
  let others = 0
  if ((yield* tree.rank(SINGLE)) > 0) {
    for (const { from, to } of access.others) {
      others += (yield* tree.rank(bytesOf(to))) - (yield* tree.rank(bytesOf(from)))
    }
  }
  const isOfOne = single.every(({ prefix }) => prefix === single[0]?.prefix)
  const most = access.order?.leavesOut ? 0 : FEW_OTHERS
  const isInOrder = access.isExact && access.order !== undefined && isOfOne && others <= most
  return { index, tree, access, single, others, size: size + others, isInOrder }
}

export function bytesOf(key: string): Buffer {
  return Buffer.from(key, 'latin1')
}
