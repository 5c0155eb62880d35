import { compareInstants, type Instant, parseInstant } from './instant.ts'
import { firstAt, type Path, parsePath } from './paths.ts'
import { compareText, isArray, type JsonObject, type JsonValue } from './value.ts'

/** A value with the rank of its type. Values of different types compare by rank, values of one type by content. */
export type Ranked =
  | { readonly rank: 0 }
  | { readonly rank: 1; readonly value: boolean }
  | { readonly rank: 2; readonly value: number }
  | { readonly rank: 3; readonly value: Instant }
  | { readonly rank: 4; readonly value: string }
  /** The elements of an array (5), or the members of an object (6): names sorted, each followed by its value. */
  | { readonly rank: 5 | 6; readonly value: readonly Ranked[] }

export function ranked(value: JsonValue): Ranked {
  switch (typeof value) {
    case 'boolean':
      return { rank: 1, value }
    case 'number':
      return { rank: 2, value }
    case 'string': {
      const instant = parseInstant(value)
      return instant ? { rank: 3, value: instant } : { rank: 4, value }
    }
    default:
      if (value === null) return { rank: 0 }
      return isArray(value) ? { rank: 5, value: value.map(ranked) } : { rank: 6, value: members(value) }
  }
}

function members(object: JsonObject): readonly Ranked[] {
  return Object.keys(object)
    .sort(compareText)
    .flatMap((name) => [{ rank: 4, value: name }, ranked(object[name] as JsonValue)])
}

export function compareRanked(a: Ranked, b: Ranked): number {
  if (a.rank !== b.rank) return a.rank - b.rank
  switch (a.rank) {
    case 0:
      return 0
    case 1:
    case 2:
      return Number(a.value) - Number((b as typeof a).value)
    case 3:
      return compareInstants(a.value, (b as typeof a).value)
    case 4:
      return compareText(a.value, (b as typeof a).value)
    default:
      return compareSequences(a.value, (b as typeof a).value)
  }
}

/** A text that is equal for equal values: members are sorted, -0 is 0. */
export function keyOf(value: Ranked): string {
  return JSON.stringify(value)
}

/** Lexicographic order. */
function compareSequences(a: readonly Ranked[], b: readonly Ranked[]): number {
  for (const [index, left] of a.entries()) {
    const right = b[index]
    const order = right ? compareRanked(left, right) : 1
    if (order !== 0) return order
  }
  return a.length - b.length
}

/** Sorts by the value at a path. Items without a value come last in both directions. */
export interface Sort {
  readonly path: Path
  readonly descending: boolean
}

/** Parses `field_asc`, `field_desc`, `-field`, `+field` or `field`. The plus sign may arrive as a space. */
export function parseSort(text: string): Sort {
  const sign = text[0]
  if (sign === '-') return { path: parsePath(text.slice(1)), descending: true }
  const name = sign === '+' || sign === ' ' ? text.slice(1) : text
  const [, field = name, direction] = /^(.+)_(asc|desc)$/s.exec(name) ?? []
  return { path: parsePath(field), descending: direction === 'desc' }
}

/** The values by which an item is sorted, one for each sort; undefined where the item has none. */
export type SortKeys = readonly (Ranked | undefined)[]

export function sortKeys(item: JsonValue, sort: readonly Sort[]): SortKeys {
  return sort.map(({ path }) => {
    const found = firstAt(item, path)
    return found === undefined ? undefined : ranked(found)
  })
}

export function compareSortKeys(a: SortKeys, b: SortKeys, sort: readonly Sort[]): number {
  for (const [index, { descending }] of sort.entries()) {
    const left = a[index]
    const right = b[index]
    const order = !left || !right ? Number(!left) - Number(!right) : compareRanked(left, right)
    if (order !== 0) return left && right && descending ? -order : order
  }
  return 0
}
