import { type Path, valuesAt } from '../../../json/paths.ts'
import { isArray, isObject, type JsonValue } from '../../../json/value.ts'

/** A value that is no array and no object. */
export type Scalar = null | boolean | number | string

/** The scalars that a path leads to, also in arrays. From time to time it yields undefined, so that its caller can pause. */
export function* scalarsAt(item: JsonValue, path: Path): Generator<Scalar | undefined, void> {
  for (const value of valuesAt(item, path)) if (value === undefined || isScalar(value)) yield value
}

/** The first of them; null if there is none. */
export function firstScalar(item: JsonValue, path: Path): Scalar {
  for (const value of valuesAt(item, path)) if (value !== undefined && isScalar(value)) return value
  return null
}

function isScalar(value: JsonValue): value is Scalar {
  return !isArray(value) && !isObject(value)
}
