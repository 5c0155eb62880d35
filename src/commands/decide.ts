import type { CollectionState } from '../collections/collection.ts'
import {
  canonicalInteger,
  faultOfId,
  faultOfName,
  HIGHEST_ID,
  type Item,
  isItem,
  keyOf,
  type Tombstone,
} from '../collections/item.ts'
import type { AcceptedState } from '../collections/overlay.ts'
import { type DomainEvent, type ItemId, OBJECT_ID, type Position } from '../events/event.ts'
import { Document } from '../json/document.ts'
import { compareInstants } from '../json/instant.ts'
import { checkValues, MEMBER_VALUES } from '../json/parse.ts'
import { pointer } from '../json/paths.ts'
import { tagOf } from '../json/tag.ts'
import { isObject, type JsonObject, type JsonValue, own } from '../json/value.ts'
import { Refusal } from '../runtime/errors.ts'
import { type Command, checkPreconditions } from './command.ts'
import { checkNotExpired } from './expiry.ts'
import { applyPatch, innerValueOf } from './inner-value.ts'
import {
  checkedKeyOf,
  checkKey,
  checkTime,
  deletionOf,
  isDuplicate,
  itemWithKey,
  keyConflict,
  nextEventFields,
  validTime,
  withId,
  withReceipt,
} from './item-rules.ts'
import { LatestItems } from './latest-items.ts'
import type { Rules } from './rules.ts'

/** The events of a command on an item, or the item if the command does not change it. */
export type Decision = readonly DomainEvent[] | Item

type CommandOf<Type extends Command['type']> = Extract<Command, { readonly type: Type }>

/** Decides a command; of several events the last is that of the item. */
export function decide(command: Command, accepted: AcceptedState, rules: Rules): Decision {
  const decision = decideItem(command, accepted, rules)
  if (!isEvents(decision) || !rules.latest.has(command.collection)) return decision
  const latest = new LatestItems(accepted, rules)
  for (const event of decision) latest.add(event)
  return [...latest.events(), ...decision]
}

export function isEvents(decision: Decision): decision is readonly DomainEvent[] {
  return Array.isArray(decision)
}

/** Decides without the latest items that follow. Natural keys and event times have their rules in item-rules.ts. */
export function decideItem(command: Command, accepted: AcceptedState, rules: Rules): Decision {
  const collection = accepted.collection(command.collection)
  if (command.type !== 'CreateItem') checkKnown(command.ifUnchangedSince, accepted.head)
  switch (command.type) {
    case 'CreateItem':
      return decideCreate(command.item, collection, rules)
    case 'ReplaceItem':
      return decideReplace(command, collection, rules)
    case 'PatchItem':
      return decidePatch(command, collection, rules)
    case 'DeleteItem': {
      const before = collection.get(command.key)
      checkPreconditions(command, changeOf(before), () => tagsOf(before))
      if (!isItem(before)) throw noItem(command.collection, command.key)
      return [deletionOf(collection.name, before)]
    }
    default:
      return command satisfies never
  }
}

function decideCreate(item: JsonObject, collection: CollectionState, rules: Rules): Decision {
  if (collection.isObject) throw singleObject(collection.name)
  const body = withReceipt(item, collection.name, rules)
  const naturalKey = checkedKeyOf(body, collection.name, rules)
  const holder = itemWithKey(naturalKey, collection, rules)
  if (holder) return createDuplicateKey(holder, body, collection, rules)
  const [id, before] = newId(body, collection, rules)
  const events = createItem(collection, id, before, body, rules)
  noteKey(events.at(-1), naturalKey, rules)
  return events
}

/** Notes the natural key of a body for its item, unless the id that the server added belongs to it. */
function noteKey(event: DomainEvent | undefined, naturalKey: string | undefined, rules: Rules): void {
  const wanted = event && rules.keyFields.get(event.collection)
  if (!wanted || !('item' in event) || wanted.fields.some(([name]) => name === rules.idField)) return
  event.item.derived(wanted, () => naturalKey)
}

function decideReplace(command: CommandOf<'ReplaceItem'>, collection: CollectionState, rules: Rules): Decision {
  const { name } = collection
  const before = collection.get(command.key)
  const body = withReceipt(command.item, name, rules)
  checkPreconditions(command, changeOf(before), () => tagsOf(before))
  if (!isItem(before)) {
    if (command.key === OBJECT_ID) return createObject(collection, body, rules)
    if (collection.isObject) throw singleObject(name)
    if (!rules.upsertOnPut) throw noItem(name, command.key)
    const id = upsertedId(body, command.key, collection, rules)
    checkKey(body, command.key, collection, rules)
    return createItem(collection, id, before, body, rules)
  }
  if (before.id !== OBJECT_ID) checkSameId(own(body, rules.idField), before, 'the body')
  if (command.onlyIfNewer && !isNewer(body, before, name, rules)) return before
  checkKey(body, before.key, collection, rules)
  const item = validated(body, before.id, name, rules)
  return [{ type: 'ItemReplaced', ...nextEventFields(name, before.id, before), item }]
}

