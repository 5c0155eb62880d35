import { isItemEvent } from '../events/event.ts'
import type { Projection, Recorded } from '../events/journal.ts'
import { parseText } from '../json/parse.ts'
import { formatPath, type Path } from '../json/paths.ts'
import { mostSimilar } from '../json/similar.ts'
import { isArray, isObject, type JsonObject, type JsonValue } from '../json/value.ts'
import { type Asker, type Turn, Turns } from '../runtime/turns.ts'
import { type CollectionSnapshot, itemsOf } from './collection-snapshot.ts'
import { type Conditions, filterOf, meetsConditions } from './filter.ts'
import { scanTimeout } from './parameter.ts'
import type { PresentCollection, Queries } from './queries.ts'

/** Highest number of remembered fields, of all collections together. */
const MOST_FIELDS = 1000
/** Highest number of absent fields of a collection: each written item is searched for them. */
const MOST_ABSENT = 16
/** A longer field, in characters, is not searched for. */
const MOST_CHARACTERS = 256
/** A collection with more items is searched in the background, after the response. */
const FEW_ITEMS = 20_000
/** Highest number of concurrent searches, and the longest time of each; fields that were not searched stay unknown. */
const MOST_SEARCHES = 2
const SEARCH_SECONDS = 60
/** A longer item, or a write of more events, is not searched. Fields that were absent are then searched for again. */
const LONG_TEXT = 64 * 1024
const MANY_EVENTS = 256
/** A misspelt field is compared with so many fields of so many first items. */
const SAMPLED_ITEMS = 32
const SAMPLED_FIELDS = 200

interface Field {
  readonly path: Path
  /** The last name of the path as the text of an item has it. */
  readonly quoted: string
  readonly conditions: Conditions
  /** Undefined while it is being searched for. */
  isPresent: boolean | undefined
  /** A field of the same collection that resembles it; null until one was searched for. */
  similar: string | undefined | null
}

/**
 * Knows which fields of queries occur in a collection. Each is searched for in all items once; from then on every write tells
 * whether it is still absent. A field that occurred once counts as present for ever.
 */
export class FieldList implements Projection {
  readonly #queries: Pick<Queries, 'hold'>
  readonly #turns = new Turns()
  /** By collection and field. */
  readonly #fields = new Map<string, Map<string, Field>>()
  #size = 0
  /** Searches of large collections. */
  #searches = 0

  constructor(queries: Pick<Queries, 'hold'>) {
    this.#queries = queries
  }

