import { hash } from 'node:crypto'
import { instantOf } from '../json/instant.ts'
import { instantKey, orderKey } from '../json/order-key.ts'
import { firstAt, formatPath, type Path } from '../json/paths.ts'
import { isArray, isObject, type JsonObject, type JsonValue, own } from '../json/value.ts'
import { Ended, Refusal } from '../runtime/errors.ts'
import { keyedKey, numberedKey, PREFIX_BYTES, positionOf, prefixEnd, TAG, tableKey } from '../store/keys.ts'
import type { Store } from '../store/store.ts'
import type { Collection } from './collection.ts'
import type { TableChange, TableObserver } from './collection-writer.ts'
import type { Item } from './item.ts'
import type { PinnedCollection } from './stored-items.ts'

/** The table of the rows that describe the others. */
const FACTS = 0
/** A transaction of a build takes so long, about. */
const STEP_MS = 4

/** The state of the natural keys of one collection; the store has it beside the keys. */
interface NaturalKeyFacts extends NaturalKey {
  readonly collection: string
  /** False while they are built, and after two items with one key were stored. */
  readonly isComplete: boolean
}

/** Does work in a transaction of the store, as soon as the disk has room for it. */
type Transact = (work: () => void) => Promise<void>

/**
 * Finds the item that has a natural key. The store has a row for each natural key, with the key of its item, written in the
 * transactions that change the items. A collection's rows have a table of their own, and a row with its facts:
 *
 * | Rows of a collection | `isComplete` | |
 * |---|---|---|
 * | not wanted, or other fields | any | removed by `build` at the start |
 * | being built | false | a start after a crash builds them anew |
 * | complete | true | each item with a natural key has a row |
 * | two items had one natural key | false | the row is that of the later one; complete again once the other item has lost the key |
 */
export class NaturalKeys implements TableObserver {
  readonly #store: Store
  readonly #fields: KeyFields
  /** The tables of the rows, by collection. Others are not kept up. */
  readonly #tables = new Map<string, number>()
  /** Items whose natural key is recorded for a different item, with that key. */
  readonly #shared = new Set<string>()
  #isEnded = false

  constructor(store: Store, fields: KeyFields) {
    this.#store = store
    this.#fields = fields
    for (const [number, facts] of storedNaturalKeys(store)) {
      const wanted = fields.get(facts.collection)
      if (facts.isComplete && wanted && formatNaturalKey(wanted) === formatNaturalKey(facts))
        this.#tables.set(facts.collection, number)
    }
  }

  find(collection: string, naturalKey: string): string | undefined {
    const table = this.#tables.get(collection)
    const found = table === undefined ? undefined : this.#store.newest(keyedKey(TAG.naturalKey, table, naturalKey))
    return found?.toString()
  }

  isObserved(_table: number, collection: string): boolean {
    return this.#tables.has(collection)
  }

