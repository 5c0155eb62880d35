import { isArray, isObject, type JsonValue, own } from './value.ts'

/** A JSON Pointer (RFC 6901) from its unescaped tokens. */
export function pointer(tokens: readonly (string | number)[]): string {
  return tokens.map((token) => `/${String(token).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
}

/** Parses an array index without sign and leading zeros. */
export function arrayIndex(token: string): number | undefined {
  return /^(0|[1-9]\d{0,9})$/.test(token) ? Number(token) : undefined
}

/**
 * The nested value that the remaining segments of a URL name. In an array whose elements have ids a segment is an id,
 * otherwise an index.
 */
export function valueAt(value: JsonValue, segments: readonly string[], idField: string): JsonValue | undefined {
  return pathTo(value, segments, idField)?.value
}

/** The same with the tokens that lead to it, those of array elements being indexes, and whether it is such an element. */
export function pathTo(
  value: JsonValue,
  segments: readonly string[],
  idField: string,
): { readonly value: JsonValue; readonly path: readonly string[]; readonly isElement: boolean } | undefined {
  let current: JsonValue | undefined = value
  let isElement = false
  const path: string[] = []
  for (const segment of segments) {
    isElement = isArray(current)
    const token: string = isArray(current) ? String(indexOf(current, segment, idField)) : segment
    if (isArray(current)) current = current[Number(token)]
    else if (isObject(current)) current = own(current, token)
    else return undefined
    path.push(token)
  }
  return current === undefined ? undefined : { value: current, path, isElement }
}

/** An index is only for an array in which no element has an id: it would name another element after a change of the order. */
function indexOf(array: readonly JsonValue[], segment: string, idField: string): number | undefined {
  let hasIds = false
  for (let index = 0; index < array.length; index++) {
    const element = array[index] as JsonValue
    const id = isObject(element) ? own(element, idField) : undefined
    if (typeof id !== 'string' && typeof id !== 'number') continue
    if (String(id) === segment) return index
    hasIds = true
  }
  return hasIds ? undefined : arrayIndex(segment)
}