function decidePatch(command: CommandOf<'PatchItem'>, collection: CollectionState, rules: Rules): Decision {
  const { name } = collection
  const before = collection.get(command.key)
  const inner = isItem(before) && command.inside && innerValueOf(before.text, command.inside, rules.idField)
  checkPreconditions(command, changeOf(before), () => (inner ? [...tagsOf(before), tagOf(inner.text)] : tagsOf(before)))
  if (!isItem(before)) throw noItem(name, command.key)
  const limits = { operations: rules.patchOperations, resultBytes: rules.itemBytes, values: rules.itemValues }
  const patched = inner ? inner.patched(command.patch, limits) : applyPatch(command.patch, before.text, limits)
  if (!isObject(patched))
    throw new Refusal('Unprocessable', 'The patch would turn the item into a value that is not an object.')
  if (before.id !== OBJECT_ID) checkSameId(own(patched, rules.idField) ?? null, before, 'the patch')
  checkKey(patched, before.key, collection, rules)
  const item = validated(patched, before.id, name, rules)
  return [{ type: 'ItemPatched', ...nextEventFields(name, before.id, before), item }]
}

/** Decides on a new item that has the natural key of an existing one. */
function createDuplicateKey(holder: Item, body: JsonObject, collection: CollectionState, rules: Rules): Decision {
  const { name } = collection
  if (isDuplicate(body, holder, rules.idField)) return holder
  const naturalKey = rules.keyFields.get(name)
  if (naturalKey && !rules.replacing.has(name)) throw keyConflict(body, holder, name, naturalKey)
  const item = validated(body, holder.id, name, rules)
  return [{ type: 'ItemReplaced', ...nextEventFields(name, holder.id, holder), item }]
}

/** Whether an item has a later event time than the existing one, or the existing one has no valid event time. */
function isNewer(item: JsonObject, before: Item, collection: string, rules: Rules): boolean {
  const rule = rules.times.get(collection)
  const then = rule && validTime(before.value, rule, rules.nowMs())
  if (!then) return true
  const now = validTime(item, rule, rules.nowMs())
  return now !== undefined && compareInstants(now, then) > 0
}

/** `before` is what remains of an earlier item with this id. */
function createItem(
  collection: CollectionState,
  id: ItemId,
  before: Tombstone | undefined,
  body: JsonObject,
  rules: Rules,
): readonly DomainEvent[] {
  checkName(collection.name)
  if (!collection.exists && rules.jsonServer) throw noCollection(collection.name)
  checkNotExpired(() => body, collection.name, rules)
  const item = validated(body, id, collection.name, rules)
  const created = {
    type: 'ItemCreated',
    ...nextEventFields(collection.name, id, before),
    item,
  } as const
  return collection.exists ? [created] : [{ type: 'CollectionCreated', collection: collection.name }, created]
}

/** Creates an object only if one existed before, so that a mistyped address creates none. */
function createObject(collection: CollectionState, body: JsonObject, rules: Rules): readonly DomainEvent[] {
  const { name } = collection
  if (collection.exists || !collection.isObject) throw noItem(name, OBJECT_ID)
  const item = validated(body, OBJECT_ID, name, rules)
  return [{ type: 'ObjectCreated', ...nextEventFields(name, OBJECT_ID, collection.get(OBJECT_ID)), item }]
}

export function checkName(collection: string): void {
  const fault = faultOfName(collection, "a collection's name")
  if (fault) throw new Refusal('Unprocessable', `${fault}.`)
}

function noCollection(name: string): Refusal {
  return new Refusal('NotFound', `There is no collection ${JSON.stringify(name)}; the data file can add it.`)
}

export function singleObject(name: string): Refusal {
  return new Refusal('Conflict', `${JSON.stringify(name)} is a single object, which has no items; PUT replaces it.`)
}

/** The id of a new item, and what remains of an earlier one with it. */
function newId(body: JsonObject, collection: CollectionState, rules: Rules): readonly [ItemId, Tombstone | undefined] {
  const wanted = wantedId(body, rules)
  const id = wanted === undefined ? newIdOf(collection, rules) : acceptableId(wanted, rules)
  if (isUnused(id, collection)) return [id, undefined]
  const before = collection.get(keyOf(id))
  if (isItem(before)) throw new Refusal('Conflict', `An item with the id ${JSON.stringify(keyOf(id))} exists already.`)
  return [id, before]
}

/** The id that POST keeps. json-server takes null and an empty text for none. */
export function wantedId(body: JsonObject, { clientIdsOnPost, idField, jsonServer }: Rules): JsonValue | undefined {
  const sent = clientIdsOnPost ? own(body, idField) : undefined
  return jsonServer && (sent === null || sent === '') ? undefined : sent
}

function newIdOf(collection: CollectionState, { jsonServer }: Rules): ItemId {
  if (!jsonServer) return nextId(collection, 0)
  if (collection.textIds === 0) return nextId(collection, 1)
  let id = jsonServer.newTextId()
  while (collection.get(keyOf(id))) id = jsonServer.newTextId()
  return id
}

