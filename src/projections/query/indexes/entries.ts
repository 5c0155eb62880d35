import { compareInstants, type Instant } from '../../../json/instant.ts'
import { type Ranked, ranked } from '../../../json/order.ts'
import { keyOfRanked, orderKey } from '../../../json/order-key.ts'
import { MANY, PAUSE, type Path, plainAt, valuesAt } from '../../../json/paths.ts'
import { compareText, isArray, isObject, type JsonObject, type JsonValue } from '../../../json/value.ts'
import type { Steps } from '../../../slices.ts'

/**
 * Where an index keeps a value. The sections follow the one order of all values (json/order.ts); instants have three,
 * as only those in the middle are a number of microseconds that a double holds exactly. What has no value comes last.
 */
export const SECTION = {
  null: 1,
  boolean: 2,
  number: 3,
  early: 4,
  instant: 5,
  late: 6,
  text: 7,
  array: 8,
  object: 9,
  missing: 10,
} as const
export const SECTIONS = 11

/** The sections of each rank. */
export const SECTIONS_OF_RANK: readonly (readonly number[])[] = [
  [SECTION.null],
  [SECTION.boolean],
  [SECTION.number],
  [SECTION.early, SECTION.instant, SECTION.late],
  [SECTION.text],
  [SECTION.array],
  [SECTION.object],
]

/** A number for all but text (itself), instants far away (themselves), arrays and objects (their order keys). */
export type Key = number | string | Instant

/** A value as an index keeps it. */
export interface Entry {
  readonly section: number
  readonly key: Key
}

const MISSING: Entry = { section: SECTION.missing, key: 0 }
const NULL: Entry = { section: SECTION.null, key: 0 }

/** Whether the section's keys are numbers. */
export function isNumeric(section: number): boolean {
  return section <= SECTION.number || section === SECTION.instant || section === SECTION.missing
}

export function entryOf(value: Ranked): Entry {
  switch (value.rank) {
    case 0:
      return NULL
    case 1:
      return { section: SECTION.boolean, key: Number(value.value) }
    case 2:
      return { section: SECTION.number, key: value.value + 0 }
    case 3: {
      const micros = value.value.ms * 1000 + value.value.micros
      if (micros > Number.MAX_SAFE_INTEGER) return { section: SECTION.late, key: value.value }
      if (micros < Number.MIN_SAFE_INTEGER) return { section: SECTION.early, key: value.value }
      return { section: SECTION.instant, key: micros }
    }
    case 4:
      return { section: SECTION.text, key: value.value }
    default:
      return { section: value.rank === 5 ? SECTION.array : SECTION.object, key: keyOfRanked(value) }
  }
}

/** The order of two keys of one section. */
export function compareKeys(section: number, a: Key, b: Key): number {
  switch (section) {
    case SECTION.text:
      return a === b ? 0 : compareText(a as string, b as string)
    case SECTION.early:
    case SECTION.late:
      return compareInstants(a as Instant, b as Instant)
    case SECTION.array:
    case SECTION.object:
      return a === b ? 0 : a < b ? -1 : 1
    default:
      return (a as number) - (b as number)
  }
}

/** The entries of one item in an index. */
export interface ItemEntries {
  /** The entry that the item is sorted by. */
  readonly first: Entry
  /** The entries of all other values; undefined when these are too many, or too long. */
  readonly others: readonly Entry[] | undefined
}

/** The values of an item that an index holds, */
const MOST_VALUES = 1000
/** those that are looked at to find them, */
const MOST_LOOKED_AT = 16_384
/** and what the keys of all but the first may take, in units. */
const MOST_UNITS = 65_536

const NONE: readonly Entry[] = []

/** The entries of all that the path leads to; of nothing, that it is missing. */
export function* entriesOf(item: JsonObject, path: Path): Steps<ItemEntries> {
  const plain = plainAt(item, path)
  if (plain !== MANY) return { first: plain === undefined ? MISSING : yield* entryAt(plain), others: NONE }
  let first: Entry | undefined
  let others: Entry[] | undefined = []
  let units = 0
  let pauses = 0
  for (const value of valuesAt(item, path)) {
    if (value === undefined) {
      yield
      if (++pauses * PAUSE > MOST_LOOKED_AT) others = undefined
    } else if (!first) first = yield* entryAt(value)
    else if (others) {
      const entry: Entry = yield* entryAt(value, MOST_UNITS)
      if (typeof entry.key === 'string') units += entry.key.length
      if (others.push(entry) >= MOST_VALUES || units > MOST_UNITS) others = undefined
    }
    if (first && !others) break
  }
  return { first: first ?? MISSING, others }
}

/** The entry by which the item is sorted. */
export function* firstEntry(item: JsonObject, path: Path): Steps<Entry> {
  for (const value of valuesAt(item, path)) {
    if (value !== undefined) return yield* entryAt(value)
    yield
  }
  return MISSING
}

/** The key of an array or object that is longer than `most` is cut somewhere after that. */
function* entryAt(value: JsonValue, most?: number): Steps<Entry> {
  if (isArray(value)) return { section: SECTION.array, key: yield* orderKey(value, most) }
  if (isObject(value)) return { section: SECTION.object, key: yield* orderKey(value, most) }
  return entryOf(ranked(value))
}
