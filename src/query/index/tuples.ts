import { MISSING } from '../../json/order.ts'
import { orderKey, timeKeyAt } from '../../json/order-key.ts'
import { type Path, valuesAt } from '../../json/paths.ts'
import type { JsonObject } from '../../json/value.ts'
import { POSITION_BYTES, putPosition } from '../../store/keys.ts'
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
type Kind = (typeof KIND)[keyof typeof KIND]

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
  const end = placeKey(place)
  const tuples = item && tuplesOf(item, fields)
  if (!tuples) return [String.fromCharCode(KIND.unknown) + end]
  const kind = String.fromCharCode(tuples.kind)
  // Unlike a concatenation, the result of `join` is flat, which makes sorting keys twice as fast.
  return tuples.texts.map((tuple) => [kind, tuple, end].join(''))
}

const placeBytes = Buffer.alloc(POSITION_BYTES)

export function placeKey(place: number): string {
  putPosition(placeBytes, 0, place)
  return placeBytes.toString('latin1')
}

interface Tuples {
  readonly kind: Kind
  readonly texts: readonly string[]
}

/** Undefined if there are too many. */
function tuplesOf(item: JsonObject, { paths, timePart }: IndexFields): Tuples | undefined {
  const most = mostPartLength(paths.length)
  let kind: Kind = KIND.single
  let tuples: string[] = ['']
  for (const [index, path] of paths.entries()) {
    const parts = index === timePart ? [timeKeyAt(item, path, most + 1) ?? MISSING] : partKeys(item, path, most)
    if (!parts || tuples.length * parts.length > MOST_TUPLES) return undefined
    if (parts.length > 1) kind = KIND.several
    const longer: string[] = []
    for (const tuple of tuples) {
      for (const part of parts) {
        if (part.length > most) kind = KIND.several
        longer.push(tuple + part.slice(0, most))
      }
    }
    tuples = longer
  }
  return { kind, texts: kind === KIND.single ? tuples : [...new Set(tuples)] }
}

/** The order keys of all values at a path, which may be cut after `most + 1`. Undefined if there are too many. */
function partKeys(item: JsonObject, path: Path, most: number): string[] | undefined {
  const values = valuesAt(item, path)
  if (values.length > MOST_TUPLES) return undefined
  return values.length > 0 ? values.map((value) => orderKey(value, most + 1)) : [MISSING]
}
