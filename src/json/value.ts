export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject
export interface JsonObject {
  readonly [name: string]: JsonValue
}

export function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function isArray(value: JsonValue | undefined): value is readonly JsonValue[] {
  return Array.isArray(value)
}

/** The value of an own property. Inherited properties are not part of the JSON. */
export function own(object: JsonObject, name: string): JsonValue | undefined {
  return Object.hasOwn(object, name) ? object[name] : undefined
}

/** Sets a member as `JSON.parse` does, also one named `__proto__`. */
export function put(object: Record<string, JsonValue>, name: string, value: JsonValue): void {
  if (name === '__proto__')
    Object.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true })
  else object[name] = value
}

/** Compares as JSON: the order of members is ignored (RFC 8259 §4), that of elements is not. */
export function equal(a: JsonValue | undefined, b: JsonValue | undefined): boolean {
  if (a === b) return true
  if (isArray(a)) {
    return isArray(b) && a.length === b.length && a.every((element, index) => equal(element, b[index]))
  }
  if (!isObject(a) || !isObject(b)) return false
  const names = Object.keys(a)
  if (names.length !== Object.keys(b).length) return false
  return names.every((name) => Object.hasOwn(b, name) && equal(a[name], b[name]))
}

const LONE_SURROGATE = /\p{Surrogate}/u

/** False for text with a lone surrogate, which UTF-8 cannot encode. */
export function isWellFormed(text: string): boolean {
  return !LONE_SURROGATE.test(text)
}
