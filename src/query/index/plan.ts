import type { Turn } from '../../runtime/turns.ts'
import type { OrderedKeys } from '../../store/tree.ts'
import type { CollectionSnapshot } from '../collection-snapshot.ts'
import type { Access, AccessPaths, KeyRange } from './access.ts'
import type { StoredIndex } from './stored-index.ts'
import { KIND } from './tuples.ts'

/** This many items may be read individually, regardless of filters and sorts. */
export const FEW = 200
/** This many items that the index does not order are read individually and merged. */
const FEW_OTHERS = 1000

/** How many keys can be read in the time that reading one item takes, roughly. */
const KEYS_PER_ITEM = 16

/** About how long reading an item takes, in milliseconds. */
export const ITEM_MS = 0.005

/** The prefix of keys of items that the index orders. */
const SINGLE = Buffer.from([KIND.single])

/** The result of planning: an index and its relevant keys. */
export interface IndexPlan {
  readonly index: StoredIndex
  readonly tree: OrderedKeys
  readonly access: Access
  /** The ranges of the access that are not empty. */
  readonly single: readonly Counted[]
  /** Number of keys whose items must be read. */
  readonly others: number
  /** Total number of keys. */
  readonly size: number
  /** The cost of reading the index, as a number of items to read. */
  readonly cost: number
  /** Whether the page consists of consecutive keys, apart from a few items to be merged. */
  readonly isInOrder: boolean
}

/** A range, with the number of keys in it. */
export interface Counted {
  readonly range: KeyRange
  readonly prefix: string
  readonly size: number
}

/** The index with the fewest items to read; undefined if scanning all items is as good. */
export async function planOf(
  snapshot: CollectionSnapshot,
  accessPaths: AccessPaths,
  turn: Turn,
): Promise<IndexPlan | undefined> {
  let best: IndexPlan | undefined
  for (const index of snapshot.indexes) {
    const access = accessPaths.by(index.paths)
    if (!access) continue
    const plan = await counted(index, await snapshot.keysOf(index, turn), access, turn)
    if (plan.isInOrder) return plan
    if (plan.cost < (best?.cost ?? snapshot.items.size)) best = plan
  }
  return best
}

async function counted(index: StoredIndex, tree: OrderedKeys, access: Access, turn: Turn): Promise<IndexPlan> {
  const single: Counted[] = []
  let size = 0
  for (const [at, range] of access.single.entries()) {
    const within = await tree.count(bytesOf(range.from), bytesOf(range.to), turn)
    if (within > 0) single.push({ range, prefix: access.prefixes[at] as string, size: within })
    size += within
    if (turn.isOver) await turn.next()
  }
  let others = 0
  if ((await tree.count(Buffer.alloc(0), SINGLE, turn)) > 0) {
    for (const { from, to } of access.others) others += await tree.count(bytesOf(from), bytesOf(to), turn)
  }
  const isOfOne = single.every(({ prefix }) => prefix === single[0]?.prefix)
  const most = access.order?.leavesOut ? 0 : FEW_OTHERS
  const isInOrder = access.isExact && access.order !== undefined && isOfOne && others <= most
  const cost = others + (access.covered ? size / KEYS_PER_ITEM : size)
  return { index, tree, access, single, others, size: size + others, cost, isInOrder }
}

export function bytesOf(key: string): Buffer {
  return Buffer.from(key, 'latin1')
}
