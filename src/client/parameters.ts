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

/** Names that the server understands as something else than a field: a field of such a name is sent with `_eq`. */
const RESERVED = [
  /^(q|sort|fields|asOf|page|pageSize|per_page|skip|take|offset|limit|all|dryRun)$/,
  /^(aggregate|groupBy|window|tz|fill|distinct|newestBy)$/,
  // Parameters and operators of json-server, and what clients add against caches.
  /^(callback|_(|dc|t|delay|sort|order|page|per_page|limit|start|end|embed|expand|dependent|where))$/,
  /.:(eq|ne|gte?|lte?|in|contains|startsWith|endsWith)$/,
  // The values of an array: `a[]`, `a[0]`.
  /.\[\d*\]$/,
]

/** Names and values of filters. A value that is undefined does not filter. */
export type Filters = readonly (readonly [name: string, value: string | undefined])[]

export function filtersOf(where: Readonly<Record<string, unknown>>): Filters {
  return Object.entries(where).flatMap(([name, value]): Filters => {
    const parameter = RESERVED.some((pattern) => pattern.test(name)) ? `${name}_eq` : name
    if (!Array.isArray(value)) return [[parameter, textOf(value)]]
    const values = value.filter((one) => one !== undefined)
    // The server knows no filter that nothing matches; without the filter, everything would match.
    if (values.length === 0 && !name.endsWith('_ne')) throw new TypeError(`No item matches ${name}: [].`)
    return values.map((one) => [parameter, textOf(one)])
  })
}

/** A position or an instant. */
export type Moment = number | string | Date

/** A list becomes a text with commas. Throws a `RangeError` for an invalid `Date`. */
export function textOf(value: unknown): string | undefined {
  if (value === undefined) return undefined
  return value instanceof Date ? value.toISOString() : String(value)
}

/** The query of an address: filters, then the other parameters that are neither undefined nor an empty list. */
export function queryOf(others: object, filters: Filters = []): string {
  const parameters = new URLSearchParams()
  for (const [name, value] of [...filters, ...Object.entries(others)]) {
    const text = Array.isArray(value) && value.length === 0 ? undefined : textOf(value)
    if (text !== undefined) parameters.append(name, text)
  }
  return String(parameters)
}

/** The same behind a question mark, or nothing. */
export function searchOf(others: object, filters?: Filters): string {
  const query = queryOf(others, filters)
  return query === '' ? '' : `?${query}`
}
