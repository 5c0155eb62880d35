/** json-server's parameters in terms of ours (docs/migrate-from-json-server.md). No other module knows their names. */

import type { Sort } from '../json/order.ts'
import { parseText, violationOf } from '../json/parse.ts'
import { formatPath, type Path, parsePath, splitList } from '../json/paths.ts'
import { mostSimilar } from '../json/similar.ts'
import { isArray, isObject, type JsonValue } from '../json/value.ts'
import { Refusal } from '../runtime/errors.ts'
import type { Operator } from './filter.ts'
import { type Family, type Parameter, type ParameterDescription, TEXT_LIST } from './parameter.ts'

/** Other items that are shown inside the items of a query. */
export interface Relation {
  readonly parameter: RelationParameter
  /** The name of a collection or, for its one item, the singular of one. */
  readonly name: string
}

/** Items of a page without a given size, as in json-server 0.17 and 1.0. */
const PAGE_SIZE = 10

/** In the order in which they are tried: `_page` alone is 1.0's, `_limit` alone counts items. */
export const JSON_SERVER_FAMILIES: readonly Family[] = [
  { start: '_page', size: '_per_page', pages: true, initial: PAGE_SIZE },
  { start: '_start', size: '_limit', pages: false },
  { start: '_start', size: '_end', pages: false, isEnd: true },
  { start: '_page', size: '_limit', pages: true, initial: PAGE_SIZE },
]

const SORT = '_sort'
const ORDER = '_order'
export const DEPENDENT = '_dependent'

/** The parameters of GET that show related items. */
export const RELATION_PARAMETERS = {
  _embed: {
    description:
      'Shows in each item the items of these collections that refer to it by `<singular>Id`; or, of a singular, the item that it refers to.',
    schema: TEXT_LIST,
  },
  _expand: {
    description: 'Shows in each item the one that it refers to by `<name>Id`: `_expand=post` by `postId`.',
    schema: TEXT_LIST,
  },
} as const satisfies Readonly<Record<string, ParameterDescription>>

type RelationParameter = keyof typeof RELATION_PARAMETERS

export const EMBEDDING = Object.keys(RELATION_PARAMETERS) as readonly RelationParameter[]

/** The parameters of DELETE of an item. */
export const DEPENDENT_PARAMETERS = {
  [DEPENDENT]: {
    description:
      'Also deletes the items of these collections that refer to the item by `<singular>Id`, in the same write.',
    schema: TEXT_LIST,
  },
} as const satisfies Readonly<Record<string, ParameterDescription>>

const WHERE = '_where'

/** The parameters that are no filters, besides those that count pages and show related items. */
export const JSON_SERVER_PARAMETERS: readonly string[] = [SORT, ORDER, DEPENDENT, WHERE]

const MOST_RELATIONS = 8

/** The operators of json-server 1.0, which follow a colon. Its three for text ignore case. */
const OPERATORS: ReadonlyMap<string, Operator> = new Map<string, Operator>([
  ['eq', 'eq'],
  ['ne', 'ne'],
  ['gt', 'gt'],
  ['gte', 'gte'],
  ['lt', 'lt'],
  ['lte', 'lte'],
  ['in', 'in'],
  ['contains', 'like'],
  ['startsWith', 'istartswith'],
  ['endsWith', 'iendswith'],
])

/** The conditions of `_where`, all of which must be met: comparisons, and alternatives of which one must be met each. */
export interface Where {
  readonly comparisons: readonly Comparison[]
  readonly alternatives: readonly (readonly Where[])[]
}

interface Comparison {
  readonly path: Path
  readonly operator: Operator
  /** Any of them. */
  readonly values: readonly string[]
}

/**
 * The parameters of a read that json-server itself acts on. It takes those without a value for absent, and a page below the
 * first for the first; `callback` is for JSONP.
 */
export function effectiveParameters(parameters: readonly Parameter[]): readonly Parameter[] {
  const valued = parameters.filter(({ name, value }) => value !== '' || !Object.hasOwn(INSTEAD, name))
  const has = (wanted: string): boolean => valued.some(({ name }) => name === wanted)
  const isIgnored = ({ name, value }: Parameter): boolean =>
    name === 'callback' ||
    (name === WHERE && value === '{}') ||
    (name === ORDER && !has(SORT)) ||
    (name === '_limit' && has('_end'))
  return valued
    .filter((parameter) => !isIgnored(parameter))
    .map((parameter) =>
      parameter.name === '_page' && Number(parameter.value) < 1 ? { ...parameter, value: '1' } : parameter,
    )
}

/** The conditions of `_where={"views":{"gt":100},"or":[{"author":{"name":{"eq":"ada"}}}]}` of 1.0; undefined without it. */
export function whereOf(parameters: readonly Parameter[]): Where | undefined {
  const [sent, ...more] = parameters.filter(({ name }) => name === WHERE)
  if (!sent) return undefined
  if (more.length > 0) throw new Refusal('Invalid', `The parameter ${WHERE} must be given once.`)
  let value: JsonValue
  try {
    value = parseText(sent.value)
  } catch {
    throw wrongWhere('is not well-formed JSON')
  }
  const violation = violationOf(value)
  if (violation) throw wrongWhere(`is refused: ${violation.message}`)
  return whereAt(value, [])
}

