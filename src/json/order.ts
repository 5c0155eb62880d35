import { AFTER_INSTANTS, orderKey, timeKeyAt } from './order-key.ts'
import { firstAt, type Path, parsePath } from './paths.ts'
import type { JsonValue } from './value.ts'

/** Sorts by the value at a path. Items without a value come last in both directions. */
export interface Sort {
  readonly path: Path
  readonly descending: boolean
  /** The values are event times. */
  readonly isTime?: boolean
}

/** Parses `field_asc`, `field_desc`, `-field`, `+field` or `field`. The plus sign may arrive as a space. */
export function parseSort(text: string): Sort {
  const sign = text[0]
  if (sign === '-') return { path: parsePath(text.slice(1)), descending: true }
  const name = sign === '+' || sign === ' ' ? text.slice(1) : text
  const [, field = name, direction] = /^(.+)_(asc|desc)$/s.exec(name) ?? []
  return { path: parsePath(field), descending: direction === 'desc' }
}

/** The order key of a missing value, above those of all values. */
export const MISSING = '\x08'

/** Keys from this one on come last in both directions: of no value, or of an event time that is no instant. */
export function lastFrom({ isTime }: Sort): string {
  return isTime ? AFTER_INSTANTS : MISSING
}

/** For each sort, the order key of the first value at its path; a key longer than `most` may be cut. */
export function sortKeys(item: JsonValue, sort: readonly Sort[], most?: number): readonly string[] {
  return sort.map(({ path, isTime }) => {
    if (isTime) return timeKeyAt(item, path, most) ?? MISSING
    const value = firstAt(item, path)
    return value === undefined ? MISSING : orderKey(value, most)
  })
}

/** Compares the keys of two items by the sorts. Keys behind those of the sorts are ascending. */
export function comparingKeys(sort: readonly Sort[]): (a: readonly string[], b: readonly string[]) => number {
  const last = sort.map(lastFrom)
  return (a, b) => {
    for (let index = 0; index < a.length; index++) {
      const left = a[index] as string
      const right = b[index] as string
      if (left === right) continue
      const order = left < right ? -1 : 1
      const isReversed = sort[index]?.descending && left < (last[index] as string) && right < (last[index] as string)
      return isReversed ? -order : order
    }
    return 0
  }
}
