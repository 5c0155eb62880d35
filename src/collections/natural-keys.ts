import { hash } from 'node:crypto'
import type { Position } from '../events/event.ts'
import { instantOf } from '../json/instant.ts'
import { KeyWriter } from '../json/order-key.ts'
import { firstAt, formatPath, type Path } from '../json/paths.ts'
import { isArray, isObject, type JsonObject, type JsonValue, own } from '../json/value.ts'
import { Ended, Refusal } from '../runtime/errors.ts'
import { HIGHEST, keyedKey, numberedKey, PREFIX_BYTES, positionOf, prefixEnd, TAG, tableKey } from '../store/keys.ts'
import type { Store } from '../store/store.ts'
import type { Collection } from './collection.ts'
import { storedCollections, type TableChange, type TableObserver } from './collection-writer.ts'
import type { Item } from './item.ts'
import type { PinnedCollection } from './stored-items.ts'
import { Table } from './table.ts'

/** The table of the rows that describe the others. */
const FACTS = 0
/** A transaction of a build takes so long, about. */
const STEP_MS = 4
/** Natural keys of two items that are remembered: more than a large write leaves between its transactions. */
const MOST_SHARED = 10_000

/** The state of the natural keys of one collection; the store has it beside their rows. */
interface NaturalKeyFacts extends NaturalKey {
  readonly collection: string
  /** False while they are built, and after two items with one key were stored. */
  readonly isComplete: boolean
}

/** Does work in a transaction of the store, as soon as the disk has room for it. */
type Transact = (work: () => void) => Promise<void>

/** The natural keys of one collection, all of which can be looked up. */
interface KnownKeys {
  readonly naturalKey: NaturalKey
  /** The number of the rows' table. */
  readonly number: number
  hasRows: boolean
  /** The index of a table, as it was found last. */
  found?: { readonly table: number; readonly index: KeyIndex }
  /** For each natural key of two items, the key of the one that had it first. Undefined if there may be others. */
  shared: Map<string, string> | undefined
}

/** The changed items of one collection in a transaction, with their first natural key in it and their last one. */
interface KeyChanges {
  readonly table: number
  readonly byKey: Map<string, { readonly before: string | undefined; after: string | undefined; isOrdered: boolean }>
}

/** The indexes that natural keys rest on. */
export interface KeyIndexes {
  /** The index of a table by these fields; undefined unless it is complete. */
  find(table: number, fields: readonly Path[]): KeyIndex | undefined
  /** Completes the index of a table, or resolves before that when the server ends. */
  build(table: number, collection: string, fields: readonly Path[], progress?: (places: number) => void): Promise<void>
  /** Gives an empty table a complete index. `since` is the position from which on it is read. In a transaction. */
  begin(table: number, collection: string, fields: readonly Path[], since: Position): void
}

/** An index whose tuples begin with the text of a natural key, except those of items that it does not order (tuples.ts). */
export interface KeyIndex {
  /** The first place whose tuple begins so and that is wanted, also after changes in the current transaction. */
  placeUnder(tuple: string, isWanted: (place: number) => boolean): number | undefined
  /** Whether the change of an item that was noted last leads to a tuple that begins so, at this place. */
  hasChangedTo(tuple: string, place: number): boolean
}

/**
 * Finds the item that has a natural key: by the index of the settings that begins with its fields, or else by a row for each
 * natural key, with the key of its item. With an index only items that it does not order have rows, such as long ones. Rows
 * are written at the end of the transactions that change items. A collection's rows have a table of their own, and a row with
 * its facts:
 *
 * | Rows of a collection | `isComplete` | |
 * |---|---|---|
 * | not wanted, or with other fields or another index | any, then false | removed by `tidy` in the background |
 * | being built | false | a start after a crash builds them anew |
 * | complete | true | each item with a natural key is found; the table of items has its complete index |
 * | two items had one natural key at the end of a transaction | false | one of the two is found; complete again once the first one has lost the key |
 */
