import type { JsonObject, JsonValue } from '../json/value.ts'
import type { Field } from './parameters.ts'

/** A column of an aggregate: `count`, or a function of a field; with ` as ` and a name, of that name. */
export type Aggregate<T> = Column<T> | `${Column<T>} as ${string}`

type Column<T> = 'count' | `${NumberFunction | 'min' | 'max' | 'first' | 'last' | 'count'}(${Field<T>})`

/** Functions that give a number, or null without numbers. */
type NumberFunction = 'avg' | 'sum' | 'stddev' | 'delta' | `p${number}`

/** One row: its columns, the fields that it is grouped by, and `window`. */
export type AggregateRow<Name extends string> = JsonObject & {
  readonly [Requested in Name as NameOf<Requested>]: ValueOf<Requested>
}

type NameOf<Requested extends string> = Requested extends `${string} as ${infer Alias}` ? Alias : Requested

type ValueOf<Requested extends string> = Requested extends 'count' | `count(${string}` | `count as ${string}`
  ? number
  : Requested extends `${NumberFunction}(${string}`
    ? number | null
    : JsonValue

export interface AggregateOptions<T> {
  readonly groupBy?: readonly Field<T>[]
  /** Such as `15m`, `1h`, `1d`, `1mo` or `1y`. */
  readonly window?: string
  /** The time zone of the windows, such as `Europe/Helsinki` or `+02:00`. */
  readonly tz?: string
  readonly fill?: 'none' | 'null' | 'previous'
  readonly signal?: AbortSignal
}
