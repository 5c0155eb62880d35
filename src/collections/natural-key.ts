import { hash } from 'node:crypto'
import { instantOf } from '../json/event-time.ts'
import { instantKey, orderKey } from '../json/order-key.ts'
import { firstAt, formatPath, type Path } from '../json/paths.ts'
import { isArray, isObject, type JsonObject, type JsonValue, own } from '../json/value.ts'

/** The fields whose values together identify an item. */
export interface NaturalKey {
  readonly fields: readonly Path[]
  /** The index in `fields` of the event time; -1 if it is not there. */
  readonly timePart: number
}

/** The natural key of each collection that has one, by the collection's name. */
export type KeyFields = ReadonlyMap<string, NaturalKey>

/** A natural key of more characters is represented by its hash. */
const MOST_CHARACTERS = 200
/** Highest length of the values of a natural key; computing longer ones would block the event loop. */
export const MOST_KEY_LENGTH = 4096
/** No order key begins so. */
const HASHED = '\x00'
/** Characters of a value that a message repeats. */
const MOST_SHOWN = 100

/**
 * The natural key of an item as text. Two items have the same text when their values are equal as in a query: 1 and 1.0 are, and
 * so are two spellings of an instant, of the event time also as numbers. Undefined when a field is missing or null: then the item has no natural key.
 */
export function naturalKeyOf(item: JsonObject, { fields, timePart }: NaturalKey): string | undefined {
  let key = ''
  for (const [index, path] of fields.entries()) {
    const value = firstAt(item, path)
    if (value === undefined || value === null) return undefined
    const instant = index === timePart ? instantOf(value) : undefined
    key += instant ? instantKey(instant) : orderKey(value)
  }
  return key.length > MOST_CHARACTERS ? HASHED + hash('sha256', key, 'hex') : key
}

/** Whether the values of the natural key are too long: their texts and names, and one for each value. */
export function hasLongKey(item: JsonObject, { fields }: NaturalKey): boolean {
  let left = MOST_KEY_LENGTH
  const waiting = fields.map((path) => valueToArray(item, path))
  for (let value = waiting.pop(); waiting.length > 0 || value !== undefined; value = waiting.pop()) {
    left--
    if (typeof value === 'string') left -= value.length
    const names = isObject(value) ? Object.keys(value) : []
    left -= isArray(value) ? value.length : names.length
    if (left < 0) return true
    for (const name of names) left -= name.length
    if (typeof value === 'object' && value !== null) waiting.push(...(Object.values(value) as JsonValue[]))
  }
  return left < 0
}

/** The value at a path, or the first array on the way to it. */
function valueToArray(item: JsonObject, path: Path): JsonValue | undefined {
  let at: JsonValue | undefined = item
  for (const name of path) if (!isArray(at)) at = isObject(at) ? own(at, name) : undefined
  return at
}

/** The natural key of an item for a message. */
export function describeKey(item: JsonObject, { fields }: NaturalKey): string {
  return fields
    .map((path) => {
      const text = JSON.stringify(firstAt(item, path))
      return `${formatPath(path)} ${text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}…` : text}`
    })
    .join(', ')
}
