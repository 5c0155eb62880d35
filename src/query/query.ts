import { parseSort, type Sort } from '../json/order.ts'
import { formatPath, type Path, parsePath, type Selection, selectionOf, splitList } from '../json/paths.ts'
import { fold } from '../json/text-search.ts'
import { Refusal } from '../runtime/errors.ts'
import { GROUPING, type Grouping, isGrouping, parseGrouping } from './aggregate/aggregation.ts'
import { type Filter, filterOf, OPERATORS, type Operator, RANGES } from './filter.ts'
import {
  colonOperator,
  JSON_SERVER_FAMILIES,
  JSON_SERVER_PARAMETERS,
  jsonServerSort,
  type Relation,
  relationsOf,
} from './json-server.ts'
import { interpretations } from './literal.ts'
import type { Family, Parameter } from './parameter.ts'
import { isReceived, RECEIVED } from './virtual-field.ts'

export type { Parameter } from './parameter.ts'

/** A parsed query (docs/api.md, "Query"). Filters apply first, then the sort, then the page, then the fields. */
export interface Query {
  readonly filters: readonly Filter[]
  /** Case-folded texts, any of which must occur somewhere. */
  readonly mentioned: readonly string[]
  readonly sort: readonly Sort[]
  readonly page: Page
  /** Undefined: whole items. */
  readonly fields: Selection | undefined
  /** The paths that `fields` was made from. */
  readonly selected?: readonly Path[]
  /** Undefined: items are requested. Otherwise sort and page apply to rows. */
  readonly grouping?: Grouping | undefined
  /** Other items that are shown inside those of the page. */
  readonly relations?: readonly Relation[]
  /** Other pages with the same filters and sort are likely to be requested. */
  readonly isShared?: boolean
  /** It names the virtual field `$received`, in any of its parts. */
  readonly namesReceived?: boolean
}

export interface Page {
  readonly offset: number
  readonly size: number
  /** Highest number of items on a page. */
  readonly largest: number
  /** The paging parameters of the request, which links use as well. */
  readonly family: Family
}

const FAMILIES: readonly Family[] = [
  { start: 'page', size: 'pageSize', pages: true },
  { start: 'page', size: 'per_page', pages: true },
  { start: 'skip', size: 'take', pages: false },
  { start: 'offset', size: 'limit', pages: false },
  ...JSON_SERVER_FAMILIES,
]

export const DEFAULT_PAGE_SIZE = 512

/** Limited because a sort reads items while comparing them, which cannot be interrupted. */
const MAX_SORT_FIELDS = 16

export interface QueryLimits {
  readonly parameters: number
  readonly pageSize: number
}

/** Properties of the queried collection. */
export interface QueryContext {
  /** The path of the event time. */
  readonly time?: Path | undefined
  /** The value of `now` in filters of the event time, in milliseconds since 1970. */
  readonly now?: number | undefined
}

/** `now`, `now-24h`, `now+15m`; a plus sign may have become a space. */
const RELATIVE = /^now(?:([-+ ])(\d{1,9})([smhdw]))?$/
const UNIT_MS = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const

/** Also of malformed ones, such as `now-1y`. */
const LIKE_RELATIVE = /^now(?:[-+ ]|$)/

/** Whether any of the parameters may contain a time relative to now. */
export function mayBeRelative(parameters: readonly Pick<Parameter, 'value'>[]): boolean {
  return parameters.some(({ value }) => LIKE_RELATIVE.test(value))
}

/**
 * Resolves a time relative to now. Other text cannot be the end of a range: every time is less than text that is none,
 * so that `timestamp_lt=now-1y` or `timestamp_lt=2026-1-1` would match all items.
 */
function absolute(text: string, now: number, isRange: boolean): string {
  const [match, sign, count = '0', unit = 's'] = RELATIVE.exec(text) ?? []
  if (match === undefined) {
    const [, , number, instant] = interpretations(text)
    if (!LIKE_RELATIVE.test(text) && (!isRange || number || instant)) return text
    throw new Refusal(
      'Invalid',
      `A time must be ISO 8601, for example 2026-01-31 or 2026-01-31T09:30:00Z, seconds or milliseconds since 1970, or relative to now, for example now-24h, with s, m, h, d or w; not ${JSON.stringify(text)}.`,
    )
  }
  const ms = now + (sign === '-' ? -1 : 1) * Number(count) * UNIT_MS[unit as keyof typeof UNIT_MS]
  if (Math.abs(ms) > MOST_MS) throw new Refusal('Invalid', `The instant ${text} is out of range.`)
  return new Date(ms).toISOString()
}

