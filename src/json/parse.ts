import { type Fault, Refusal } from '../errors.ts'
import { pointer } from './pointer.ts'
import { isArray, type JsonValue } from './value.ts'
import { whereMalformed } from './where-malformed.ts'

/** Containers within containers, the outermost being the first. */
export const MAX_NESTING = 100

const decoder = new TextDecoder('utf-8', { fatal: true })

/**
 * Reads JSON that came from outside, refusing what JavaScript would silently change or stumble over: bytes that
 * are not UTF-8, numbers too large or rounded, a `__proto__` member, nesting without end.
 */
export function parseJson(bytes: Uint8Array): JsonValue {
  let text: string
  try {
    text = decoder.decode(bytes)
  } catch {
    throw new Refusal('Invalid', 'The body is not valid UTF-8.')
  }
  if (text.trim() === '') throw new Refusal('Invalid', 'The body is empty; JSON was expected.')
  let value: JsonValue
  try {
    value = JSON.parse(text)
  } catch {
    throw new Refusal('Invalid', `The body is not well-formed JSON: ${whereMalformed(text)}.`)
  }
  const violation = violationOf(value, () => hasIntegerBeyond2to53(text))
  if (violation) {
    const { code, ...fault } = violation
    throw new Refusal(code, `${fault.message} (at ${fault.pointer || 'the root'}).`, [fault])
  }
  return value
}

export interface Violation extends Fault {
  readonly code: 'Invalid' | 'Unprocessable'
}

/**
 * The first thing in a parsed value that must not be stored. `wasRounded` is asked only where the value alone does
 * not tell whether an integer was rounded when it was parsed.
 */
export function violationOf(value: JsonValue, wasRounded: () => boolean = () => false): Violation | undefined {
  let mayBeRounded = false
  const found = walk(value, 1)
  if (found) return found
  if (mayBeRounded && wasRounded()) {
    return { code: 'Unprocessable', pointer: '', message: 'An integer beyond 2^53 would be rounded' }
  }
  return undefined

  function walk(current: JsonValue, depth: number): Violation | undefined {
    if (typeof current === 'number') {
      if (!Number.isFinite(current)) return here('Invalid', 'A number is too large to be kept')
      const size = Math.abs(current)
      if (size < 2 ** 53 || !Number.isInteger(current)) return undefined
      if (size > 2 ** 53 && size < 1e21) return here('Unprocessable', 'An integer beyond 2^53 would be rounded')
      mayBeRounded = true
      return undefined
    }
    if (typeof current !== 'object' || current === null) return undefined
    if (depth > MAX_NESTING) return here('Invalid', `Nesting deeper than ${MAX_NESTING} is not accepted`)
    if (isArray(current)) {
      for (let index = 0; index < current.length; index++) {
        const violation = walk(current[index] as JsonValue, depth + 1)
        if (violation) return inside(index, violation)
      }
      return undefined
    }
    for (const name in current) {
      if (name === '__proto__') return inside(name, here('Invalid', 'A member must not be named __proto__'))
      const violation = walk(current[name] as JsonValue, depth + 1)
      if (violation) return inside(name, violation)
    }
    return undefined
  }
}

function here(code: Violation['code'], message: string): Violation {
  return { code, pointer: '', message }
}

function inside(token: string | number, violation: Violation): Violation {
  return { ...violation, pointer: pointer(token) + violation.pointer }
}

const STRING_OR_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g

/**
 * A number of exactly 2^53 may have been 2^53 + 1, and one of 1e21 and more may have been written out as an
 * integer: only the source text tells.
 */
export function hasIntegerBeyond2to53(text: string): boolean {
  for (const [token] of text.matchAll(STRING_OR_NUMBER)) {
    const [, integer] = /^-?(\d+)(?:\.0+)?$/.exec(token) ?? []
    if (integer !== undefined && BigInt(integer) > 2n ** 53n) return true
  }
  return false
}
