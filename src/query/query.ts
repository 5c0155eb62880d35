import { parseSort, type Sort } from '../json/order.ts'
import { formatPath, type Path, parsePath, type Selection, selectionOf, splitList } from '../json/paths.ts'
import { Refusal } from '../runtime/errors.ts'
import { GROUPING_PARAMETERS, type Grouping, isSame, parseGrouping } from './aggregate/aggregation.ts'
import { UNIT_MS } from './aggregate/window.ts'
import {
  type Conditions,
  type Filter,
  filterOf,
  foldCase,
  isComparison,
  OPERATORS,
  type Operator,
  RANGES,
  readEventTime,
} from './filter.ts'
import {
  colonOperator,
  JSON_SERVER_PARAMETERS,
  jsonServerSort,
  RELATION_PARAMETERS,
  type Relation,
  relationsOf,
  type Where,
  whereOf,
} from './json-server.ts'
import { DEFAULT_PAGE_SIZE, PAGE_PARAMETERS, PAGING, type Page, parsePage } from './paging.ts'
import {
  FLAG,
  IGNORED,
  isReceived,
  type Parameter,
  type ParameterDescription,
  parameterName,
  RECEIVED,
  TEXT,
  TEXT_LIST,
} from './parameter.ts'

export type { Parameter } from './parameter.ts'

/** A parsed query (docs/api.md, "Query"). Filters apply first, then the sort, then the page, then the fields. */
export interface Query extends Conditions {
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
  /** It names the virtual field `$received`, in any of its parts. */
  readonly namesReceived?: boolean
}

export interface QueryLimits {
  readonly parameters: number
  readonly pageSize: number
}

/** Properties of the queried collection. */
interface QueryContext {
  /** The path of the event time. */
  readonly time?: Path | undefined
  /** The value of `now` in filters of the event time, in milliseconds since 1970; undefined: they may have none. */
  readonly now?: number | undefined
}

/** Each may make a long key of an item, which is not interrupted. */
const MAX_SORT_FIELDS = 8

export function parseQuery(parameters: readonly Parameter[], limits: QueryLimits, context: QueryContext = {}): Query {
  const filters = new Map<string, string[]>()
  const mentioned: string[] = []
  const sort: Sort[] = []
  const paging = new Map<string, string>()
  const fields: Path[] = []
  for (const { name, value } of parameters) {
    if (name === 'q') mentioned.push(foldCase(value))
    else if (name === 'sort') sort.push(...splitList(value).map(parseSort))
    else if (name === 'fields') fields.push(...splitList(value).map(parsePath))
    else if (PAGING.has(name)) {
      if (paging.has(name)) throw new Refusal('Invalid', `The parameter ${name} must be given once.`)
      paging.set(name, value)
    } else if (!WITHOUT_FILTERS.has(name)) {
      const values = filters.get(name)
      if (values) values.push(value)
      else filters.set(name, [value])
    }
  }
  sort.push(...jsonServerSort(parameters))
  if (sort.length > MAX_SORT_FIELDS) throw new Refusal('Invalid', `At most ${MAX_SORT_FIELDS} fields can be sorted by.`)
  // A field sorts once: what is equal by it the first time is equal by it again.
  const order = sort
    .filter(({ path }, index) => sort.findIndex((other) => isSame(other.path, path)) === index)
    .map((one) => (isEventTime(one.path, context) ? { ...one, isTime: true } : one))
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
  const where = whereOf(parameters)
  const asked = where ? [conditionsOf(where, context)] : []
  const conditions = {
    filters: [
      ...Array.from(filters, ([name, values]) => parseFilter(name, values, context)),
      ...asked.flatMap((one) => one.filters),
    ],
    others: [...(mentioned.length > 0 ? [{ mentions: mentioned }] : []), ...asked.flatMap((one) => one.others)],
  }
  checkWork(conditions)
  return {
    ...(parameters.some(({ name, value }) => `${name} ${value}`.includes(RECEIVED)) && { namesReceived: true }),
    grouping,
    ...conditions,
    sort: order,
    page: parsePage(paging, limits.pageSize, grouping ? limits.pageSize : DEFAULT_PAGE_SIZE),
    fields: fields.length > 0 ? selectionOf(fields) : undefined,
    selected: fields,
    relations,
  }
}

/** Selects the moment, not the items. */
export const AS_OF = 'asOf'

/** Requests the whole result instead of a page. */
export const ALL = 'all'

