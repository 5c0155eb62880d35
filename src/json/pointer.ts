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
 * The nested value that the remaining segments of a URL name. In an array a segment selects the element with that `id`,
 * or else the one at that index.
 */
export function valueAt(value: JsonValue, segments: readonly string[]): JsonValue | undefined {
  let current: JsonValue | undefined = value
  for (const segment of segments) {
    if (isArray(current)) current = elementOf(current, segment)
    else if (isObject(current)) current = own(current, segment)
    else return undefined
  }
  return current
}

function elementOf(array: readonly JsonValue[], segment: string): JsonValue | undefined {
  const named = array.find((element) => {
    const id = isObject(element) ? own(element, 'id') : undefined
    return (typeof id === 'string' || typeof id === 'number') && String(id) === segment
  })
  if (named !== undefined) return named
  const index = arrayIndex(segment)
  return index === undefined ? undefined : array[index]
}
