import { compareInstants, type Instant, instantOf, parseInstant, readInstant } from '../../src/json/instant.ts'
import { firstAt } from '../../src/json/paths.ts'
import { isArray, isObject, type JsonObject, type JsonValue } from '../../src/json/value.ts'

/** The types in the order of their values. */
export const RANK = { null: 1, boolean: 2, number: 3, instant: 4, text: 5, array: 6, object: 7 } as const
type Rank = typeof RANK

/** The reference for order keys: values of different types compare by rank, values of one type by content. */
export type Ranked =
  | { readonly rank: Rank['null'] }
  | { readonly rank: Rank['boolean']; readonly value: boolean }
  | { readonly rank: Rank['number']; readonly value: number }
  | { readonly rank: Rank['instant']; readonly value: Instant }
  | { readonly rank: Rank['text']; readonly value: string }
  /** The elements of an array, or the members of an object: names sorted, each followed by its value. */
  | { readonly rank: Rank['array' | 'object']; readonly value: readonly Ranked[] }

export function ranked(value: JsonValue): Ranked {
  if (typeof value === 'boolean') return { rank: RANK.boolean, value }
  if (typeof value === 'number') return { rank: RANK.number, value }
  if (typeof value === 'string') {
    const instant = parseInstant(value)
    return instant ? { rank: RANK.instant, value: instant } : { rank: RANK.text, value }
  }
  if (value === null) return { rank: RANK.null }
  if (isArray(value)) return { rank: RANK.array, value: value.map(ranked) }
  return { rank: RANK.object, value: members(value) }
}

/** A value as an event time: an instant in any spelling, or in a list, which comes after all instants. */
function rankedTime(value: JsonValue): Ranked {
  const instant = instantOf(value)
  return instant ? { rank: RANK.instant, value: instant } : { rank: RANK.array, value: [ranked(value)] }
}

function members(object: JsonObject): readonly Ranked[] {
  return Object.keys(object)
    .sort(comparePoints)
    .flatMap((name) => [{ rank: RANK.text, value: name }, ranked(object[name] as JsonValue)])
}

/** The text of a parameter as a value of each type that it may be. */
export function interpretations(text: string): readonly Ranked[] {
  const instant = readInstant(text)
  const json = parsed(text)
  return [
    { rank: RANK.text, value: text },
    ...(instant ? [{ rank: RANK.instant, value: instant }] : []),
    ...(json === undefined || typeof json === 'string' ? [] : [ranked(json)]),
  ]
}

function parsed(text: string): JsonValue | undefined {
  try {
    const value: JsonValue = JSON.parse(text)
    const isContainer = isArray(value) || isObject(value)
    return isContainer || text === text.trim() ? value : undefined
  } catch {
    return undefined
  }
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
      return comparePoints(a.value, (b as typeof a).value)
    default:
      return compareSequences(a.value, (b as typeof a).value, compareRanked)
  }
}

function comparePoints(a: string, b: string): number {
  return compareSequences(Array.from(a), Array.from(b), (l, r) => (l.codePointAt(0) ?? 0) - (r.codePointAt(0) ?? 0))
}

/** Lexicographic order. */
function compareSequences<T>(a: readonly T[], b: readonly T[], compare: (left: T, right: T) => number): number {
  for (const [index, left] of a.entries()) {
    if (index >= b.length) return 1
    const order = compare(left, b[index] as T)
    if (order !== 0) return order
  }
  return a.length - b.length
}

interface Sort {
  readonly path: readonly string[]
  readonly descending: boolean
  readonly isTime?: boolean
}

/** The values by which an item is sorted, one for each sort; undefined where the item has none. */
export type SortValues = readonly (Ranked | undefined)[]

export function sortValues(item: JsonValue, sort: readonly Sort[]): SortValues {
  return sort.map(({ path, isTime }) => {
    const found = firstAt(item, path)
    if (found === undefined) return undefined
    return isTime ? rankedTime(found) : ranked(found)
  })
}

export function compareSortValues(a: SortValues, b: SortValues, sort: readonly Sort[]): number {
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
