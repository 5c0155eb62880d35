import type { CollectionState } from '../collections/collection.ts'
import { type Item, isItem, keyOf, type Tombstone } from '../collections/item.ts'
import {
  describeKey,
  hasLongKey,
  MOST_KEY_LENGTH,
  type NaturalKey,
  naturalKeyOf,
  shown,
} from '../collections/natural-keys.ts'
import { type AcceptedState, Overlay } from '../collections/overlay.ts'
import { type DomainEvent, type ItemEventFields, type ItemId, OBJECT_ID } from '../events/event.ts'
import { eventInstant, type Instant, instantOf } from '../json/instant.ts'
import { parseText } from '../json/parse.ts'
import { firstAt, formatPath, type Path, pointer } from '../json/paths.ts'
import { equal, isObject, type JsonObject, type JsonValue, own, put } from '../json/value.ts'
import { type Fault, Refusal, type RefusalCode } from '../runtime/errors.ts'
import type { Turn } from '../runtime/turns.ts'
import { BYTES } from './edit.ts'
import type { EventTimeRule, Rules } from './rules.ts'

/** The fields of the event that follows an item's last one. */
export function nextEventFields(collection: string, id: ItemId, before: Item | Tombstone | undefined): ItemEventFields {
  return { collection, id, revision: (before?.revision ?? 0) + 1, prior: before?.position ?? 0 }
}

export function deletionOf(collection: string, item: Pick<Item, 'id' | 'revision' | 'position'>): DomainEvent {
  const type = item.id === OBJECT_ID ? 'ObjectDeleted' : 'ItemDeleted'
  return { type, ...nextEventFields(collection, item.id, item) }
}

/** The item with its id: at the position that the body has, otherwise first. A single object has no id. */
export function withId(body: JsonObject, id: ItemId, { idField }: Rules): JsonObject {
  if (id === OBJECT_ID || own(body, idField) === id) return body
  return Object.hasOwn(body, idField) ? { ...body, [idField]: id } : { [idField]: id, ...body }
}

/**
 * The natural key of an item; undefined if it has none.
 * @throws {Refusal} `Unprocessable` when the key is too long.
 */
export function checkedKeyOf(item: JsonObject, collection: string, rules: Rules): string | undefined {
  const wanted = rules.keyFields.get(collection)
  if (wanted && hasLongKey(item, wanted)) {
    const names = wanted.fields.map(formatPath).join(', ')
    throw new Refusal(
      'Unprocessable',
      `The values of the natural key (${names}) have more than ${MOST_KEY_LENGTH} characters.`,
    )
  }
  return wanted && naturalKeyOf(item, wanted)
}

/** The existing item that has a natural key. */
export function itemWithKey(
  naturalKey: string | undefined,
  collection: CollectionState,
  rules: Rules,
): Item | undefined {
  const wanted = rules.keyFields.get(collection.name)
  const key = naturalKey === undefined ? undefined : collection.holderOf(naturalKey)
  const holder = key === undefined ? undefined : collection.get(key)
  return wanted && isItem(holder) && naturalKeyOf(holder.value, wanted) === naturalKey ? holder : undefined
}

/** Whether an item equals another one in all but the id. */
export function isDuplicate(item: JsonObject, holder: Item, idField: string): boolean {
  const { [idField]: _, ...rest } = item
  const { [idField]: __, ...others } = parseText(holder.text) as JsonObject
  return equal(rest, others)
}

/** Refuses an item that would have the natural key of another item. */
export function checkKey(item: JsonObject, key: string, collection: CollectionState, rules: Rules): void {
  const naturalKey = rules.keyFields.get(collection.name)
  const holder = itemWithKey(checkedKeyOf(item, collection.name, rules), collection, rules)
  if (naturalKey && holder && holder.key !== key) throw keyConflict(item, holder, collection.name, naturalKey)
}

export function keyConflict(item: JsonObject, holder: Item, name: string, naturalKey: NaturalKey): Refusal {
  return new Refusal(
    'Conflict',
    `The item ${JSON.stringify(holder.key)} of "${name}" has the same natural key (${describeKey(item, naturalKey)}).`,
  )
}

/** Refuses events of one write after which two items would have the same natural key. */
export async function checkKeys(
  events: Iterable<DomainEvent>,
  accepted: AcceptedState,
  rules: Rules,
  code: RefusalCode,
  turn: Turn,
): Promise<void> {
  if (rules.keyFields.size === 0) return
  const after = new Overlay((name) => accepted.collection(name), accepted.head, rules.keyFields)
  for (const event of events) {
    if (turn.isOver) await turn.next()
    if (!rules.keyFields.has(event.collection)) continue
    turn.hold(BYTES.accepted)
    after.accept([event])
  }
  for (const event of events) {
    if (turn.isOver) await turn.next()
    const { collection: name } = event
    const wanted = rules.keyFields.get(name)
    if (!wanted || !('item' in event)) continue
    const { id, item } = event
    const naturalKey = item.derived(wanted, () => naturalKeyOf(item.value, wanted))
    if (naturalKey === undefined) continue
    // `after` names the item that got the key last, which may be this one; `accepted` names one that had it before.
    for (const state of [after, accepted]) {
      const holder = state.collection(name).holderOf(naturalKey)
      const other = holder === undefined || holder === keyOf(id) ? undefined : after.collection(name).get(holder)
      if (!isItem(other) || naturalKeyOf(other.value, wanted) !== naturalKey) continue
      const [one, another] = [JSON.stringify(other.key), JSON.stringify(keyOf(id))]
      const message = `the items ${one} and ${another} would have the same natural key (${describeKey(item.value, wanted)})`
      throw new Refusal(code, `In "${name}" ${message}.`, [{ pointer: pointer([name]), message }])
    }
  }
}

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
