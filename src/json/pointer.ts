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
 * The nested value that the remaining segments of a URL name. In an array a segment selects the element with that id,
 * or else the one at that index.
 */
export function valueAt(value: JsonValue, segments: readonly string[], idField: string): JsonValue | undefined {
  return pathTo(value, segments, idField)?.value
}

/** The same with the tokens that lead to it: those of array elements are indexes. */
export function pathTo(
  value: JsonValue,
  segments: readonly string[],
  idField: string,
): { readonly value: JsonValue; readonly path: readonly string[] } | undefined {
  let current: JsonValue | undefined = value
  const path: string[] = []
  for (const segment of segments) {
    const token: string = isArray(current) ? String(indexOf(current, segment, idField)) : segment
    if (isArray(current)) current = current[Number(token)]
    else if (isObject(current)) current = own(current, token)
    else return undefined
    path.push(token)
  }
  return current === undefined ? undefined : { value: current, path }
}

function indexOf(array: readonly JsonValue[], segment: string, idField: string): number | undefined {
  const named = array.findIndex((element) => {
    const id = isObject(element) ? own(element, idField) : undefined
    return (typeof id === 'string' || typeof id === 'number') && String(id) === segment
  })
  return named >= 0 ? named : arrayIndex(segment)
}