/** Covers the years 0 to 9999. */
const MOST_MS = 62_000_000_000_000

/** Characters that URIs must not contain although Node accepts them; links must escape them. */
const FORBIDDEN = /["<>\\^`{|}]/g

/** Splits and decodes a query string without its `?`. */
export function parseParameters(search: string, limit: number): readonly Parameter[] {
  const escaped = search.replace(FORBIDDEN, encodeURIComponent)
  const pieces = escaped.split('&').filter((piece) => piece !== '')
  if (pieces.length > limit) {
    throw new Refusal('Invalid', `The query has ${pieces.length} parameters; at most ${limit} are accepted.`)
  }
  return pieces.map((raw) => {
    const equals = raw.indexOf('=')
    return equals < 0
      ? { raw, name: decode(raw), value: '' }
      : { raw, name: decode(raw.slice(0, equals)), value: decode(raw.slice(equals + 1)) }
  })
}

function decode(text: string): string {
  if (!/[%+]/.test(text)) return text
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    throw new Refusal('Invalid', `The query holds malformed percent-encoding: ${text}`)
  }
}

/** Selects the moment, not the items. */
export const AS_OF = 'asOf'

/** Requests the whole result instead of a page. */
export const ALL = 'all'

export const PAGING: ReadonlySet<string> = new Set(FAMILIES.flatMap(({ start, size }) => [start, size]))

/** Parameters that do not filter items. */
export const WITHOUT_FILTERS: ReadonlySet<string> = new Set([
  ...PAGING,
  ...GROUPING,
  ...JSON_SERVER_PARAMETERS,
  'sort',
  'fields',
  AS_OF,
  ALL,
])

export function parseQuery(parameters: readonly Parameter[], limits: QueryLimits, context: QueryContext = {}): Query {
  const filters = new Map<string, string[]>()
  const mentioned: string[] = []
  const sort: Sort[] = []
  const paging = new Map<string, string>()
  const fields: Path[] = []
  for (const { name, value } of parameters) {
    if (name === 'q') mentioned.push(fold(value))
    else if (name === 'sort') sort.push(...splitList(value).map(parseSort))
    else if (name === 'fields') fields.push(...splitList(value).map(parsePath))
    else if (name === AS_OF || name === ALL || isGrouping(name) || JSON_SERVER_PARAMETERS.includes(name)) continue
    else if (PAGING.has(name)) {
      if (paging.has(name)) throw new Refusal('Invalid', `The parameter ${name} must be given once.`)
      paging.set(name, value)
    } else {
      const values = filters.get(name)
      if (values) values.push(value)
      else filters.set(name, [value])
    }
  }
  sort.push(...jsonServerSort(parameters))
  if (sort.length > MAX_SORT_FIELDS) throw new Refusal('Invalid', `At most ${MAX_SORT_FIELDS} fields can be sorted by.`)
  const grouping = parseGrouping(parameters, context.time)
  if (grouping && grouping.kind !== 'newest' && fields.length > 0) {
    throw new Refusal(
      'Invalid',
      'The parameter fields is for items, and cannot be combined with aggregate or distinct.',
    )
  }
  const relations = relationsOf(parameters)
  if (grouping && relations.length > 0) {
    throw new Refusal('Invalid', 'Items are embedded in items: not with aggregate, distinct or newestBy.')
  }
  return {
    ...(parameters.some(({ name, value }) => `${name} ${value}`.includes(RECEIVED)) && { namesReceived: true }),
    grouping,
    filters: Array.from(filters, ([name, values]) => parseFilter(name, values, context)),
    mentioned,
    sort,
    page: parsePage(paging, limits.pageSize, grouping ? limits.pageSize : DEFAULT_PAGE_SIZE),
    fields: fields.length > 0 ? selectionOf(fields) : undefined,
    selected: fields,
    relations,
  }
}