/** The parameters of a list that are not filters of a field, for the parser and for OpenAPI. */
export const LIST_PARAMETERS = {
  q: { description: 'Text that occurs in any value of the item, ignoring case.', schema: TEXT },
  sort: {
    description:
      '`<field>_asc`, `<field>_desc`, `<field>`, `+<field>` or `-<field>`. Items without the field come last.',
    schema: TEXT_LIST,
  },
  ...PAGE_PARAMETERS,
  [ALL]: {
    description: '`true`: of GET the whole result as a stream, instead of a page; of DELETE the whole collection.',
    schema: FLAG,
  },
  fields: { description: 'Only these fields of each item; dotted paths keep their nesting.', schema: TEXT_LIST },
  ...RELATION_PARAMETERS,
  ...GROUPING_PARAMETERS,
  [AS_OF]: {
    description:
      'The state right after the event at this position, or after the last event up to this ISO 8601 instant. Positions beyond the last one and future instants are refused.',
    schema: TEXT,
  },
} as const satisfies Readonly<Record<string, ParameterDescription>>

/** Parameters that do not filter items; use `<name>_eq` for fields with such names. */
export const WITHOUT_FILTERS: ReadonlySet<string> = new Set([
  ...Object.keys(LIST_PARAMETERS).filter((name) => name !== 'q'),
  ...PAGING,
  ...JSON_SERVER_PARAMETERS,
  ...IGNORED,
])