/** The conditions for what is at a path. */
function whereAt(value: JsonValue, path: Path): Where {
  const where = { comparisons: [] as Comparison[], alternatives: [] as (readonly Where[])[] }
  for (const [name, inner] of Object.entries(isObject(value) ? value : {}) as [string, JsonValue][]) {
    const operator = OPERATORS.get(name)
    if (name === 'or' && isArray(inner)) where.alternatives.push(inner.map((one) => whereAt(one, path)))
    else if (operator && path.length > 0) where.comparisons.push({ path, operator, values: textsOf(operator, inner) })
    else {
      const deeper = whereAt(inner, [...path, name])
      where.comparisons.push(...deeper.comparisons)
      where.alternatives.push(...deeper.alternatives)
    }
  }
  if (where.comparisons.length + where.alternatives.length > 0) return where
  const at = path.length === 0 ? '' : ` at ${formatPath(path)}`
  throw wrongWhere(`has no condition${at}, such as {"eq": 1}; there are ${[...OPERATORS.keys()].join(', ')} and or`)
}

function textsOf(operator: Operator, value: JsonValue): readonly string[] {
  const values = operator === 'in' && isArray(value) ? value : [value]
  return values.map((one) => (typeof one === 'string' ? one : JSON.stringify(one)))
}

function wrongWhere(why: string): Refusal {
  return new Refusal(
    'Invalid',
    `The parameter ${WHERE} ${why}. An example: {"views":{"gt":100},"or":[{"id":{"eq":1}}]}.`,
  )
}

/** The field and the operator of `views:gt`; undefined without a known operator after a colon. */
export function colonOperator(name: string): { readonly field: string; readonly operator: Operator } | undefined {
  const colon = name.lastIndexOf(':')
  const operator = colon > 0 ? OPERATORS.get(name.slice(colon + 1)) : undefined
  return operator && { field: name.slice(0, colon), operator }
}

/** `_sort=-views,title` as 1.0 has it, or `_sort=views,title&_order=desc,asc` as 0.17 does. */
export function jsonServerSort(parameters: readonly Parameter[]): readonly Sort[] {
  const fields = valuesOf(parameters, SORT)
  const orders = valuesOf(parameters, ORDER)
  if (orders.length > fields.length) {
    throw new Refusal('Invalid', `The parameter ${ORDER} has ${orders.length} orders for ${fields.length} of ${SORT}.`)
  }
  return fields.map((field, index) => {
    const order = orders[index]?.toLowerCase()
    if (order !== undefined && order !== 'asc' && order !== 'desc') {
      throw new Refusal('Invalid', `The parameter ${ORDER} is a list of asc and desc, not ${JSON.stringify(order)}.`)
    }
    const isMinus = field.startsWith('-')
    if (isMinus && order !== undefined) {
      throw new Refusal('Invalid', `The order is given twice: by ${SORT}=${field} and by ${ORDER}=${order}.`)
    }
    return { path: parsePath(isMinus ? field.slice(1) : field), descending: isMinus || order === 'desc' }
  })
}

/** The relations requested by `_embed` and `_expand`, each once. */
export function relationsOf(parameters: readonly Parameter[]): readonly Relation[] {
  const relations = new Map<string, Relation>()
  for (const parameter of EMBEDDING) {
    for (const name of valuesOf(parameters, parameter)) relations.set(name, { parameter, name })
  }
  if (relations.size > MOST_RELATIONS) {
    throw new Refusal('Invalid', `At most ${MOST_RELATIONS} collections can be embedded, not ${relations.size}.`)
  }
  return [...relations.values()]
}

/** The collections that `_dependent` names. */
export function dependentsOf(parameters: readonly Parameter[]): readonly string[] {
  return [...new Set(valuesOf(parameters, DEPENDENT))]
}

/** The parameters of json-server's reads, each with an example. */
const INSTEAD: Readonly<Record<string, string>> = {
  _where: '_where={"views":{"gt":100}}',
  _sort: '_sort=-views or sort=-views',
  _order: '_sort=views&_order=desc or sort=-views',
  _page: '_page=2&_per_page=10 or page=2&pageSize=10',
  _per_page: '_page=2&_per_page=10 or page=2&pageSize=10',
  _limit: '_start=20&_limit=10 or skip=20&take=10',
  _start: '_start=20&_end=30 or skip=20&take=10',
  _end: '_start=20&_end=30 or skip=20&take=10',
  _embed: '_embed=comments',
  _expand: '_expand=post',
}

/** The likely meaning of a parameter that names no field: a misspelt one of json-server's. */
export function insteadOf(name: string): string | undefined {
  if (!name.startsWith('_')) return undefined
  const meant = Object.hasOwn(INSTEAD, name) ? name : mostSimilar(name, Object.keys(INSTEAD))
  return meant && INSTEAD[meant]
}

function valuesOf(parameters: readonly Parameter[], wanted: string): readonly string[] {
  return parameters.flatMap(({ name, value }) => (name === wanted ? splitList(value) : []))
}
