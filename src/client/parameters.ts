import { problem } from './problem.ts'

export type FilterValue = string | number | boolean | null | Date

type Operator = 'eq' | 'ne' | 'gt' | 'gte' | 'lt' | 'lte' | 'in' | 'contains' | 'startswith' | 'endswith' | 'exists'

/**
 * A field of an item, or a dotted path into it, also through arrays. A dot or comma in a name is escaped by a
 * backslash.
 */
export type Field<T> = Paths<T, Levels> & string

/** One element for each level of a path that is type-checked. Deeper levels accept any text. */
type Levels = [1, 1, 1, 1, 1]

type Paths<T, Left extends readonly unknown[]> = string extends keyof T
  ? string
  : Left extends readonly [unknown, ...infer Fewer]
    ? { [K in keyof T & string]-?: Escaped<K> | `${Escaped<K>}.${Below<T[K], Fewer>}` }[keyof T & string]
    : string

/** The rest of a path behind a field of type V and a dot: any text if V is unknown. */
type Below<V, Left extends readonly unknown[]> = unknown extends V
  ? string
  : V extends readonly (infer Element)[]
    ? Below<Element, Left>
    : V extends object
      ? Paths<V, Left>
      : never

type Escaped<Name extends string> = Name extends `${infer Before}${'.' | ','}${infer After}`
  ? Name extends `${Before}.${After}`
    ? `${Before}\\.${Escaped<After>}`
    : `${Before}\\,${Escaped<After>}`
  : Name

/** Filters by field, or by `<field>_<operator>`. Of several values any may match; for `ne`, none may. */
export type Where<T> = {
  readonly [name in Field<T> | `${Field<T>}_${Operator}`]?: FilterValue | readonly FilterValue[] | undefined
}

/** Query parameters that are not filters: a field with such a name is sent with `_eq`. */
const RESERVED = [
  'q',
  'sort',
  'fields',
  'asOf',
  'page',
  'pageSize',
  'per_page',
  'skip',
  'take',
  'offset',
  'limit',
  'aggregate',
  'groupBy',
  'window',
  'tz',
  'fill',
  'distinct',
  'newestBy',
  'all',
  'dryRun',
]

export function filtersOf(where: Readonly<Record<string, unknown>>): readonly (readonly [string, string])[] {
  return Object.entries(where).flatMap(([name, value]) => {
    const asked = RESERVED.includes(name) ? `${name}_eq` : name
    const values = (Array.isArray(value) ? value : [value]) as readonly unknown[]
    return values.filter((one) => one !== undefined).map((one) => [asked, textOf(one)] as const)
  })
}

function textOf(value: unknown): string {
  if (value instanceof Date) return value.toISOString()
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

/** A position or an instant. */
export type Moment = number | string | Date

export function momentOf(at: Moment): string {
  return at instanceof Date ? at.toISOString() : String(at)
}

/** The server's limit, with some room: it would close the connection for longer messages. */
const SUBSCRIPTION_BYTES = 14 * 1024

/** The filters of a query as `subscribe` accepts them. */
export function subscriptionQuery(filters: URLSearchParams): string {
  const text = filters.toString()
  if (text.length <= SUBSCRIPTION_BYTES) return text
  throw problem('Invalid', 400, `The filters are longer than ${SUBSCRIPTION_BYTES} bytes.`)
}