/** Characters that URIs must not contain although Node accepts them; links must escape them. */
const FORBIDDEN = /["<>[\\\]^`{|}]/g

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
      ? { raw, name: parameterName(decode(raw)), value: '' }
      : { raw, name: parameterName(decode(raw.slice(0, equals))), value: decode(raw.slice(equals + 1)) }
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

/** Highest number of filters, in total and of one field: each may visit all values of an item. */
const MAX_FILTERS = 32
const MAX_FIELD_FILTERS = 4
/** Highest number of texts that are searched in all values: one takes up to 7 ms in an item of 1 MiB. */
const MAX_SEARCHED = 4
/** Highest length of such a text, in UTF-16 units. V8 needs linear time for at most 250. */
const MAX_SEARCHED_UNITS = 200
/** Highest number of texts that others are to begin or end with. */
const MAX_ENDS = 10
const SEARCHES: ReadonlySet<Operator> = new Set(['contains', 'like'])
const ENDS: ReadonlySet<Operator> = new Set(['startswith', 'endswith', 'istartswith', 'iendswith'])

/** All filters and searched texts of conditions, with those of the alternatives in them. */
function partsOf({ filters, others }: Conditions): { filters: readonly Filter[]; mentioned: readonly string[] } {
  const parts = others.map((other) =>
    'mentions' in other ? [{ filters: [], mentioned: other.mentions }] : other.anyOf.map(partsOf),
  )
  const inner = parts.flat()
  return {
    filters: [...filters, ...inner.flatMap((part) => part.filters)],
    mentioned: inner.flatMap((part) => part.mentioned),
  }
}

/** Refuses conditions that take too long to check for one item, which is not interrupted. */
function checkWork(conditions: Conditions): void {
  const { filters, mentioned } = partsOf(conditions)
  checkCount('filters', filters.length, MAX_FILTERS)
  const ofFields = new Map<string, number>()
  for (const { path } of filters) {
    const field = formatPath(path)
    ofFields.set(field, (ofFields.get(field) ?? 0) + 1)
    checkCount(`filters of the field ${field}`, ofFields.get(field) as number, MAX_FIELD_FILTERS)
  }
  const textsOf = (operators: ReadonlySet<Operator>) =>
    filters.flatMap(({ operator, operands }) => (operators.has(operator) ? operands.map(({ text }) => text) : []))
  const searched = [...mentioned, ...textsOf(SEARCHES)]
  checkCount('texts to search for (q, contains, like)', searched.length, MAX_SEARCHED)
  for (const text of searched) checkCount('characters in a text to search for', text.length, MAX_SEARCHED_UNITS)
  checkCount('texts to begin or end with', textsOf(ENDS).length, MAX_ENDS)
}

function checkCount(what: string, count: number, most: number): void {
  if (count > most) throw new Refusal('Invalid', `The query has ${count} ${what}; at most ${most} are accepted.`)
}

/** Whether a field is an event time. The time of receipt is one, too. */
function isEventTime(path: Path, { time }: QueryContext): boolean {
  return isReceived(path) || (time !== undefined && formatPath(path) === formatPath(time))
}

/** The conditions of the parameter `_where`. */
function conditionsOf({ comparisons, alternatives }: Where, context: QueryContext): Conditions {
  return {
    filters: comparisons.map(({ path, operator, values }) => filterAt(path, operator, values, context)),
    others: alternatives.map((anyOf) => ({ anyOf: anyOf.map((one) => conditionsOf(one, context)) })),
  }
}

/** The filter of a parameter. */
function parseFilter(name: string, values: readonly string[], context: QueryContext): Filter {
  const { field, operator } = colonOperator(name) ?? suffixOperator(name)
  if (operator === 'exists' && values.some((value) => value !== 'true' && value !== 'false')) {
    throw new Refusal('Invalid', `The parameter ${name} must be true or false.`)
  }
  return filterAt(parsePath(field), operator, values, context)
}

/** Times relative to now become instants if the path is that of event times. */
function filterAt(path: Path, operator: Operator, values: readonly string[], context: QueryContext): Filter {
  const isTime = isEventTime(path, context)
  const isRange = RANGES.includes(operator)
  if (!isTime && isRange && values.some((value) => LIKE_RELATIVE.test(value))) throw noEventTime(formatPath(path))
  const comparesTimes = isTime && (operator === 'in' || isComparison(operator))
  if (!comparesTimes) return filterOf(path, operator, values, isTime)
  const texts = operator === 'in' ? values.flatMap((value) => value.split(',')) : values
  const wanted = texts.map((text) => resolvedTime(text, context.now, isRange))
  return filterOf(path, operator, wanted, true)
}

/** Compared as text, nearly all times are less than `now-30d`, and none is greater. */
function noEventTime(field: string): Refusal {
  return new Refusal(
    'Invalid',
    `The field ${field} is compared with a time relative to now, but is not the event time of the collection, which the setting Collections.<name>.Time names.`,
  )
}

/** Only the names of operators are suffixes: `data.acceleration_x` is a field. */
function suffixOperator(name: string): { readonly field: string; readonly operator: Operator } {
  const underscore = name.lastIndexOf('_')
  const suffix = name.slice(underscore + 1)
  const operator = underscore > 0 ? OPERATORS.find((known) => known === suffix) : undefined
  return operator ? { field: name.slice(0, underscore), operator } : { field: name, operator: 'eq' }
}

/** Resolves a time relative to now, and returns any other text as it is. A bound of a range must be a time. */
function resolvedTime(text: string, now: number | undefined, isRange: boolean): string {
  const [match, sign, count = '0', unit = 's'] = RELATIVE.exec(text) ?? []
  if (match === undefined) {
    // A year would be read as seconds since 1970, so that `timestamp_gte=2026` would match everything.
    const isTime = readEventTime(text) !== undefined && !/^(?:19|20)\d\d$/.test(text)
    if (!LIKE_RELATIVE.test(text) && (!isRange || isTime)) return text
    throw new Refusal(
      'Invalid',
      `A time must be ISO 8601, for example 2026-01-31 or 2026-01-31T09:30:00Z, seconds, milliseconds or microseconds since 1970, or relative to now, for example now-24h, with s, m, h, d or w; not ${JSON.stringify(text)}.`,
    )
  }
  if (now === undefined) {
    const why = 'an item would leave the list without a change. Subscribe to all times, and leave out what is too old'
    throw new Refusal('Invalid', `A subscription takes no time relative to now, as ${why}.`)
  }
  const ms = now + (sign === '-' ? -1 : 1) * Number(count) * UNIT_MS[unit as keyof typeof UNIT_MS]
  if (Math.abs(ms) > MOST_MS) throw new Refusal('Invalid', `The instant ${text} is out of range.`)
  return new Date(ms).toISOString()
}

/** `now`, `now-24h`, `now+15m`; a plus sign may have become a space. */
const RELATIVE = /^now(?:([-+ ])(\d{1,9})([smhdw]))?$/

/** Also of malformed ones, such as `now-1y`. */
const LIKE_RELATIVE = /^now(?:[-+ ]|$)/

/** Covers the years 0 to 9999. */
const MOST_MS = 62_000_000_000_000

/** Whether any of the parameters may contain a time relative to now. */
export function mayBeRelative(parameters: readonly Pick<Parameter, 'value'>[]): boolean {
  return parameters.some(({ value }) => LIKE_RELATIVE.test(value))
}