function parseFilter(name: string, values: readonly string[], { time, now }: QueryContext): Filter {
  const { field, operator } = colonOperator(name) ?? suffixOperator(name)
  if (operator === 'exists' && values.some((value) => value !== 'true' && value !== 'false')) {
    throw new Refusal('Invalid', `The parameter ${name} must be true or false.`)
  }
  const path = parsePath(field)
  const isTime = isReceived(path) || (time !== undefined && formatPath(path) === formatPath(time))
  const isRange = RANGES.includes(operator)
  const wanted = isTime && now !== undefined ? values.map((value) => absolute(value, now, isRange)) : values
  const filter = filterOf(path, operator, wanted)
  // An item's text does not contain the virtual field.
  return isReceived(path) ? { ...filter, trace: undefined } : filter
}

/** Only the names of operators are suffixes: `data.acceleration_x` is a field. */
function suffixOperator(name: string): { readonly field: string; readonly operator: Operator } {
  const underscore = name.lastIndexOf('_')
  const suffix = name.slice(underscore + 1)
  const operator = underscore > 0 ? OPERATORS.find((known) => known === suffix) : undefined
  return operator ? { field: name.slice(0, underscore), operator } : { field: name, operator: 'eq' }
}

function parsePage(paging: ReadonlyMap<string, string>, largest: number, initial: number): Page {
  const used = [...paging.keys()]
  const family = FAMILIES.find(({ start, size }) => used.every((name) => name === start || name === size))
  if (!family) {
    throw new Refusal(
      'Invalid',
      `The parameters ${used.join(', ')} count pages in different ways; use one of: ${FAMILIES.map(({ start, size }) => `${start} and ${size}`).join('; ')}.`,
    )
  }
  const start = number(paging, family.start, firstOf(family)) ?? firstOf(family)
  const behind = family.isEnd ? start : 0
  const size =
    (number(paging, family.size, behind + 1) ?? behind + Math.min(family.initial ?? initial, largest)) - behind
  if (size > largest) throw new Refusal('Invalid', `The parameter ${family.size} may be at most ${behind + largest}.`)
  return { offset: offsetOf(family, start, size), size, largest, family }
}

function firstOf({ pages }: Family): number {
  return pages ? 1 : 0
}

function offsetOf({ pages }: Family, start: number, size: number): number {
  return pages ? (start - 1) * size : start
}

function number(paging: ReadonlyMap<string, string>, name: string, least: number): number | undefined {
  const text = paging.get(name)
  if (text === undefined) return undefined
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN
  if (value >= least) return value
  throw new Refusal(
    'Invalid',
    `The parameter ${name} must be an integer of at least ${least}, not ${JSON.stringify(text)}.`,
  )
}

export interface PageLink {
  readonly relation: 'first' | 'prev' | 'next' | 'last'
  /** The query without its `?`. */
  readonly search: string
}

/**
 * The parameters of the other pages; all others are kept as they were sent. Before an offset smaller than a page comes
 * a page of only as many items, so that following `prev` shows no item twice.
 */
export function pageLinks(parameters: readonly Parameter[], page: Page, total: number): readonly PageLink[] {
  const { family, size, offset } = page
  const lastOffset = Math.max(0, Math.ceil(total / size) - 1) * size
  let rest = ''
  for (const { name, raw } of parameters) {
    if (name !== family.start && !(family.isEnd && name === family.size)) rest += `${raw}&`
  }
  rest += `${family.start}=`
  const at = (start: number): string => {
    if (family.pages) return `${rest}${Math.floor(start / size) + 1}`
    return family.isEnd ? `${rest}${start}&${family.size}=${start + size}` : rest + start
  }
  const links: PageLink[] = [{ relation: 'first', search: at(0) }]
  if (offset >= size) links.push({ relation: 'prev', search: at(Math.min(offset - size, lastOffset)) })
  else if (offset > 0) links.push({ relation: 'prev', search: upTo(offset, parameters, family) })
  if (offset + size < total) links.push({ relation: 'next', search: at(offset + size) })
  links.push({ relation: 'last', search: at(lastOffset) })
  return links
}

function upTo(offset: number, parameters: readonly Parameter[], family: Family): string {
  const others = parameters.filter(({ name }) => name !== family.start && name !== family.size)
  return [...others.map(({ raw }) => raw), `${family.size}=${offset}`, `${family.start}=0`].join('&')
}