  /** Whether any item has the field; undefined while that is not known, and of an empty collection. */
  has(collection: PresentCollection, path: Path): boolean | undefined | Promise<boolean | undefined> {
    if (collection.size === 0) return undefined
    const name = formatPath(path)
    if (name.length > MOST_CHARACTERS) return undefined
    const known = this.#fields.get(collection.name)?.get(name)
    if (known) return known.isPresent
    const isLarge = collection.size > FEW_ITEMS
    if (isLarge && this.#searches >= MOST_SEARCHES) return undefined
    const field = this.#add(collection.name, name, path)
    const found = this.#search(collection, field)
    if (!isLarge) return found
    this.#searches++
    void found.then(() => this.#searches--)
    return undefined
  }

  apply({ events }: Pick<Recorded, 'events'>): void {
    if (events.length > MANY_EVENTS) {
      for (const [collection, fields] of this.#fields) this.#forgetAbsent(collection, fields)
      return
    }
    for (const event of events) {
      const fields = this.#fields.get(event.collection)
      if (fields && isItemEvent(event) && 'item' in event) this.#noteItem(event.collection, fields, event.item.text)
    }
  }

  /** For each absent field, one of the collection's first items whose name resembles it. */
  similarTo(collection: PresentCollection, paths: readonly Path[]): readonly (string | undefined)[] {
    let sample: readonly string[] | undefined
    return paths.map((path) => {
      const name = formatPath(path)
      const field = this.#fields.get(collection.name)?.get(name)
      if (!field) return undefined
      if (field.similar === null) {
        sample ??= this.#sample(collection)
        field.similar = mostSimilar(name, sample)
      }
      return field.similar
    })
  }

  #sample(collection: PresentCollection): readonly string[] {
    const snapshot = this.#queries.hold(collection)
    try {
      const names = new Set<string>()
      let items = 0
      let characters = 0
      for (const { text } of itemsOf(snapshot)) {
        characters += text.length
        if (characters > LONG_TEXT) break
        addFields(JSON.parse(text) as JsonObject, [], names)
        if (++items === SAMPLED_ITEMS || names.size >= SAMPLED_FIELDS) break
      }
      return [...names]
    } finally {
      snapshot.release()
    }
  }

  async #search(collection: PresentCollection, field: Field): Promise<boolean | undefined> {
    const snapshot = this.#queries.hold(collection)
    try {
      const isFound = await this.#turns.run((turn) => isInAny(snapshot, field, turn), SEARCHER)
      field.isPresent ||= isFound
      if (!field.isPresent) this.#limitAbsent(collection.name)
      return field.isPresent
    } catch {
      this.#remove(collection.name, formatPath(field.path))
      return undefined
    } finally {
      snapshot.release()
    }
  }

  #add(collection: string, name: string, path: Path): Field {
    if (this.#size >= MOST_FIELDS) {
      this.#fields.clear()
      this.#size = 0
    }
    const fields = this.#fields.get(collection) ?? new Map<string, Field>()
    this.#fields.set(collection, fields)
    const conditions = { filters: [filterOf(path, 'exists', ['true'])], others: [] }
    const field: Field = {
      path,
      quoted: `${JSON.stringify(path.at(-1))}:`,
      conditions,
      isPresent: undefined,
      similar: null,
    }
    fields.set(name, field)
    this.#size++
    return field
  }

  #remove(collection: string, name: string): void {
    if (this.#fields.get(collection)?.delete(name)) this.#size--
  }

  #noteItem(collection: string, fields: ReadonlyMap<string, Field>, text: string): void {
    if (text.length > LONG_TEXT) {
      this.#forgetAbsent(collection, fields)
      return
    }
    let value: JsonObject | undefined
    for (const field of fields.values()) {
      if (field.isPresent || !text.includes(field.quoted)) continue
      value ??= JSON.parse(text) as JsonObject
      if (meetsConditions(value, field.conditions)) field.isPresent = true
    }
  }

  #forgetAbsent(collection: string, fields: ReadonlyMap<string, Field>): void {
    for (const [name, { isPresent }] of fields) if (!isPresent) this.#remove(collection, name)
  }

  /** Forgets the absent field that was queried first, if there are too many. */
  #limitAbsent(collection: string): void {
    const absent = [...(this.#fields.get(collection) ?? [])].filter(([, { isPresent }]) => isPresent === false)
    const [first] = absent
    if (first && absent.length > MOST_ABSENT) this.#remove(collection, first[0])
  }
}

const SEARCHER: Asker = {
  isGone: () => false,
  limit: { seconds: SEARCH_SECONDS, refusal: () => scanTimeout(SEARCH_SECONDS) },
}

async function isInAny(snapshot: CollectionSnapshot, { quoted, conditions }: Field, turn: Turn): Promise<boolean> {
  for (const { text } of itemsOf(snapshot)) {
    if (turn.isOver) await turn.next()
    if (!text.includes(quoted)) continue
    if (meetsConditions(parseText(text) as JsonObject, conditions)) return true
  }
  return false
}

function addFields(value: JsonValue, path: Path, names: Set<string>): void {
  if (isArray(value)) {
    for (const element of value) addFields(element, path, names)
  } else if (isObject(value)) {
    for (const [name, member] of Object.entries(value)) {
      if (names.size >= SAMPLED_FIELDS) return
      names.add(formatPath([...path, name]))
      addFields(member as JsonValue, [...path, name], names)
    }
  }
}
