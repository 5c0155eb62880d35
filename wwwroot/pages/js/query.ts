// What the page shows: a collection, a query of the API (docs/api.md, "Query"), and an item.
import { computed, signal } from '@preact/signals'
import { parseSort, type Sort } from '../../../src/json/order.ts'
import { splitList } from '../../../src/json/paths.ts'
import { address } from './address.ts'
import { followLinks } from './link.tsx'

export interface Place {
  /** Undefined: the first one. */
  readonly collection?: string | undefined
  readonly query?: string | undefined
  readonly item?: string | undefined
}

const PAGE_SIZE = 50
/** By their suffixes. */
export const OPERATORS: Readonly<Record<string, string>> = {
  eq: '=',
  ne: '≠',
  gt: '>',
  gte: '≥',
  lt: '<',
  lte: '≤',
  in: 'is one of',
  contains: 'contains',
  startswith: 'starts with',
  endswith: 'ends with',
  like: 'contains, in any case',
  istartswith: 'starts with, in any case',
  iendswith: 'ends with, in any case',
  exists: 'exists:',
}
const SUFFIX = new RegExp(`^(.+)_(${Object.keys(OPERATORS).join('|')})$`)
const PAGES = ['page', '_page']
const STARTS = ['skip', 'offset', '_start']
const SIZES = ['pageSize', 'per_page', 'take', 'limit', '_per_page', '_limit']
const PAGING = [...PAGES, ...STARTS, ...SIZES, '_end']
const GROUPING = ['aggregate', 'groupBy', 'window', 'tz', 'fill', 'distinct', 'newestBy']
/** Parameters that a query has once. Filters by the same field are alternatives. */
const SINGLE = ['q', 'sort', 'fields', ...GROUPING]

export const place = signal(placeInAddress())
address.onBack(() => {
  place.value = placeInAddress()
})

export const query = computed(() => parse(place.value.query ?? ''))

function placeInAddress(): Place {
  return { collection: address.get('collection'), query: address.get('query'), item: address.get('item') }
}

/** Shows another place. Back leads to the one before. */
export function go(changes: Place): void {
  address.set({ ...changes }, { isStep: true })
  place.value = placeInAddress()
}

followLinks(go)

/** Shows the first page of a changed query, which has the same size unless it is changed, too. */
export function ask(change: (query: URLSearchParams) => void): void {
  const changed = withoutPaging(query.value)
  const size = valueIn(query.value, SIZES)
  if (size !== undefined) changed.set('pageSize', size)
  change(changed)
  go({ query: write(changed) })
}

/** Adds parameters as they are typed. */
export function add(query: URLSearchParams, added: URLSearchParams): void {
  for (const [name, value] of added) {
    if (SINGLE.includes(name) || PAGING.includes(name)) query.set(name, value)
    else query.append(name, value)
  }
}

/** Text without a `=` is searched for in all values. */
export function parse(text: string): URLSearchParams {
  const isSearch = text.trim() !== '' && !text.includes('=')
  return new URLSearchParams(isSearch ? { q: text.trim() } : text.trim())
}

/** As text that people can read: it encodes only what it has to. */
export function write(query: URLSearchParams): string {
  return String(query).replace(/%(2C|3A|2F|40|24|5B|5D)/g, decodeURIComponent)
}

export function withoutPaging(query: URLSearchParams): URLSearchParams {
  return new URLSearchParams([...query].filter(([name]) => !PAGING.includes(name)))
}

/** A query says how many rows it wants. */
export function withPaging(query: URLSearchParams): URLSearchParams {
  const paged = new URLSearchParams(query)
  if (!PAGING.some((name) => query.has(name))) paged.set('pageSize', String(PAGE_SIZE))
  return paged
}

/** The page of a result, from 1, its size, and the number of items before it, whichever parameters ask for it. */
export function pagingOf(query: URLSearchParams) {
  const number = (names: readonly string[]): number => Number(valueIn(query, names) ?? Number.NaN)
  const start = number(STARTS)
  const size = number(SIZES) || number(['_end']) - (start || 0) || PAGE_SIZE
  const from = start >= 0 ? start : ((number(PAGES) || 1) - 1) * size
  return { page: Math.floor(from / size) + 1, size, from }
}

function valueIn(query: URLSearchParams, names: readonly string[]): string | undefined {
  return [...query].find(([name]) => names.includes(name))?.[1]
}

/** The word for one row of the result of a query. */
export function rowName(query: URLSearchParams): 'item' | 'row' | 'value' {
  if (query.has('aggregate')) return 'row'
  return query.has('distinct') ? 'value' : 'item'
}

/** Queries of different shapes have different columns. */
export function shapeOf(query: URLSearchParams): string {
  return JSON.stringify(['fields', ...GROUPING].map((name) => query.get(name)))
}

/** Whether the query groups items: then there are no more rows than a page may have, and no items to filter. */
export function isGrouped(query: URLSearchParams): boolean {
  return GROUPING.some((name) => query.has(name))
}

/** A parameter in words. */
export function parameterText(name: string, value: string): string {
  if (name === 'q') return `contains “${value}”`
  const [, field = name, suffix = 'eq'] = SUFFIX.exec(name) ?? []
  return `${field} ${OPERATORS[suffix]} ${value}`
}

/** The first field that the query sorts by. */
export function sortingOf(query: URLSearchParams): Sort | undefined {
  const [first] = splitList(query.get('sort') ?? '')
  return first === undefined ? undefined : parseSort(first)
}