export class NaturalKeys implements TableObserver {
  readonly #store: Store
  readonly #fields: KeyFields
  readonly #indexes: KeyIndexes
  /** By collection. Others are not kept up. */
  readonly #known = new Map<string, KnownKeys>()
  /** The changes of the current transaction, by collection. */
  readonly #changes = new Map<string, KeyChanges>()
  #areDecided = false
  #isEnded = false

  constructor(store: Store, fields: KeyFields, indexes: KeyIndexes) {
    this.#store = store
    this.#fields = fields
    this.#indexes = indexes
    const tables = new Map(Array.from(storedCollections(store).values(), ({ name, table }) => [name, table]))
    for (const [number, facts] of storedNaturalKeys(store)) {
      const wanted = fields.get(facts.collection)
      if (!facts.isComplete || !wanted || formatNaturalKey(wanted) !== formatNaturalKey(facts)) continue
      const table = tables.get(facts.collection)
      const lacksIndex = wanted.index && table !== undefined && !indexes.find(table, wanted.index)
      if (!lacksIndex) this.#know(facts.collection, number, wanted)
    }
  }

  /** The key of the item of a collection that has a natural key. `table` is the one that readers see. */
  find(collection: string, table: number, naturalKey: string): string | undefined {
    const known = this.#known.get(collection)
    return known && this.#holderOf(known, table, naturalKey)
  }

  /** From now on all writes are decided with the same settings, so that no two items get the same natural key. */
  trustDecisions(): void {
    this.#areDecided = true
  }

  isObserved(_table: number, collection: string): boolean {
    return this.#known.has(collection)
  }

  changed({ table, collection, place, key, before, after }: TableChange): void {
    const known = this.#known.get(collection) as KnownKeys
    const { naturalKey } = known
    const old = before && naturalKeyOf(before.value, naturalKey)
    const now = after?.derived(naturalKey, () => naturalKeyOf(after.value, naturalKey))
    // An index may order the item no longer, or again, though its natural key is the same.
    if (old === now && (old === undefined || !naturalKey.index)) return
    const isOrdered = now !== undefined && this.#indexOf(known, table)?.hasChangedTo(now, place) === true
    const { byKey } = this.#changesOf(collection, table)
    const changed = byKey.get(key)
    if (changed) {
      changed.after = now
      changed.isOrdered = isOrdered
    } else if (old !== undefined || !isOrdered || !this.#areDecided) {
      // Others need no row, and no item has their key.
      byKey.set(key, { before: old, after: now, isOrdered })
    }
  }

  /** A collection begins a table, in a transaction: as a new one, or for a new order of its items. */
  began(collection: string, table: number, since: Position): void {
    const index = this.#known.get(collection)?.naturalKey.index
    if (!index) return
    // The noted changes are those of the table before.
    this.save()
    this.#indexes.begin(table, collection, index, since)
  }

  /** Writes the rows of the changed items. At the end of a transaction, before its indexes are saved. */
  save(): void {
    for (const [collection, { table, byKey }] of this.#changes) {
      const known = this.#known.get(collection) as KnownKeys
      const wasShared = known.shared?.size !== 0
      // Items may exchange their keys: all lose theirs first.
      for (const [key, { before, after }] of byKey) {
        if (before === undefined) continue
        this.#removeRow(known, before, key)
        if (before !== after && known.shared?.get(before) === key) known.shared.delete(before)
      }
      for (const [key, { after, isOrdered }] of byKey) {
        if (after === undefined) continue
        const other = this.#areDecided ? undefined : this.#holderOf(known, table, after, key)
        if (other !== undefined) noteShared(known, after, other)
        if (!isOrdered) this.#addRow(known, after, key)
      }
      const isShared = known.shared?.size !== 0
      if (wasShared !== isShared) {
        this.#saveFacts(known.number, { collection, ...known.naturalKey, isComplete: !isShared })
      }
    }
    this.#changes.clear()
  }

