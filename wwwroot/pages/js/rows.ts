// The data of the page: the collections with their counts, the rows of the query, and their columns.
import { computed, effect, signal } from '@preact/signals'
import { Problem } from '../../../src/client/index.ts'
import { formatPath, parsePath } from '../../../src/json/paths.ts'
import type { JsonObject, JsonValue } from '../../../src/json/value.ts'
import { address } from './address.ts'
import { base, changes, client, health, onUpdated } from './app.ts'
import { type Parameters, parse, place, rowName, shapeOf, withPaging, withParameters, write } from './query.ts'
import { calm, resource } from './resource.ts'
import { asOf } from './time.ts'

export interface Rows {
  readonly collection: string
  /** The moment that they show; undefined: the present. */
  readonly at: number | undefined
  readonly parameters: Parameters
  readonly items: readonly JsonObject[]
  readonly total: number
  /** The position that the rows show. */
  readonly position: number
  /** The server's `Recollect-Hint` about the query; empty if there is none. */
  readonly hint: string
  /** The keys of the rows before a change of the data; undefined: the question was another one. */
  readonly before: ReadonlySet<string> | undefined
  readonly question: string
}

interface Question {
  readonly collection: string
  readonly query: string
  readonly at: number | undefined
  readonly turn: number
}

const COUNTS_MS = 1000
const LIVE_MS = 250
/** Rows that are compared with those of today, and the characters of their ids in the address of one request. */
const COMPARED = 100
const COMPARED_CHARACTERS = 6000
/** Columns that are shown unless others are chosen. */
const SHOWN_COLUMNS = 14
const MOST_COLUMNS = 40
/** Fields that can be chosen, rows that are looked at for them, and the depth to which objects become columns. */
const MOST_FIELDS = 300
const SAMPLED = 500
const DEPTH = 3
const CHOSEN = `recollect.columns ${new URL(base).pathname} `

/** Whether the moment that the address names is known. */
export const isReady = signal(address.get('at') === undefined)

const calmChanges = calm(changes, COUNTS_MS)
const counts = resource(
  () => calmChanges.value,
  () => client.counts(),
)
const countsThen = resource(
  () => asOf.value,
  (position) => client.counts({ asOf: position }),
)
/** By the names of the collections, in their order; null for a single object. */
export const shownCounts = computed(() => countsThen.value.value ?? counts.value.value)
/** The present numbers of items, while the past is shown. */
export const countsToday = computed(() => (asOf.value === undefined ? undefined : counts.value.value))
export const collection = computed(() => place.value.collection ?? Object.keys(shownCounts.value ?? {})[0])
export const isObject = computed(() => shownCounts.value?.[collection.value ?? ''] === null)

export function idField(): string {
  return health.value?.idField ?? 'id'
}

/** The path of a collection, an item or what is in it. A single object has an empty id. */
export function pathOf(...segments: readonly (string | number)[]): string {
  return `/api/${segments
    .filter((one) => one !== '')
    .map(encodeURIComponent)
    .join('/')}`
}

/** The path of a query at the moment that is shown. */
export function pathOfQuery(name: string, parameters: Parameters): string {
  const at = asOf.value === undefined ? [] : [['asOf', String(asOf.value)] as const]
  return `${pathOf(name)}?${write(withParameters(parameters, at))}`
}

/** Counts the changes of the collection that is shown. */
export const touched = signal(0)
const calmTouched = calm(touched, LIVE_MS)
onUpdated((updated) => {
  const isRelated = /_embed|_expand/.test(place.value.query ?? '')
  if (updated.collection === collection.value || isRelated) touched.value++
})

let running = new AbortController()
let asked = ''
effect(() => {
  const now = JSON.stringify([place.value.collection, place.value.query])
  if (now !== asked) running.abort()
  asked = now
})

export const rows = resource((): Question | undefined => {
  if (!isReady.value || collection.value === undefined || isObject.value) return undefined
  const turn = asOf.value === undefined ? calmTouched.value : 0
  return { collection: collection.value, query: place.value.query ?? '', at: asOf.value, turn }
}, readRows)

