import { eventInstant, type Instant, instantOf } from '../json/instant.ts'
import { firstAt, formatPath, type Path, pointer } from '../json/paths.ts'
import { isObject, type JsonObject, type JsonValue, own, put } from '../json/value.ts'
import { type Fault, Refusal } from '../runtime/errors.ts'
import type { EventTimeRule, Rules } from './rules.ts'

/** Characters of a value that a message repeats. */
const MOST_SHOWN = 100

/** Why an item has no valid event time, as a clause whose subject is the field; undefined if it has one. */
export function faultOfTime(item: JsonObject, rule: EventTimeRule, nowMs: number): Fault | undefined {
  const value = firstAt(item, rule.path)
  const instant = instantOf(value)
  if (instant && !isAhead(instant, rule, nowMs)) return undefined
  const message =
    value === undefined
      ? 'is missing'
      : instant
        ? `is more than ${rule.maxAheadMs / 1000} seconds ahead of the server's clock, ${new Date(nowMs).toISOString()}`
        : `must be ISO 8601, or seconds, milliseconds or microseconds since 1970, not ${shown(value)}`
  return { pointer: pointer(rule.path), message }
}

function isAhead({ ms }: Instant, { maxAheadMs }: EventTimeRule, nowMs: number): boolean {
  return ms > nowMs + maxAheadMs
}

/** The event time of an item by which it can be newer than another one; undefined if that is not valid. */
export function validTime(item: JsonObject, rule: EventTimeRule, nowMs: number): Instant | undefined {
  const instant = eventInstant(item, rule.path)
  return instant && !isAhead(instant, rule, nowMs) ? instant : undefined
}

function shown(value: JsonValue): string {
  const text = JSON.stringify(value)
  return text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}…` : text
}

/** @throws {Refusal} `Unprocessable` where the collection requires a valid event time. */
export function checkTime(item: JsonObject, collection: string, { times, nowMs }: Rules): void {
  const rule = times.get(collection)
  const fault = rule?.isTimeRequired ? faultOfTime(item, rule, nowMs()) : undefined
  if (!rule || !fault) return
  throw new Refusal(
    'Unprocessable',
    `Items of "${collection}" need an event time: the field "${formatPath(rule.path)}" ${fault.message}.`,
    [fault],
  )
}

/** The item, with the time of receipt where the collection wants that in place of a missing event time. */
export function withReceipt(item: JsonObject, collection: string, { times, received }: Rules): JsonObject {
  const rule = times.get(collection)
  return rule?.defaultsToReceipt ? withDefault(item, rule.path, received) : item
}

/** Times of receipt to the microsecond, each later than the one before. */
export function receipts(nowMs: () => number): Rules['received'] {
  let lastMicros = 0
  return () => {
    lastMicros = Math.max(nowMs() * 1000, lastMicros + 1)
    const iso = new Date(Math.floor(lastMicros / 1000)).toISOString()
    const micros = lastMicros % 1000
    return micros === 0 ? iso : `${iso.slice(0, -1)}${String(micros).padStart(3, '0')}Z`
  }
}

/** The item with a value at a path where it has none, or null. */
export function withDefault(item: JsonObject, path: Path, value: () => JsonValue): JsonObject {
  return (firstAt(item, path) ?? null) === null ? withValue(item, path, value()) : item
}

function withValue(object: JsonObject, [name = '', ...rest]: Path, value: JsonValue): JsonObject {
  const inner = own(object, name) ?? {}
  // Only an object can have the member.
  if (rest.length > 0 && !isObject(inner)) return object
  const changed: Record<string, JsonValue> = { ...object }
  put(changed, name, rest.length > 0 ? withValue(inner as JsonObject, rest, value) : value)
  return changed
}
