// The data of the page: the collections with their counts, the rows of the query, and their columns.
import { computed, effect, signal } from '@preact/signals'
import { Problem } from '../../../src/client/index.ts'
import { formatPath, parsePath } from '../../../src/json/paths.ts'
import type { JsonObject, JsonValue } from '../../../src/json/value.ts'
import { client, health, onUpdated } from './app.ts'
import { kept } from './base.ts'
import { shownCounts } from './counts.ts'
import { short } from './format.ts'
import { place, query, rowName, shapeOf, withPaging, write } from './query.ts'
import { calm, resource } from './resource.ts'
import { asOf } from './time.ts'

export interface Rows {
  readonly collection: string
  /** The moment that they show; undefined: the present. */
  readonly at: number | undefined
  readonly query: URLSearchParams
  readonly items: readonly JsonObject[]
  readonly total: number
  /** The position that the rows show. */
  readonly position: number
  /** The server's `Recollect-Hint` about the query; empty if there is none. */
  readonly hint: string
  /** The fields of the rows by their paths. Those once known stay, so that nothing moves under the eyes. */
  readonly fields: readonly string[]
  /** The columns that were shown so far, which stay as they are. */
  readonly columns: Map<string, Column>
  /** The keys of the rows before a change of the data; undefined: the question was another one. */
  readonly before: ReadonlySet<string> | undefined
  /** The collection and the query. */
  readonly question: string
}

export type Column = ReturnType<typeof columnOf>

const LIVE_MS = 250
/** Rows that are compared with those of today by one request. */
const COMPARED = 100
/** Columns that are shown unless others are chosen. */
const SHOWN_COLUMNS = 14
const MOST_COLUMNS = 40
/** Fields that can be chosen, rows that are looked at for them, and the depth to which objects become columns. */
const MOST_FIELDS = 300
const SAMPLED = 500
const DEPTH = 3
/** The width of a column in characters, and the rows that are measured for it. */
const LEAST_WIDTH = 6
const MOST_WIDTH = 34
const MEASURED = 100
const CHOSEN = kept('columns')

export const collection = computed(() => place.value.collection ?? Object.keys(shownCounts.value ?? {})[0])
export const isObject = computed(() => shownCounts.value?.[collection.value ?? ''] === null)

export function idField(): string {
  return health.value?.idField ?? 'id'
}

export function idOf(item: JsonObject): string | number {
  return item[idField()] as string | number
}

/** The path of a collection or an item. A single object has an empty id. */
export function pathOf(name: string, id = ''): string {
  return `/api/${encodeURIComponent(name)}${id === '' ? '' : `/${encodeURIComponent(id)}`}`
}

/** The path of a query at the moment that is shown. */
export function pathOfQuery(name: string, query: URLSearchParams): string {
  const asked = new URLSearchParams(query)
  if (asOf.value !== undefined) asked.set('asOf', String(asOf.value))
  return `${pathOf(name)}?${write(asked)}`
}

/** Counts the changes of the collection that is shown. */
export const touched = signal(0)
const calmTouched = calm(touched, LIVE_MS)
onUpdated((updated) => {
  const isRelated = query.value.has('_embed') || query.value.has('_expand')
  if (updated.collection === collection.value || isRelated) touched.value++
})

/** An answer to a question that is no longer asked is not waited for. */
let running = new AbortController()
const question = computed(() => JSON.stringify([place.value.collection, place.value.query]))
effect(() => {
  void question.value
  running.abort()
})

export const rows = resource(
  () => {
    if (collection.value === undefined || isObject.value) return undefined
    const turn = asOf.value === undefined ? calmTouched.value : 0
    return { name: collection.value, query: place.value.query ?? '', at: asOf.value, turn }
  },
  ({ name, at }): Promise<Rows | undefined> => {
    running = new AbortController()
    const { signal } = running
    return readRows(name, at, signal).catch((error) => {
      if (signal.aborted) return rows.value.peek()
      throw error
    })
  },
)

async function readRows(name: string, at: number | undefined, signal: AbortSignal): Promise<Rows | undefined> {
  const asked = query.peek()
  const response = await client.request('GET', pathOfQuery(name, withPaging(asked)), { signal })
  const total = response.headers.get('X-Total-Count')
  // A single object has none.
  if (total === null) return undefined
  const items = listOf(response).map((one) => (rowName(asked) === 'value' ? { value: one } : (one as JsonObject)))
  const previous = rows.value.peek()
  const question = JSON.stringify([name, write(asked)])
  const isSame = previous?.question === question
  const hasSameFields = previous?.collection === name && shapeOf(previous.query) === shapeOf(asked)
  return {
    collection: name,
    at,
    query: asked,
    items,
    total: Number(total),
    position: Number(response.headers.get('Journal-Position')),
    hint: response.headers.get('Recollect-Hint') ?? '',
    fields: fieldsOf(items, hasSameFields ? previous.fields : [], rowName(asked) === 'item'),
    columns: isSame ? previous.columns : new Map(),
    before: isSame && previous.at === at ? new Set(previous.items.map(keyOf)) : undefined,
    question,
  }
}

/** With Api.UseResultObject a page is an object. */
export function listOf(response: { json(): unknown }): readonly JsonValue[] {
  const body = response.json() as readonly JsonValue[] | { readonly results: readonly JsonValue[] }
  return 'results' in body ? body.results : body
}

