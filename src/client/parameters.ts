import { problem } from './problem.ts'

export type FilterValue = string | number | boolean | null | Date

/**
 * A field of an item, or a dotted path into it, also through arrays. A dot or comma in a name is escaped by a
 * backslash.
 * `$received` is the time at which the server received the item's last event.
 */
export type Field<T> = Paths<T>[0] | '$received'

/** The paths of an item, each with the type of its value. */
type Paths<T> = PathsTo<T, Levels>

/** The type of the value at a path of an item; unknown where the type of the item does not say it. */
export type ValueAt<T, Path extends string> =
  Extract<Paths<T>, readonly [Path, unknown]> extends readonly [string, infer V] ? V : unknown

/** One element for each level of a path that is type-checked. Deeper levels accept any text. */
type Levels = [1, 1, 1, 1, 1]

type Untyped = readonly [path: string, value: unknown]

type PathsTo<T, Left extends readonly unknown[]> = string extends keyof T
  ? Untyped
  : Left extends readonly [unknown, ...infer Fewer]
    ? {
        [K in keyof T & string]-?: readonly [path: Escaped<K>, value: T[K]] | Prefixed<Escaped<K>, Below<T[K], Fewer>>
      }[keyof T & string]
    : Untyped

/** The paths behind a field of type V and a dot: any text if V is unknown. */
type Below<V, Left extends readonly unknown[]> = unknown extends V
  ? Untyped
  : V extends readonly (infer Element)[]
    ? Below<Element, Left>
    : V extends object
      ? PathsTo<V, Left>
      : never

type Prefixed<Name extends string, Path> = Path extends readonly [infer Rest extends string, infer V]
  ? readonly [path: `${Name}.${Rest}`, value: string extends Rest ? unknown : V]
  : never

type Escaped<Name extends string> = Name extends `${infer Before}${'.' | ','}${infer After}`
  ? Name extends `${Before}.${After}`
    ? `${Before}\\.${Escaped<After>}`
    : `${Before}\\,${Escaped<After>}`
  : Name

/** The values that a field of type V may be compared with; an array is compared by its elements. */
type Compared<V> = unknown extends V
  ? FilterValue
  : V extends readonly (infer Element)[]
    ? Compared<Element>
    : V extends string
      ? V | Date
      : V extends number | boolean
        ? V
        : never

type TextOperator = 'contains' | 'startswith' | 'endswith' | 'like' | 'istartswith' | 'iendswith'

type OneOrMore<V> = V | readonly V[] | undefined

/** Paths of an item, and the time at which the server received its last event. */
type Filterable<T> = Paths<T> | readonly [path: '$received', value: string]

/** Filters by field, or by `<field>_<operator>`. Of several values any may match; for `ne`, none may. */
export type Where<T> =
  string extends Field<T>
    ? { readonly [name: string]: OneOrMore<FilterValue> }
    : {
        readonly [P in Filterable<T> as P[0] | `${P[0]}_${'eq' | 'ne'}`]?: OneOrMore<Compared<P[1]> | null>
      } & {
        readonly [P in Filterable<T> as `${P[0]}_${'gt' | 'gte' | 'lt' | 'lte'}`]?: OneOrMore<Compared<P[1]>>
      } & {
        /** Text may be a list of values with commas between them. */
        readonly [P in Filterable<T> as `${P[0]}_in`]?: OneOrMore<Compared<P[1]> | string | null>
      } & {
        readonly [P in Filterable<T> as `${P[0]}_${TextOperator}`]?: OneOrMore<string>
      } & {
        readonly [P in Filterable<T> as `${P[0]}_exists`]?: OneOrMore<boolean>
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
  '_',
  '_dc',
  '_t',
]

/** The names that a server understands as json-server's parameters and operators, or as values of an array (`a[]`, `a[0]`). */
const UNDERSTOOD =
  /^_(sort|order|page|per_page|limit|start|end|embed|expand|dependent)$|.:(eq|ne|gte?|lte?|in|contains|startsWith|endsWith)$|.\[\d*\]$/

export function filterParameters(where: Readonly<Record<string, unknown>>): readonly (readonly [string, string])[] {
  return Object.entries(where).flatMap(([name, value]) => {
    const parameter = RESERVED.includes(name) || UNDERSTOOD.test(name) ? `${name}_eq` : name
    const values = ((Array.isArray(value) ? value : [value]) as readonly unknown[]).filter((one) => one !== undefined)
    // The server knows no filter that nothing matches; without the filter, everything would match.
    if (Array.isArray(value) && values.length === 0 && !name.endsWith('_ne')) {
      throw new TypeError(`No item matches ${name}: [].`)
    }
    return values.map((one) => [parameter, valueText(one)] as const)
  })
}

function valueText(value: unknown): string {
  if (value instanceof Date) return value.toISOString()
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

/** A position or an instant. */
export type Moment = number | string | Date

export function momentText(at: Moment): string {
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