  changed({ collection, key, before, after }: TableChange): void {
    const table = this.#tables.get(collection) as number
    const naturalKey = this.#fields.get(collection) as NaturalKey
    const old = before && naturalKeyOf(before.value, naturalKey)
    const now = after?.derived(naturalKey, () => naturalKeyOf(after.value, naturalKey))
    if (old === now) return
    if (old !== undefined) {
      // The row of the old key may be that of another item, which got the key earlier in this write.
      const row = keyedKey(TAG.naturalKey, table, old)
      if (this.#store.newest(row)?.toString() === key) this.#store.remove(row)
      else if (this.#shared.delete(sharedBy(table, old, key)) && this.#shared.size === 0) {
        this.#saveFacts(table, { collection, ...naturalKey, isComplete: true })
      }
    }
    if (now === undefined) return
    const value = Buffer.from(key)
    const row = keyedKey(TAG.naturalKey, table, now)
    if (this.#store.setNew(row, value)) return
    const holder = this.#store.newest(row)?.toString() as string
    if (holder === key) return
    // Another item has this key. It loses the key later in this write, as when two items exchange theirs; or a server
    // without this setting wrote both. Incomplete facts make the next start build the rows anew in the second case.
    this.#shared.add(sharedBy(table, now, holder))
    this.#saveFacts(table, { collection, ...naturalKey, isComplete: false })
    this.#store.set(row, value)
  }

  /** Whether `build` has anything to do. */
  get isBuilt(): boolean {
    const stored = [...storedNaturalKeys(this.#store).values()]
    const complete = stored.filter(({ collection, isComplete }) => isComplete && this.#tables.has(collection))
    return complete.length === this.#fields.size && stored.length === complete.length
  }

  /**
   * Builds the rows that the settings want and removes those that they do not. Nothing may be written meanwhile.
   * @throws {Refusal} `Conflict` when two items have the same natural key.
   */
  async build(find: (name: string) => Collection | undefined, transact: Transact): Promise<void> {
    let next = 1
    // First, rows that are incomplete or not wanted are removed. Their numbers are not used again in this start.
    for (const [number, { collection, isComplete }] of storedNaturalKeys(this.#store)) {
      next = Math.max(next, number + 1)
      if (isComplete && this.#tables.get(collection) === number) continue
      this.#tables.delete(collection)
      await this.#store.clear(tableKey(TAG.naturalKey, number))
      await transact(() => this.#store.remove(numberedKey(TAG.naturalKey, FACTS, number)))
    }
    // Facts are stored before the first row, so that a crash leaves no rows without them, and again after the last one.
    for (const [collection, naturalKey] of this.#fields) {
      if (this.#tables.has(collection)) continue
      const number = next++
      await transact(() => this.#saveFacts(number, { collection, ...naturalKey, isComplete: false }))
      const items = find(collection)?.held()
      try {
        if (items) await this.#buildRows(items, number, naturalKey, transact)
      } finally {
        items?.release()
      }
      await transact(() => this.#saveFacts(number, { collection, ...naturalKey, isComplete: true }))
      this.#tables.set(collection, number)
    }
  }

  end(): void {
    this.#isEnded = true
  }

  async #buildRows(items: PinnedCollection, table: number, key: NaturalKey, transact: Transact): Promise<void> {
    let place = items.seek(0)
    // Invariant: items before `place` have their rows, in committed transactions.
    while (place < items.places) {
      if (this.#isEnded) throw new Ended()
      // The transaction may be repeated when the disk was full: `place` moves on only after it.
      let at = place
      await transact(() => {
        const until = performance.now() + STEP_MS
        for (at = place; at < items.places && performance.now() < until; at = items.seek(at + 1)) {
          const item = items.itemAt(at) as Item
          const { value } = item
          const naturalKey = naturalKeyOf(value, key)
          if (naturalKey === undefined) continue
          const row = keyedKey(TAG.naturalKey, table, naturalKey)
          const holder = this.#store.newest(row)?.toString()
          if (holder !== undefined && holder !== item.key) {
            throw new Refusal(
              'Conflict',
              `The items ${JSON.stringify(holder)} and ${JSON.stringify(item.key)} of "${items.name}" have the same natural key (${describeKey(value, key)}). ` +
                `Delete or change one of them while the setting Collections.${items.name}.Key is not given, then start with it again.`,
            )
          }
          this.#store.set(row, Buffer.from(item.key))
        }
      })
      place = at
      await new Promise<void>((resolve) => setImmediate(resolve))
    }
  }

  #saveFacts(number: number, facts: NaturalKeyFacts): void {
    this.#store.set(numberedKey(TAG.naturalKey, FACTS, number), Buffer.from(JSON.stringify(facts)))
  }
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

function sharedBy(table: number, naturalKey: string, key: string): string {
  return `${table}\n${key}\n${naturalKey}`
}

function formatNaturalKey({ fields, timePart }: NaturalKey): string {
  return `${fields.map(formatPath).join(',')} ${timePart}`
}

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
  // Invariant: `left` is what remains after the values that were visited; `waiting` are those to be visited.
  const waiting = fields.map((path) => valueToArray(item, path))
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
