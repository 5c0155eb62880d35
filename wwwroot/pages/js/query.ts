// What the page shows: a collection, the API's own query (docs/api.md, "Query") as a list of parameters, and an item.
import { signal } from '@preact/signals'
import { splitList } from '../../../src/json/paths.ts'
import { address } from './address.ts'
import { followLinks } from './link.tsx'

export type Parameter = readonly [name: string, value: string]
export type Parameters = readonly Parameter[]

export interface Place {
  /** Undefined: the first one. */
  readonly collection?: string | undefined
  readonly query?: string | undefined
  readonly item?: string | undefined
}

/** A page of a result, whichever of the API's parameters ask for it. */
export interface Paging {
  /** From 1. */
  readonly page: number
  readonly size: number
  /** Number of items before it. */
  readonly from: number
}

const PAGE_SIZE = 50
/** By their suffixes. */
export const OPERATORS: Readonly<Record<string, string>> = {
  eq: 'is',
  ne: 'is not',
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
  exists: 'exists',
}
const SUFFIX = new RegExp(`^(.+)_(${Object.keys(OPERATORS).join('|')})$`)
const STARTS = ['skip', 'offset', '_start']
const SIZES = ['pageSize', 'per_page', 'take', 'limit', '_per_page', '_limit']
const PAGING = ['page', '_page', '_end', ...STARTS, ...SIZES]
const GROUPING = ['aggregate', 'groupBy', 'window', 'tz', 'fill', 'distinct', 'newestBy']
const JSON_SERVER = ['_sort', '_order', '_embed', '_expand', '_where']
const RESERVED = ['q', 'sort', 'fields', 'asOf', 'all', ...GROUPING, ...JSON_SERVER, ...PAGING]

export const place = signal(placeInAddress())
address.onBack(() => {
  place.value = placeInAddress()
})

function placeInAddress(): Place {
  return { collection: address.get('collection'), query: address.get('query'), item: address.get('item') }
}

/** Shows another place. Back leads to the one before. */
export function go(changes: Place): void {
  address.set({ ...changes }, { isStep: true })
  place.value = placeInAddress()
}

followLinks(go)

/** Text without a `=` is searched for in all values. */
export function parse(text: string): Parameters {
  const trimmed = text.trim().replace(/^\?/, '')
  if (trimmed === '') return []
  return trimmed.includes('=') ? [...new URLSearchParams(trimmed)] : [['q', trimmed]]
}

export function write(parameters: Parameters): string {
  return parameters.map(([name, value]) => `${readable(name)}=${readable(value)}`).join('&')
}

function readable(text: string): string {
  return encodeURIComponent(text)
    .replace(/%(2C|3A|2F|40|24|5B|5D)/g, decodeURIComponent)
    .replaceAll("'", '%27')
}

export function valueIn(parameters: Parameters, ...names: readonly string[]): string | undefined {
  return parameters.find(([name]) => names.includes(name))?.[1]
}

/** Filters are added to the others, and other parameters replace those of their name. Undefined values remove. */
export function withParameters(parameters: Parameters, added: readonly (readonly [string, string?])[]): Parameters {
  let all = parameters
  for (const [name, value] of added) {
    all = all.filter(([one, other]) => one !== name || (isFilter(name) && other !== value))
    if (value !== undefined) all = [...all, [name, value]]
  }
  return all
}

/** Another result has other pages; their size stays. */
export function withFirstPage(parameters: Parameters): Parameters {
  const size = valueIn(parameters, ...SIZES)
  return withParameters(withoutPaging(parameters), [['pageSize', size]])
}

export function withoutPaging(parameters: Parameters): Parameters {
  return parameters.filter(([name]) => !PAGING.includes(name))
}

/** A query says how many rows it wants. */
export function withPaging(parameters: Parameters): Parameters {
  const isPaged = parameters.some(([name]) => PAGING.includes(name))
  return isPaged ? parameters : [...parameters, ['pageSize', String(PAGE_SIZE)]]
}

export function pagingOf(parameters: Parameters): Paging {
  const number = (...names: string[]): number => Number(valueIn(parameters, ...names) ?? Number.NaN)
  const start = number(...STARTS)
  const size = number(...SIZES) || number('_end') - (start || 0) || PAGE_SIZE
  if (start >= 0) return { page: Math.floor(start / size) + 1, size, from: start }
  const page = number('page', '_page') || 1
  return { page, size, from: (page - 1) * size }
}

/** The word for one row of the result of a query: `item`, `row` or `value`. */
export function rowName(parameters: Parameters): string {
  if (valueIn(parameters, 'aggregate') !== undefined) return 'row'
  return valueIn(parameters, 'distinct') === undefined ? 'item' : 'value'
}

/** Queries of different shapes have different columns. */
export function shapeOf(parameters: Parameters): string {
  return write(parameters.filter(([name]) => name === 'fields' || GROUPING.includes(name)))
}

/** Whether the query groups items: then there are no more rows than a page may have, and no items to filter. */
export function isGrouped(parameters: Parameters): boolean {
  return parameters.some(([name]) => GROUPING.includes(name))
}

export function isFilter(name: string): boolean {
  return !RESERVED.includes(name)
}

/** The parameter that filters by a field. */
export function filterName(field: string): string {
  return RESERVED.includes(field) || SUFFIX.test(field) ? `${field}_eq` : field
}

/** A parameter in words. */
export function parameterText([name, value]: Parameter): string {
  if (name === 'q') return `contains “${value}”`
  if (!isFilter(name)) return `${name} ${value}`
  const [, field = name, suffix = 'eq'] = SUFFIX.exec(name) ?? []
  if (suffix === 'exists') return `${field} ${value === 'false' ? 'is missing' : 'exists'}`
  return `${field} ${OPERATORS[suffix]} ${value}`
}

/** The first field that is sorted by. */
export function sortingOf(parameters: Parameters): { readonly field: string; readonly isDown: boolean } | undefined {
  const [first = ''] = splitList(valueIn(parameters, 'sort') ?? '')
  if (first === '') return undefined
  if (first.startsWith('-')) return { field: first.slice(1), isDown: true }
  const [, field = first.replace(/^\+/, ''), order = 'asc'] = /^(.*)_(asc|desc)$/.exec(first) ?? []
  return { field, isDown: order === 'desc' }
}
