import { instantOf } from '../../json/instant.ts'
import { MISSING } from '../../json/order.ts'
import { KeyWriter, timeKey } from '../../json/order-key.ts'
import { type Path, valuesAt } from '../../json/paths.ts'
import type { JsonObject, JsonValue } from '../../json/value.ts'
import { POSITION_BYTES } from '../../store/keys.ts'
import { MOST_KEY_BYTES } from '../../store/tree-writer.ts'

/*
 * A key of an index is a kind (1 byte), a tuple and a place. The tuple has for each path of the index the order key of the
 * value there (json/order-key.ts); none of these begins another, so that tuples have the order of their values. At the
 * path of the event time it has a single key.
 *
 *   single    each path leads to one value at most, or to none, and the tuple is whole
 *   several   a path leads to several values, or the tuple is cut: there is a key for each tuple, and the item is read
 *   unknown   there would be too many tuples, or the item is long: there is no tuple, and the item is read
 */
export const KIND = { unknown: 0, several: 1, single: 2 } as const

/** Highest number of paths of an index. */
export const MOST_PATHS = 4

/** Longer items, in characters, are not indexed: parsing them during a write would block the event loop. */
export const LONG_ITEM = 32 * 1024
/** Highest number of tuples of one item. */
const MOST_TUPLES = 1000

/** The fields from whose values the keys of an index are made. */
export interface IndexFields {
  readonly paths: readonly Path[]
  /** The index in `paths` of the event time; -1 if it is not there. */
  readonly timePart: number
}

/** The length to which the parts of a tuple are cut. */
export function mostPartLength(paths: number): number {
  return Math.floor((MOST_KEY_BYTES - POSITION_BYTES - 1) / paths)
}

/** The keys of an item at a place, as latin1. */
export function tupleKeys(item: JsonObject | undefined, fields: IndexFields, place: number): readonly string[] {
  const values = item && valuesOf(item, fields)
  if (!values) return [String.fromCharCode(KIND.unknown) + placeKey(place)]
  const keys: string[] = []
  writer.begin()
  writer.byte(KIND.single)
  const areWhole = addKeys({ keys, values, timePart: fields.timePart, place }, 0)
  if (areWhole && values.every(({ length }) => length <= 1)) return keys
  const several = String.fromCharCode(KIND.several)
  return Array.from(new Set(keys), (key) => several + key.slice(1))
}

export function placeKey(place: number): string {
  writer.begin()
  writePlace(place)
  return writer.key
}

/** As `putPosition` does. */
function writePlace(place: number): void {
  const high = Math.floor(place / 2 ** 32)
  writer.byte(high >>> 8)
  writer.byte(high & 0xff)
  for (let shift = 24; shift >= 0; shift -= 8) writer.byte((place >>> shift) & 0xff)
}

interface Tuples {
  readonly keys: string[]
  /** At each path. */
  readonly values: readonly (readonly JsonValue[])[]
  readonly timePart: number
  readonly place: number
}

/** Writes one key at a time. */
const writer = new KeyWriter()
const NO_VALUE = [undefined]

/** Adds the keys of the tuples that begin as was written; `index` is that of the next path. Returns whether none is cut. */
function addKeys(tuples: Tuples, index: number): boolean {
  const { keys, values, timePart, place } = tuples
  const begin = writer.length
  const wanted = values[index]
  if (!wanted) {
    writePlace(place)
    keys.push(writer.key)
    return true
  }
  const most = mostPartLength(values.length)
  let areWhole = true
  for (const value of wanted.length > 0 ? wanted : NO_VALUE) {
    writer.truncate(begin)
    writer.limit(most + 1)
    writePart(value, index === timePart, most)
    if (writer.length > begin + most) areWhole = false
    writer.truncate(begin + most)
    if (!addKeys(tuples, index + 1)) areWhole = false
  }
  return areWhole
}

function writePart(value: JsonValue | undefined, isTime: boolean, most: number): void {
  const instant = isTime ? instantOf(value) : undefined
  if (instant) writer.instant(instant)
  else if (value === undefined) writer.units(MISSING)
  else if (isTime) writer.units(timeKey(value, most + 1))
  else writer.value(value)
}

/** The values at each path; undefined if there would be too many tuples. */
function valuesOf(item: JsonObject, { paths, timePart }: IndexFields): Tuples['values'] | undefined {
  const all = paths.map((path) => valuesAt(item, path))
  if (timePart >= 0) all[timePart] = (all[timePart] as readonly JsonValue[]).slice(0, 1)
  let count = 1
  for (const { length } of all) count *= Math.max(1, length)
  return count > MOST_TUPLES ? undefined : all
}
