import { type Path, valuesAt } from '../../json/paths.ts'
import { isArray, isObject, type JsonValue } from '../../json/value.ts'

export type Scalar = null | boolean | number | string

/** A text that is an instant, or an event time, known by its order key: its spelling is only in the item. */
export class Unspelled {
  /** Its order key. */
  readonly key: string
  readonly place: number

  constructor(key: string, place: number) {
    this.key = key
    this.place = place
  }
}

/** The scalars at a path, including those in arrays. */
export function scalarsAt(item: JsonValue, path: Path): readonly Scalar[] {
  return valuesAt(item, path).filter(isScalar)
}

/** The first scalar at a path; null if there is none. */
export function firstScalar(item: JsonValue, path: Path): Scalar {
  return valuesAt(item, path).find(isScalar) ?? null
}

function isScalar(value: JsonValue): value is Scalar {
  return !isArray(value) && !isObject(value)
}
