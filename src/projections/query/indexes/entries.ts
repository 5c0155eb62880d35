import { compareInstants, type Instant } from '../../../json/instant.ts'
import { compareRanked, type Ranked, ranked } from '../../../json/order.ts'
import { firstAt, type Path, valuesAt } from '../../../json/paths.ts'
import { compareText, isArray, isObject, type JsonObject, type JsonValue, own } from '../../../json/value.ts'

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

/** A number for all but text (itself), instants far away (themselves), arrays and objects (their ranked parts). */
export type Key = number | string | Instant | readonly Ranked[]

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
      return { section: value.rank === 5 ? SECTION.array : SECTION.object, key: value.value }
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
      return compareRanked({ rank: 5, value: a as readonly Ranked[] }, { rank: 5, value: b as readonly Ranked[] })
    default:
      return (a as number) - (b as number)
  }
}

/** The entry by which the item is sorted. */
export function firstEntry(item: JsonObject, path: Path): Entry {
  const plain = plainAt(item, path)
  const found = plain === MANY ? firstAt(item, path) : plain
  return found === undefined ? MISSING : entryOf(ranked(found))
}

/** The entries of all that the path leads to, the one to sort by first; of nothing, that it is missing. */
export function entriesOf(item: JsonObject, path: Path): readonly Entry[] {
  const found = plainAt(item, path)
  if (found === undefined) return [MISSING]
  if (found !== MANY) return [entryOf(ranked(found))]
  const values = valuesAt(item, path)
  return values.length === 0 ? [MISSING] : values.map((value) => entryOf(ranked(value)))
}

const MANY = Symbol('many')

/** The one value at a path that no array is on, MANY where there is one: what nearly every item has costs little. */
function plainAt(item: JsonObject, path: Path): JsonValue | undefined | typeof MANY {
  let at: JsonValue | undefined = item
  for (const name of path) {
    if (isArray(at)) return MANY
    at = isObject(at) ? own(at, name) : undefined
    if (at === undefined) return undefined
  }
  return isArray(at) ? MANY : at
}