/** Undefined while another collection is read, and when the query is not valid. */
export const shownRows = computed(() => {
  const { value } = rows.value
  const isWrong = rows.error.value !== undefined || value?.collection !== collection.value
  return isWrong || isObject.value ? undefined : value
})

/** Rows of an aggregate, or of selected fields, have no id: they are known by their place. */
export function keyOf(item: JsonObject, index: number): string {
  return isItem(item) ? String(idOf(item)) : `\0${index}`
}

export function isItem(item: JsonObject): boolean {
  return Object.hasOwn(item, idField())
}

/** The first row in view. */
export const firstInView = signal(0)
/** The items of today with the ids of the rows in view and around, while the past is shown. Null: it is deleted. */
export const today = resource(
  () => {
    const { items = [], at, collection: name = '' } = shownRows.value ?? {}
    if (at === undefined || at !== asOf.value) return undefined
    const from = Math.max(0, Math.floor(firstInView.value / (COMPARED / 2)) * (COMPARED / 2) - COMPARED / 4)
    const ids = items
      .slice(from, from + COMPARED)
      .filter(isItem)
      .map(idOf)
    return ids.length > 0 ? { name, ids, turn: calmTouched.value } : undefined
  },
  async ({ name, ids }) => {
    const found = new Map<string, JsonObject | null>(ids.map((id) => [String(id), null]))
    const query = client.collection<JsonObject>(name).where({ [`${idField()}_eq`]: ids })
    try {
      const { items } = await query.page(1, ids.length).get()
      for (const item of items) found.set(keyOf(item, 0), item)
    } catch (error) {
      // The collection is gone.
      if (!(error instanceof Problem) || error.status !== 404) throw error
    }
    return found
  },
)

export const fields = computed(() => shownRows.value?.fields ?? [])

/** The chosen columns by collection; undefined: those that are shown by themselves. */
const chosen = signal<Readonly<Record<string, readonly string[] | undefined>>>(
  JSON.parse(localStorage.getItem(CHOSEN) ?? '{}'),
)

export function chooseColumns(name: string, names: readonly string[] | undefined): void {
  chosen.value = { ...chosen.value, [name]: names }
  localStorage.setItem(CHOSEN, JSON.stringify(chosen.value))
}

/** The fields that are columns; the id is always the first one. */
export const columns = computed((): readonly Column[] => {
  const loaded = shownRows.value
  if (!loaded) return []
  const isOfItems = rowName(loaded.query) === 'item'
  const wanted = isOfItems && Object.hasOwn(chosen.value, loaded.collection) && chosen.value[loaded.collection]
  const others = loaded.fields.filter((name) => !isIdColumn(name) && (!wanted || wanted.includes(name)))
  const shown = others.slice(0, wanted || !isOfItems ? MOST_COLUMNS : SHOWN_COLUMNS)
  return [...loaded.fields.filter(isIdColumn), ...shown].map((name) => {
    const column = loaded.columns.get(name) ?? columnOf(loaded.query, loaded.items, name)
    loaded.columns.set(name, column)
    return column
  })
})

export function isIdColumn(name: string): boolean {
  return name === formatPath([idField()])
}

function columnOf(query: URLSearchParams, items: readonly JsonObject[], name: string) {
  const path = rowName(query) === 'item' ? parsePath(name) : [name]
  const values = items.slice(0, MEASURED).map((item) => valueAt(item, path))
  const longest = Math.max(LEAST_WIDTH, name.length + 2, ...values.map((value) => short(value, MOST_WIDTH).length))
  return {
    name,
    path,
    /** In characters. Those of ids are wide. */
    width: Math.min(MOST_WIDTH, isIdColumn(name) ? 1.2 * longest : longest) + 3,
    /** Headings of numbers stand above them. */
    isNumber: values.every((value) => typeof (value ?? 0) === 'number') && values.some((value) => value != null),
  }
}

function fieldsOf(items: readonly JsonObject[], before: readonly string[], isOfItems: boolean): readonly string[] {
  const all = new Set(before)
  for (const item of items.slice(0, SAMPLED)) {
    for (const name of isOfItems ? pathsOf(item) : Object.keys(item)) {
      if (all.size === MOST_FIELDS) return [...all]
      all.add(name)
    }
  }
  return [...all]
}

/**
 * The paths of an item's members, those of objects with nothing but text last, such as units. Objects that are deep within
 * it, or have many members, are one value.
 */
function* pathsOf(item: JsonObject, above: readonly string[] = []): Generator<string> {
  const members = Object.entries(item).sort(([, one], [, other]) => Number(isTexts(one)) - Number(isTexts(other)))
  for (const [name, value] of members) {
    const path = [...above, name]
    const isOpen = typeof value === 'object' && value !== null && !Array.isArray(value) && path.length < DEPTH
    const size = isOpen ? Object.keys(value).length : 0
    if (size > 0 && size <= MOST_COLUMNS) yield* pathsOf(value as JsonObject, path)
    else yield formatPath(path)
  }
}

function isTexts(value: JsonValue): boolean {
  if (typeof value !== 'object' || value === null) return false
  return Object.values(value).every((one) => typeof one === 'string')
}

export function valueAt(item: JsonObject, path: readonly string[]): JsonValue | undefined {
  let value: JsonValue | undefined = item
  for (const name of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
    value = (value as JsonObject)[name]
  }
  return value
}
