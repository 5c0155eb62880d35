import { instantOf } from './event-time.ts'
import { compareInstants, type Instant, parseInstant } from './instant.ts'
import { firstAt, type Path, parsePath } from './paths.ts'
import { compareText, isArray, type JsonObject, type JsonValue } from './value.ts'

/** The types in the order of their values. */
export const RANK = { null: 1, boolean: 2, number: 3, instant: 4, text: 5, array: 6, object: 7 } as const
type Rank = typeof RANK

/** A value with the rank of its type. Values of different types compare by rank, values of one type by content. */
export type Ranked =
  | { readonly rank: Rank['null'] }
  | { readonly rank: Rank['boolean']; readonly value: boolean }
  | { readonly rank: Rank['number']; readonly value: number }
  | { readonly rank: Rank['instant']; readonly value: Instant }
  | { readonly rank: Rank['text']; readonly value: string }
  /** The elements of an array, or the members of an object: names sorted, each followed by its value. */
  | { readonly rank: Rank['array' | 'object']; readonly value: readonly Ranked[] }

export function ranked(value: JsonValue): Ranked {
  switch (typeof value) {
    case 'boolean':
      return { rank: RANK.boolean, value }
    case 'number':
      return { rank: RANK.number, value }
    case 'string': {
      const instant = parseInstant(value)
      return instant ? { rank: RANK.instant, value: instant } : { rank: RANK.text, value }
    }
    default:
      if (value === null) return { rank: RANK.null }
      if (isArray(value)) return { rank: RANK.array, value: value.map(ranked) }
      return { rank: RANK.object, value: members(value) }
  }
}

/** A value as an event time: an instant in any spelling, or in a list, which comes after all instants. */
function rankedTime(value: JsonValue): Ranked {
  const instant = instantOf(value)
  return instant ? { rank: RANK.instant, value: instant } : { rank: RANK.array, value: [ranked(value)] }
}

function members(object: JsonObject): readonly Ranked[] {
  return Object.keys(object)
    .sort(compareText)
    .flatMap((name) => [{ rank: RANK.text, value: name }, ranked(object[name] as JsonValue)])
}

export function compareRanked(a: Ranked, b: Ranked): number {
  if (a.rank !== b.rank) return a.rank - b.rank
  switch (a.rank) {
    case RANK.null:
      return 0
    case RANK.boolean:
    case RANK.number:
      return Number(a.value) - Number((b as typeof a).value)
    case RANK.instant:
      return compareInstants(a.value, (b as typeof a).value)
    case RANK.text:
      return compareText(a.value, (b as typeof a).value)
    default:
      return compareSequences(a.value, (b as typeof a).value)
  }
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
  /** The values are event times. */
  readonly isTime?: boolean
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
  return sort.map(({ path, isTime }) => {
    const found = firstAt(item, path)
    if (found === undefined) return undefined
    return isTime ? rankedTime(found) : ranked(found)
  })
}

export function compareSortKeys(a: SortKeys, b: SortKeys, sort: readonly Sort[]): number {
  for (const [index, { descending, isTime }] of sort.entries()) {
    const left = a[index]
    const right = b[index]
    const order = !left || !right ? Number(!left) - Number(!right) : compareRanked(left, right)
    // An event time that is no instant comes last in both directions.
    const isLast = (one: Ranked | undefined): boolean => !one || (isTime === true && one.rank > RANK.instant)
    if (order !== 0) return descending && !isLast(left) && !isLast(right) ? -order : order
  }
  return 0
}
