import { MISSING } from '../../json/order.ts'
import { RANK, rankOfKey, textKey } from '../../json/order-key.ts'
import { isWellFormed } from '../../json/value.ts'
import type { Filter } from '../filter.ts'

/** Order keys from `from` to before `to`. */
export interface Range {
  readonly from: string
  readonly to: string
  /** The range contains a single key. */
  readonly isPoint: boolean
}

/** The result of applying a filter to an index. */
interface Ranges {
  /** In order and disjoint. */
  readonly ranges: readonly Range[]
  /** False if items with a value in the ranges may still fail the filter. */
  readonly isExact: boolean
}

/** Above all bytes that may follow an order key or a part of one: other order keys, or a place. */
export const END = '\xff'

/** The ranges of values that match a filter; undefined if order keys do not help. */
export function rangesOf(filter: Filter): Ranges | undefined {
  switch (filter.operator) {
    case 'contains':
    case 'endswith':
    case 'like':
    case 'istartswith':
    case 'iendswith':
      return undefined
    case 'startswith':
      return filter.isTime ? undefined : prefixRanges(filter)
    case 'exists': {
      const texts = filter.operands.map(({ text }) => text)
      return exact([
        ...(texts.includes('true') ? [{ from: '', to: MISSING, isPoint: false }] : []),
        ...(texts.includes('false') ? [point(MISSING)] : []),
      ])
    }
    case 'eq':
      return exact(keysOfOperands(filter).map(({ key }) => point(key)))
    case 'ne':
      // An event time that is no instant matches, too.
      return exact(filter.isTime ? rangesBetween('', filter.keys.all, MISSING) : rangesWithout(keysOfOperands(filter)))
    default: {
      const { operator } = filter
      return exact(keysOfOperands(filter).map(({ rank, key }) => rangeBeside(rank, key, operator)))
    }
  }
}

function point(key: string): Range {
  return { from: key, to: above(key), isPoint: true }
}

/** Above all keys with this prefix, and below all higher keys. */
function above(key: string): string {
  return key + END
}

/** The order key of an operand. */
interface RankedKey {
  readonly rank: number
  readonly key: string
}

function keysOfOperands({ operands }: Filter): readonly RankedKey[] {
  return operands.flatMap(({ keys }) => keys.map((key) => ({ rank: rankOfKey(key), key })))
}

/** The prefix of all order keys of a rank. */
function rankPrefix(rank: number): string {
  return String.fromCharCode(rank)
}

function rangeBeside(rank: number, key: string, operator: 'gt' | 'gte' | 'lt' | 'lte'): Range {
  switch (operator) {
    case 'gt':
      return { from: above(key), to: rankPrefix(rank + 1), isPoint: false }
    case 'gte':
      return { from: key, to: rankPrefix(rank + 1), isPoint: false }
    case 'lt':
      return { from: rankPrefix(rank), to: key, isPoint: false }
    default:
      return { from: rankPrefix(rank), to: above(key), isPoint: false }
  }
}

/** The ranges of all values other than the operands, within their ranks. */
function rangesWithout(operands: readonly RankedKey[]): readonly Range[] {
  const keys: string[][] = []
  for (const { rank, key } of operands) {
    keys[rank] ??= []
    keys[rank].push(key)
  }
  return keys.flatMap((ofRank, rank) => rangesBetween(rankPrefix(rank), ofRank, rankPrefix(rank + 1)))
}

/** The ranges from `first` to before `end` without these keys. */
function rangesBetween(first: string, keys: Iterable<string>, end: string): readonly Range[] {
  const sorted = [...keys].sort()
  return [...sorted, end].map((to, index) => {
    const before = sorted[index - 1]
    return { from: before === undefined ? first : above(before), to, isPoint: false }
  })
}

/**
 * Undefined for text that may be an instant, whose spelling the index does not hold, and for half of a surrogate pair,
 * which is no prefix in key order.
 */
function prefixRanges({ operands }: Filter): Ranges | undefined {
  if (!operands.every(({ text }) => isWellFormed(text))) return undefined
  const texts = operands.map(({ text }) => {
    // The key without its terminator, as a prefix.
    const from = textKey(text).slice(0, -1)
    return { from, to: from + END, isPoint: false }
  })
  const instants = { from: rankPrefix(RANK.instant), to: rankPrefix(RANK.instant + 1), isPoint: false }
  return { ranges: unite([instants, ...texts]), isExact: false }
}

function exact(ranges: readonly Range[]): Ranges {
  return { ranges: unite(ranges), isExact: true }
}

function unite(ranges: readonly Range[]): Range[] {
  const apart: Range[] = []
  const inOrder = ranges.filter(({ from, to }) => from < to).sort((a, b) => (a.from < b.from ? -1 : 1))
  for (const range of inOrder) {
    const last = apart.at(-1)
    if (!last || last.to < range.from) apart.push(range)
    else if (last.to < range.to) apart[apart.length - 1] = { from: last.from, to: range.to, isPoint: false }
  }
  return apart
}

/** The intersection of ranges. */
export function intersect(left: readonly Range[], right: readonly Range[]): Range[] {
  const both: Range[] = []
  for (let l = 0, r = 0; l < left.length && r < right.length; ) {
    const [a, b] = [left[l] as Range, right[r] as Range]
    const [, from = ''] = [a.from, b.from].sort()
    const [to = ''] = [a.to, b.to].sort()
    if (from < to) both.push({ from, to, isPoint: a.isPoint || b.isPoint })
    if (a.to < b.to) l++
    else r++
  }
  return both
}
