import { HIGHEST, POSITION_BYTES, positionOf, putPosition } from './keys.ts'

/*
 * A node of a tree (tree.ts), as the store holds it:
 *
 * | Bytes | |
 * |---|---|
 * | 6 | the position of the last event that changed it |
 * | 1 | its level, 0 for a leaf |
 * | 2 | how many entries it has |
 * | 2 each | where each entry ends, from the first one's beginning on |
 * | … | the entries, in order |
 *
 * An entry of a leaf is a key, which ends with a place. An entry of another node is what all keys of a child begin with or
 * lie behind, then 6 bytes each: the child's number, how many keys it has below it, and between which places those lie.
 */
const AT = { level: 6, size: 7, ends: 9 } as const
const END_BYTES = 2
/** Offsets in an entry for a child, after its separator. */
const CHILD = { node: 0, count: 6, low: 12, high: 18 } as const
const CHILD_BYTES = 24

/** A parent's entry for a child. */
export interface Child {
  readonly node: number
  /** Number of all keys below it. */
  readonly count: number
  /** No key below it has a lower place. */
  readonly low: number
  /** No key below it has a higher place. */
  readonly high: number
}

export function emptyNode(level: number): Buffer {
  const node = Buffer.alloc(AT.ends)
  node[AT.level] = level
  return node
}

export function levelOf(node: Buffer): number {
  return node[AT.level] as number
}

/** Number of entries. */
export function entryCount(node: Buffer): number {
  return shortAt(node, AT.size)
}

/** Bytes of an entry in a node. */
export function entryBytes(entry: Buffer): number {
  return END_BYTES + entry.length
}

/** The bytes of an entry, not copied. */
export function entryAt(node: Buffer, index: number): Buffer {
  const size = entryCount(node)
  return node.subarray(startOf(node, size, index), endOf(node, size, index))
}

/** Whether an entry equals `other`, both without the `omitted` bytes at their ends. */
export function isEntry(node: Buffer, index: number, other: Buffer, omitted: number): boolean {
  const size = entryCount(node)
  const start = startOf(node, size, index)
  const length = endOf(node, size, index) - omitted - start
  return length === other.length - omitted && compareBytes(other, length, node, start, length) === 0
}

export function entryBeginsWith(node: Buffer, index: number, prefix: Buffer): boolean {
  const size = entryCount(node)
  const start = startOf(node, size, index)
  const { length } = prefix
  return endOf(node, size, index) - start >= length && compareBytes(prefix, length, node, start, length) === 0
}

/** The place at the end of a leaf's key. */
export function placeAt(node: Buffer, index: number): number {
  return positionOf(node, endOf(node, entryCount(node), index) - POSITION_BYTES)
}

/** A lower bound for the keys of a child. For the first child it is not used and may be higher than its keys. */
export function separatorAt(node: Buffer, index: number): Buffer {
  const size = entryCount(node)
  return node.subarray(startOf(node, size, index), endOf(node, size, index) - CHILD_BYTES)
}

export function childAt(node: Buffer, index: number): Child {
  const at = endOf(node, entryCount(node), index) - CHILD_BYTES
  return {
    node: positionOf(node, at + CHILD.node),
    count: positionOf(node, at + CHILD.count),
    low: positionOf(node, at + CHILD.low),
    high: positionOf(node, at + CHILD.high),
  }
}

export function childNode(node: Buffer, index: number): number {
  return positionOf(node, endOf(node, entryCount(node), index) - CHILD_BYTES + CHILD.node)
}

/** Updates the entry of a child in place. */
export function putChild(node: Buffer, index: number, { node: number, count, low, high }: Child): void {
  const at = endOf(node, entryCount(node), index) - CHILD_BYTES
  putPosition(node, at + CHILD.node, number)
  putPosition(node, at + CHILD.count, count)
  putPosition(node, at + CHILD.low, low)
  putPosition(node, at + CHILD.high, high)
}

export function childEntry(separator: Buffer, child: Child): Buffer {
  const entry = Buffer.allocUnsafe(separator.length + CHILD_BYTES)
  separator.copy(entry)
  const { length } = separator
  putPosition(entry, length + CHILD.node, child.node)
  putPosition(entry, length + CHILD.count, child.count)
  putPosition(entry, length + CHILD.low, child.low)
  putPosition(entry, length + CHILD.high, child.high)
  return entry
}

/** Index of the first entry of a leaf that is not below a key; the size if there is none. */
export function lowerBound(node: Buffer, key: Buffer): number {
  return firstAbove(node, 0, 0, key, true)
}

/** The child that contains a key, or would. */
export function childFor(node: Buffer, key: Buffer): number {
  return firstAbove(node, 1, CHILD_BYTES, key, false) - 1
}

/** A copy with one more entry. */
export function withEntry(node: Buffer, index: number, entry: Buffer): Buffer {
  return withEntries(node, [index], [entry])
}

/** A copy with more entries, in their order. Each comes before the entry that has its index, which ascend, in `node`. */
export function withEntries(node: Buffer, indexes: readonly number[], entries: readonly Buffer[]): Buffer {
  const size = entryCount(node)
  const more = entries.length
  const bytes = entries.reduce((sum, { length }) => sum + length, 0)
  const made = Buffer.allocUnsafeSlow(node.length + END_BYTES * more + bytes)
  node.copy(made, 0, 0, AT.ends)
  putShort(made, AT.size, size + more)
  const base = AT.ends + END_BYTES * size
  const madeBase = base + END_BYTES * more
  /** Entries of the node that were copied, and where the last of them ends. */
  let copied = 0
  let end = 0
  let added = 0
  for (let next = 0; next <= more; next++) {
    const index = next < more ? (indexes[next] as number) : size
    const start = end
    for (; copied < index; copied++) {
      end = shortAt(node, AT.ends + END_BYTES * copied)
      putShort(made, AT.ends + END_BYTES * (copied + next), end + added)
    }
    if (end > start) node.copy(made, madeBase + start + added, base + start, base + end)
    const entry = entries[next]
    if (!entry) break
    entry.copy(made, madeBase + end + added)
    added += entry.length
    putShort(made, AT.ends + END_BYTES * (index + next), end + added)
  }
  return made
}