/** An answer to a question that is no longer asked is not waited for. */
async function readRows({ collection: name, query, at }: Question): Promise<Rows | undefined> {
  const parameters = parse(query)
  running = new AbortController()
  const { signal } = running
  try {
    const response = await client.request('GET', pathOfQuery(name, withPaging(parameters)), { signal })
    const total = response.headers.get('X-Total-Count')
    if (total === null) return undefined
    const question = JSON.stringify([name, query, at])
    const previous = rows.value.peek()
    return {
      collection: name,
      at,
      parameters,
      // Of `distinct` they are values.
      items: listOf(response).map((one) => (rowName(parameters) === 'value' ? { value: one } : (one as JsonObject))),
      total: Number(total),
      position: Number(response.headers.get('Journal-Position')),
      hint: response.headers.get('Recollect-Hint') ?? '',
      before: previous?.question === question ? new Set(previous.items.map(keyOf)) : undefined,
      question,
    }
  } catch (error) {
    if (signal.aborted) return rows.value.peek()
    throw error
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
  return isItem(item) ? String(item[idField()]) : `\0${index}`
}

export function isItem(item: JsonObject): boolean {
  return Object.hasOwn(item, idField())
}

/** The first row in view. */
export const firstInView = signal(0)
/** The items of today with the ids of the rows in view and around, while the past is shown. Null: it is deleted. */
export const today = resource(
  () => {
    const { items = [], at } = shownRows.value ?? {}
    if (at === undefined || at !== asOf.value) return undefined
    const from = Math.max(0, Math.floor(firstInView.value / (COMPARED / 2)) * (COMPARED / 2) - COMPARED / 4)
    const ids: (string | number)[] = []
    let characters = 0
    for (const item of items.slice(from, from + COMPARED)) {
      const id = item[idField()] as string | number | undefined
      characters += encodeURIComponent(id ?? '').length + idField().length + 5
      if (id !== undefined && characters < COMPARED_CHARACTERS) ids.push(id)
    }
    return ids.length > 0 ? { name: collection.value ?? '', ids, turn: calmTouched.value } : undefined
  },
  async ({ name, ids }) => {
    const found = new Map<string, JsonObject | null>(ids.map((id) => [String(id), null]))
    const query = client.collection<JsonObject>(name).where({ [`${idField()}_eq`]: ids })
    const { items } = await query
      .page(1, ids.length)
      .get()
      .catch((error) => {
        if (error instanceof Problem && error.status === 404) return { items: [] }
        throw error
      })
    for (const item of items) found.set(keyOf(item, 0), item)
    return found
  },
)

let knownShape = ''
let known: readonly string[] = []
/** The fields of the rows by their paths. Those once known stay, so that nothing moves under the eyes. */
export const fields = computed(() => {
  const loaded = shownRows.value
  if (!loaded) return []
  const shape = JSON.stringify([loaded.collection, shapeOf(loaded.parameters)])
  if (shape !== knownShape) known = []
  knownShape = shape
  known = fieldsOf(loaded.items.slice(0, SAMPLED), known, rowName(loaded.parameters) === 'item')
  return known
})

/** The chosen columns of the collection. */
const chosen = signal<Readonly<Record<string, readonly string[] | undefined>>>({})

function chosenOf(name: string): readonly string[] | undefined {
  if (Object.hasOwn(chosen.value, name)) return chosen.value[name]
  try {
    return JSON.parse(localStorage.getItem(CHOSEN + name) ?? 'null') ?? undefined
  } catch {
    return undefined
  }
}

/** Undefined: those that are shown by themselves. */
export function chooseColumns(name: string, columns: readonly string[] | undefined): void {
  chosen.value = { ...chosen.value, [name]: columns }
  try {
    if (columns) localStorage.setItem(CHOSEN + name, JSON.stringify(columns))
    else localStorage.removeItem(CHOSEN + name)
  } catch {
    // Without storage they are chosen until the next page.
  }
}

/** The fields that are columns; the id is always the first one. */
export const columns = computed((): readonly string[] => {
  const loaded = shownRows.value
  if (!loaded) return []
  if (rowName(loaded.parameters) !== 'item') return fields.value.slice(0, MOST_COLUMNS)
  const wanted = chosenOf(loaded.collection)
  const id = formatPath([idField()])
  const others = fields.value.filter((name) => name !== id && (wanted?.includes(name) ?? true))
  const shown = others.slice(0, wanted ? MOST_COLUMNS : SHOWN_COLUMNS)
  return fields.value.includes(id) ? [id, ...shown] : shown
})

/** New fields come after those that they follow in an item. */
function fieldsOf(items: readonly JsonObject[], before: readonly string[], isDeep: boolean): readonly string[] {
  const all = [...before]
  const found = new Set(all)
  for (const item of items) {
    let last = 0
    for (const name of isDeep ? pathsOf(item) : Object.keys(item)) {
      if (found.has(name)) last = all.indexOf(name, last) + 1 || all.indexOf(name) + 1
      else if (all.length < MOST_FIELDS) {
        all.splice(last++, 0, name)
        found.add(name)
      }
    }
  }
  return all
}

function pathsOf(item: JsonObject, above: readonly string[] = [], into: string[] = []): readonly string[] {
  for (const [name, value] of Object.entries(item)) {
    if (into.length >= MOST_FIELDS) break
    const path = [...above, name]
    const isOpen = typeof value === 'object' && value !== null && !Array.isArray(value) && path.length < DEPTH
    const size = isOpen ? Object.keys(value).length : 0
    if (size > 0 && size <= MOST_COLUMNS) pathsOf(value as JsonObject, path, into)
    else into.push(formatPath(path))
  }
  return into
}

/** The names that lead to a column's value. */
export function pathOfColumn(column: string): readonly string[] {
  const isPath = rowName(shownRows.value?.parameters ?? []) === 'item'
  return isPath ? parsePath(column) : [column]
}

export function valueAt(item: JsonObject, path: readonly string[]): JsonValue | undefined {
  let value: JsonValue | undefined = item
  for (const name of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
    value = (value as JsonObject)[name]
  }
  return value
}