function nextId(collection: CollectionState, lowest: number): ItemId {
  let next = Math.max(lowest, collection.nextId)
  while (!isUnused(next, collection) && isTaken(next, collection)) next++
  return assignedId(next)
}

/** Whether an id needs no lookup, as no item ever had it. Text ids beyond HIGHEST_ID are not below the unused one. */
function isUnused(id: ItemId, { unusedId }: CollectionState): boolean {
  return Number.isInteger(id) && (id as number) >= unusedId && (id as number) <= HIGHEST_ID
}

/**
 * Whether an integer from the next id on must not be assigned: an item has it, or a deleted one has it as text beyond
 * HIGHEST_ID, which does not move the next id. Deleted items up to HIGHEST_ID had it before a reset, after which it may be
 * assigned again.
 */
export function isTaken(integer: number, collection: CollectionState): boolean {
  const found = collection.get(keyOf(integer))
  return isItem(found) || (found !== undefined && integer > HIGHEST_ID)
}

/** Throws when integers are no longer exact. */
export function assignedId(next: number): ItemId {
  if (Number.isSafeInteger(next)) return next
  throw new Refusal('Unprocessable', 'All integer ids up to 2^53 are used.')
}

/** The id of an item that PUT creates: that of its body, otherwise the key, as an integer unless the collection has text ids. */
function upsertedId(body: JsonObject, key: string, collection: CollectionState, rules: Rules): ItemId {
  const sent = own(body, rules.idField)
  if (sent !== undefined) {
    if (!isKey(sent, key)) throw otherId('the body', sent, key)
    return acceptableId(sent, rules)
  }
  if (collection.textIds > 0 || !/^(0|[1-9]\d*)$/.test(key)) return acceptableId(key, rules)
  return canonicalInteger(key) ?? acceptableId(Number(key), rules)
}

function acceptableId(id: JsonValue, { idField }: Rules): ItemId {
  const fault = faultOfId(id)
  if (fault)
    throw new Refusal('Unprocessable', `The id is not acceptable: ${fault}.`, [
      { pointer: pointer([idField]), message: fault },
    ])
  return id as ItemId
}

function isKey(id: JsonValue, key: string): boolean {
  return (typeof id === 'string' || typeof id === 'number') && keyOf(id) === key
}

function checkSameId(id: JsonValue | undefined, before: Item, where: string): void {
  if (id !== undefined && !isKey(id, before.key)) throw otherId(where, id, before.key)
}

function otherId(where: string, id: JsonValue, key: string): Refusal {
  return new Refusal(
    'Conflict',
    `The id in ${where}, ${JSON.stringify(id)}, differs from the item's, ${JSON.stringify(key)}; an id never changes.`,
  )
}

function validated(body: JsonObject, id: ItemId, collection: string, rules: Rules): Document {
  const item = withId(body, id, rules)
  const document = new Document(JSON.stringify(item), item)
  checkSize(document.text, item, id, rules)
  checkValues(document.text, rules.itemValues, 'The item', id === OBJECT_ID ? 0 : MEMBER_VALUES)
  checkTime(item, collection, rules)
  const faults = rules.faultsOf(collection, item)
  if (faults.length > 0) {
    throw new Refusal('Unprocessable', `The item does not satisfy the schema of "${collection}".`, faults)
  }
  return document
}

/** The id that the server adds does not count towards the limit. */
function checkSize(text: string, item: JsonObject, id: ItemId, rules: Rules): void {
  // UTF-8 has at most three bytes for each code unit, so most texts need not be measured.
  if (3 * text.length <= rules.itemBytes) return
  const bytes = Buffer.byteLength(text) - (id === OBJECT_ID ? 0 : idBytes(item, rules))
  if (bytes <= rules.itemBytes) return
  throw new Refusal(
    'Unprocessable',
    `The item would have ${bytes} bytes without its id; ${rules.itemBytes} are accepted.`,
  )
}

/** UTF-8 bytes of the member with the id and a comma. */
function idBytes(item: JsonObject, { idField }: Rules): number {
  return Buffer.byteLength(`${JSON.stringify(idField)}:${JSON.stringify(item[idField])},`)
}

function tagsOf(before: Item | Tombstone | undefined): readonly string[] {
  return isItem(before) ? [before.tag] : []
}

/** @throws {Refusal} for a position of If-Unchanged-Since that this journal does not have. */
export function checkKnown(since: Position | undefined, last: Position): void {
  if (since === undefined || since <= last) return
  throw new Refusal(
    'PreconditionFailed',
    `If-Unchanged-Since ${since} is beyond the last position, ${last}: it is of another journal, or of one that was longer. Read the item again.`,
  )
}

/** The position of the item's last event. */
function changeOf(before: Item | Tombstone | undefined): Position | undefined {
  return isItem(before) ? before.position : undefined
}

function noItem(collection: string, key: string): Refusal {
  if (key === OBJECT_ID) return new Refusal('NotFound', `There is no single object ${JSON.stringify(collection)}.`)
  return new Refusal('NotFound', `There is no item ${JSON.stringify(key)} in "${collection}".`)
}