/** A copy without some entries, whose indexes ascend. */
export function withoutEntries(node: Buffer, indexes: readonly number[]): Buffer {
  const size = entryCount(node)
  const fewer = indexes.length
  const less = indexes.reduce((sum, index) => sum + endOf(node, size, index) - startOf(node, size, index), 0)
  const made = Buffer.allocUnsafeSlow(node.length - END_BYTES * fewer - less)
  node.copy(made, 0, 0, AT.ends)
  putShort(made, AT.size, size - fewer)
  /** Entries before `at` were copied or left out, the latter with `dropped` bytes. */
  let at = 0
  let dropped = 0
  for (let next = 0; next <= fewer; next++) {
    const to = next < fewer ? (indexes[next] as number) : size
    const start = startOf(node, size, at)
    const end = startOf(node, size, to)
    if (end > start) node.copy(made, start - END_BYTES * fewer - dropped, start, end)
    for (; at < to; at++) {
      putShort(made, AT.ends + END_BYTES * (at - next), shortAt(node, AT.ends + END_BYTES * at) - dropped)
    }
    if (to < size) dropped += endOf(node, size, to) - end
    at = to + 1
  }
  return made
}

/** A new node with the entries of both. */
export function joinNodes(left: Buffer, right: Buffer): Buffer {
  const [leftSize, rightSize] = [entryCount(left), entryCount(right)]
  const [leftBase, rightBase] = [AT.ends + END_BYTES * leftSize, AT.ends + END_BYTES * rightSize]
  const made = Buffer.allocUnsafeSlow(left.length + right.length - AT.ends)
  left.copy(made, 0, 0, leftBase)
  putShort(made, AT.size, leftSize + rightSize)
  const leftBytes = left.length - leftBase
  for (let at = 0; at < rightSize; at++) {
    putShort(made, leftBase + END_BYTES * at, leftBytes + shortAt(right, AT.ends + END_BYTES * at))
  }
  const base = leftBase + END_BYTES * rightSize
  left.copy(made, base, leftBase)
  right.copy(made, base + leftBytes, rightBase)
  return made
}

/** The values of a node's entry in its parent. */
export function summaryOf(node: Buffer): Omit<Child, 'node'> {
  const size = entryCount(node)
  const isLeaf = levelOf(node) === 0
  let count = 0
  let low = Number.MAX_SAFE_INTEGER
  let high = 0
  for (let index = 0; index < size; index++) {
    const child = isLeaf ? undefined : childAt(node, index)
    const place = child ? 0 : placeAt(node, index)
    count += child?.count ?? 1
    low = Math.min(low, child?.low ?? place)
    high = Math.max(high, child?.high ?? place)
  }
  return { count, low: Math.min(low, HIGHEST), high }
}

/**
 * Index of the first entry from `from` on that, without the `omitted` bytes at its end, is above a key (or equal, with
 * `orEqual`).
 */
function firstAbove(node: Buffer, from: number, omitted: number, key: Buffer, orEqual: boolean): number {
  const size = entryCount(node)
  let low = from
  let high = size
  /** How many first bytes the key shares with the entry before `low`, and with that at `high`. */
  let lowSame = 0
  let highSame = 0
  // Invariant: entries before `low` are not above the key, and those from `high` on are.
  while (low < high) {
    const middle = (low + high) >>> 1
    const start = startOf(node, size, middle)
    const length = endOf(node, size, middle) - omitted - start
    const same = sameBytes(key, node, start, length, Math.min(lowSame, highSame))
    const order =
      same < key.length && same < length ? (key[same] as number) - (node[start + same] as number) : key.length - length
    if (order > 0 || (order === 0 && !orEqual)) {
      low = middle + 1
      lowSame = same
    } else {
      high = middle
      highSame = same
    }
  }
  return low
}

/** How many first bytes are the same, of which `known` are known to be. */
function sameBytes(key: Buffer, node: Buffer, start: number, length: number, known: number): number {
  const both = Math.min(key.length, length)
  let at = known
  while (at < both && key[at] === node[start + at]) at++
  return at
}

/** Compares byte ranges like `Buffer.compare`; for short keys a loop is faster than that call. */
function compareBytes(key: Buffer, keyLength: number, node: Buffer, start: number, length: number): number {
  const both = Math.min(keyLength, length)
  for (let at = 0; at < both; at++) {
    const difference = (key[at] as number) - (node[start + at] as number)
    if (difference !== 0) return difference
  }
  return keyLength - length
}

function startOf(node: Buffer, size: number, index: number): number {
  const base = AT.ends + END_BYTES * size
  return index === 0 ? base : base + shortAt(node, AT.ends + END_BYTES * (index - 1))
}

function endOf(node: Buffer, size: number, index: number): number {
  return AT.ends + END_BYTES * size + shortAt(node, AT.ends + END_BYTES * index)
}

/** The result of `readUInt16BE`, which is several times slower. */
function shortAt(node: Buffer, at: number): number {
  return ((node[at] as number) << 8) | (node[at + 1] as number)
}

function putShort(node: Buffer, at: number, value: number): void {
  node[at] = value >>> 8
  node[at + 1] = value & 0xff
}
