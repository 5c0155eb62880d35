import type { CollectionState } from '../collections/collection.ts'
import { type Item, isItem, keyOf } from '../collections/item.ts'
import { describeKey, hasLongKey, MOST_KEY_LENGTH, type NaturalKey, naturalKeyOf } from '../collections/natural-keys.ts'
import { type AcceptedState, Overlay } from '../collections/overlay.ts'
import type { DomainEvent } from '../events/event.ts'
import { parseText } from '../json/parse-text.ts'
import { formatPath, pointer } from '../json/paths.ts'
import { equal, type JsonObject } from '../json/value.ts'
import { Refusal, type RefusalCode } from '../runtime/errors.ts'
import type { Turn } from '../runtime/turns.ts'
import type { Rules } from './rules.ts'

/**
 * The existing item with the natural key of another one, or of a new one.
 * @throws {Refusal} `Unprocessable` when the key is too long.
 */
export function holderOf(item: JsonObject, collection: CollectionState, rules: Rules): Item | undefined {
  const wanted = rules.keyFields.get(collection.name)
  if (wanted && hasLongKey(item, wanted)) {
    const names = wanted.fields.map(formatPath).join(', ')
    throw new Refusal(
      'Unprocessable',
      `The values of the natural key (${names}) have more than ${MOST_KEY_LENGTH} characters.`,
    )
  }
  const naturalKey = wanted && naturalKeyOf(item, wanted)
  const key = naturalKey === undefined ? undefined : collection.holderOf(naturalKey)
  const holder = key === undefined ? undefined : collection.get(key)
  return isItem(holder) ? holder : undefined
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
  const holder = holderOf(item, collection, rules)
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
    if (rules.keyFields.has(event.collection)) after.accept([event])
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
      throw sameKey(item.value, keyOf(id), other.key, name, wanted, code)
    }
  }
}

function sameKey(
  item: JsonObject,
  key: string,
  holder: string,
  name: string,
  naturalKey: NaturalKey,
  code: RefusalCode,
): Refusal {
  const [one, other] = [JSON.stringify(key), JSON.stringify(holder)]
  const message = `the items ${other} and ${one} would have the same natural key (${describeKey(item, naturalKey)})`
  return new Refusal(code, `In "${name}" ${message}.`, [{ pointer: pointer([name]), message }])
}
