import type { JsonObject, JsonValue } from '../json/value.ts'
import type { Field } from './parameters.ts'

/** A column of an aggregate: `count`, or a function of a field. */
export type Aggregate<T> = 'count' | `${'avg' | 'sum' | 'min' | 'max' | 'first' | 'last' | `p${number}`}(${Field<T>})`

/** One row: its columns, the fields that it is grouped by, and `window`. */
export type AggregateRow<Name extends string> = JsonObject & {
  readonly [Column in Name]: Column extends 'count'
    ? number
    : Column extends `${'avg' | 'sum' | `p${number}`}(${string})`
      ? number | null
      : JsonValue
}

export interface AggregateOptions<T> {
  readonly groupBy?: readonly Field<T>[]
  /** Such as `15m`, `1h` or `1d`. */
  readonly window?: string
  /** The time zone of the windows. */
  readonly tz?: string
  readonly fill?: 'none' | 'null' | 'previous'
  readonly signal?: AbortSignal
}