  rollBack(): void {
    this.#changes.clear()
    for (const known of this.#known.values()) {
      // The transaction may have begun tables.
      delete known.found
      if (known.shared?.size !== 0) known.shared = undefined
    }
  }

  /** Whether `build` has nothing to do. */
  get isBuilt(): boolean {
    const complete = [...storedNaturalKeys(this.#store)].filter(([, { isComplete }]) => isComplete)
    return complete.length === this.#fields.size && complete.every(([number, facts]) => this.#isKnown(number, facts))
  }

  /**
   * Builds the natural keys that the settings want. Nothing may be written meanwhile. `progress` gets the number of places that
   * were read, and that of all in their collection.
   * @throws {Refusal} `Conflict` when two items have the same natural key.
   */
  async build(
    find: (name: string) => Collection | undefined,
    transact: Transact,
    progress: (places: number, of: number) => void = () => {},
  ): Promise<void> {
    let next = 1
    for (const [number, facts] of storedNaturalKeys(this.#store)) {
      next = Math.max(next, number + 1)
      if (!facts.isComplete) this.#known.delete(facts.collection)
      // They are not kept up any more, and a later start must not use them.
      else if (!this.#isKnown(number, facts)) {
        await transact(() => this.#saveFacts(number, { ...facts, isComplete: false }))
      }
    }
    // Facts are stored before the first row, so that a crash leaves no rows without them, and again after the last one.
    for (const [collection, naturalKey] of this.#fields) {
      if (this.#known.has(collection)) continue
      const number = next++
      await transact(() => this.#saveFacts(number, { collection, ...naturalKey, isComplete: false }))
      const items = find(collection)?.held()
      try {
        if (items)
          await this.#buildKeys(items, { naturalKey, number, hasRows: true, shared: undefined }, transact, progress)
      } finally {
        items?.release()
      }
      await transact(() => this.#saveFacts(number, { collection, ...naturalKey, isComplete: true }))
      this.#know(collection, number, naturalKey)
    }
  }

  /** Removes the rows that are incomplete or not wanted. Resolves early at the end. */
  async tidy(): Promise<void> {
    for (const [number, facts] of storedNaturalKeys(this.#store)) {
      if (this.#isKnown(number, facts)) continue
      await this.#store.clear(tableKey(TAG.naturalKey, number))
      if (this.#isEnded) return
      await this.#store.removeAll([{ key: factsKey(number) }])
    }
  }

  end(): void {
    this.#isEnded = true
  }

  #know(collection: string, number: number, naturalKey: NaturalKey): void {
    const rows = tableKey(TAG.naturalKey, number)
    const hasRows = this.#store.rows(rows, prefixEnd(rows), { limit: 1 }).length > 0
    this.#known.set(collection, { naturalKey, number, hasRows, shared: new Map() })
  }

  #isKnown(number: number, { collection }: NaturalKeyFacts): boolean {
    return this.#known.get(collection)?.number === number
  }

  #changesOf(collection: string, table: number): KeyChanges {
    const known = this.#changes.get(collection)
    if (known) return known
    const changes = { table, byKey: new Map() }
    this.#changes.set(collection, changes)
    return changes
  }

  /** Its index is complete as long as the keys of the collection are known. */
  #indexOf(known: KnownKeys, table: number): KeyIndex | undefined {
    const fields = known.naturalKey.index
    if (!fields || known.found?.table === table) return known.found?.index
    const index = this.#indexes.find(table, fields)
    if (!index) throw new Error(`the index of the natural keys of table ${table} is missing`)
    known.found = { table, index }
    return index
  }

  /** The key of an item that has a natural key, other than `except`. */
  #holderOf(known: KnownKeys, table: number, naturalKey: string, except?: string): string | undefined {
    let key: string | undefined
    this.#indexOf(known, table)?.placeUnder(naturalKey, (place) => {
      key = this.#keyAt(known, table, place, naturalKey)
      if (key === except) key = undefined
      return key !== undefined
    })
    if (key !== undefined) return key
    const holder = this.#rowHolder(known, naturalKey)
    return holder === except ? undefined : holder
  }

  /** The key of the item at a place, if it has a natural key: an index has event times that are no instants in another form. */
  #keyAt({ naturalKey: fields }: KnownKeys, table: number, place: number, naturalKey: string): string | undefined {
    const item = new Table(this.#store, table).itemAt(place, HIGHEST)
    return item && naturalKeyOf(item.value, fields) === naturalKey ? item.key : undefined
  }

  #rowHolder({ number, hasRows }: KnownKeys, naturalKey: string): string | undefined {
    return hasRows ? this.#store.newest(keyedKey(TAG.naturalKey, number, naturalKey))?.toString() : undefined
  }

  /** The row of the key may be that of another item, which got the key earlier. */
  #removeRow(known: KnownKeys, naturalKey: string, key: string): void {
    if (this.#rowHolder(known, naturalKey) !== key) return
    this.#store.remove(keyedKey(TAG.naturalKey, known.number, naturalKey))
  }

  #addRow(known: KnownKeys, naturalKey: string, key: string): void {
    known.hasRows = true
    this.#store.set(keyedKey(TAG.naturalKey, known.number, naturalKey), Buffer.from(key))
  }

  async #buildKeys(
    items: PinnedCollection,
    known: KnownKeys,
    transact: Transact,
    progress: (places: number, of: number) => void,
  ): Promise<void> {
    const { name, places, facts } = items
    const { naturalKey: fields } = known
    if (fields.index) await this.#indexes.build(facts.table, name, fields.index, (read) => progress(read, places))
    if (this.#isEnded) throw new Ended()
    const index = this.#indexOf(known, facts.table)
    let place = items.seek(0)
    // Invariant: items before `place` are found, in committed transactions.
    while (place < places) {
      if (this.#isEnded) throw new Ended()
      // The transaction may be repeated when the disk was full: `place` moves on only after it.
      let at = place
      await transact(() => {
        const until = performance.now() + STEP_MS
        for (at = place; at < places && performance.now() < until; at = items.seek(at + 1)) {
          const item = items.itemAt(at) as Item
          const { value, key } = item
          const naturalKey = naturalKeyOf(value, fields)
          if (naturalKey === undefined) continue
          const other = this.#holderOf(known, facts.table, naturalKey, key)
          if (other !== undefined) throw sharedKey(items, [other, key], describeKey(value, fields))
          const isOrdered = index?.placeUnder(naturalKey, (place) => place === at) !== undefined
          if (!isOrdered) this.#addRow(known, naturalKey, key)
        }
      })
      place = at
      progress(place, places)
      await new Promise<void>((resolve) => setImmediate(resolve))
    }
  }

  #saveFacts(number: number, facts: NaturalKeyFacts): void {
    this.#store.set(factsKey(number), Buffer.from(JSON.stringify(facts)))
  }
}

/** A server without this setting wrote both items, or the first loses the key in a later transaction of a large write. */
function noteShared(known: KnownKeys, naturalKey: string, first: string): void {
  // A third item has the key.
  if (known.shared?.has(naturalKey) || known.shared?.size === MOST_SHARED) known.shared = undefined
  known.shared?.set(naturalKey, first)
}

function sharedKey(items: PinnedCollection, keys: readonly string[], shownKey: string): Refusal {
  const inOrder = [...keys].sort((one, other) => (items.placeOf(one) ?? 0) - (items.placeOf(other) ?? 0))
  const [one, other] = inOrder.map((key) => JSON.stringify(key))
  return new Refusal(
    'Conflict',
    `The items ${one} and ${other} of "${items.name}" have the same natural key (${shownKey}). ` +
      `Delete or change one of them while the setting Collections.${items.name}.Key is not given, then start with it again.`,
  )
}

/** The natural keys that a store has, by the tables of their rows. */
export function storedNaturalKeys(store: Store): Map<number, NaturalKeyFacts> {
  const prefix = tableKey(TAG.naturalKey, FACTS)
  const found = new Map<number, NaturalKeyFacts>()
  for (const { key, value } of store.rows(prefix, prefixEnd(prefix))) {
    const facts = JSON.parse(value.toString()) as Omit<NaturalKeyFacts, 'timePart'> & { readonly timePart?: number }
    // Earlier versions compared event times as other values.
    found.set(positionOf(key, PREFIX_BYTES), { ...facts, timePart: facts.timePart ?? -1 })
  }
  return found
}

function factsKey(number: number): Buffer {
  return numberedKey(TAG.naturalKey, FACTS, number)
}

function formatNaturalKey({ fields, timePart, index = [] }: NaturalKey): string {
  return JSON.stringify([fields, timePart, index])
}

/** The fields whose values together identify an item. */
export interface NaturalKey {
  readonly fields: readonly Path[]
  /** The index in `fields` of the event time; -1 if it is not there. */
  readonly timePart: number
  /** The fields of the index that finds the items, which begin with `fields`; without it each item has a row. */
  readonly index?: readonly Path[]
}

/** The natural key of each collection that has one, by the collection's name. */
export type KeyFields = ReadonlyMap<string, NaturalKey>

/** A natural key of more characters is represented by its hash. */
const MOST_CHARACTERS = 200
/** Highest length of the values of a natural key; computing longer ones would block the event loop. */
export const MOST_KEY_LENGTH = 4096
/** No order key begins so. */
const HASHED = '\x00'
/** Writes one key at a time. */
const writer = new KeyWriter()
/** Characters of a value that a message repeats. */
const MOST_SHOWN = 100

/**
 * The natural key of an item as text. Two items have the same text when their values are equal as in a query: 1 and 1.0 are, and
 * so are two spellings of an instant, of the event time also as numbers. Undefined when a field is missing or null: then the item has no natural key.
 */
export function naturalKeyOf(item: JsonObject, { fields, timePart }: NaturalKey): string | undefined {
  writer.begin()
  for (let index = 0; index < fields.length; index++) {
    const value = firstAt(item, fields[index] as Path)
    if (value === undefined || value === null) return undefined
    const instant = index === timePart ? instantOf(value) : undefined
    if (instant) writer.instant(instant)
    else writer.value(value)
  }
  const { key } = writer
  return key.length > MOST_CHARACTERS ? HASHED + hash('sha256', key, 'hex') : key
}

/** Whether the values of the natural key are too long: their texts and names, and one for each value. */
export function hasLongKey(item: JsonObject, { fields }: NaturalKey): boolean {
  let left = MOST_KEY_LENGTH
  const waiting: (JsonValue | undefined)[] = []
  for (const path of fields) {
    const value = valueToArray(item, path)
    if (typeof value === 'object') waiting.push(value)
    else left -= typeof value === 'string' ? 1 + value.length : 1
  }
  // Invariant: `left` is what remains after the values that were visited; `waiting` are those to be visited.
  for (let value = waiting.pop(); waiting.length > 0 || value !== undefined; value = waiting.pop()) {
    left--
    if (typeof value === 'string') left -= value.length
    const names = isObject(value) ? Object.keys(value) : []
    left -= isArray(value) ? value.length : names.length
    // Checked before the members are listed, so that a large value costs no more than the limit.
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
  return fields.map((path) => `${formatPath(path)} ${shown(firstAt(item, path))}`).join(', ')
}

/** A value for a message, cut if it is long. */
export function shown(value: JsonValue | undefined): string {
  const text = JSON.stringify(value)
  return text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}…` : text
}
