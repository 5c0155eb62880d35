import { type Fault, Refusal } from '../runtime/errors.ts'
import { checkValues, MAX_NESTING, NESTED } from './item-size.ts'
import { Malformed, parseText } from './parse-text.ts'
import { pointer } from './paths.ts'
import { isArray, type JsonValue } from './value.ts'
import { whereMalformed } from './where-malformed.ts'
import { mayUnderflow, whereRounded } from './where-rounded.ts'

const decoder = new TextDecoder('utf-8', { fatal: true })

/**
 * Parses JSON from a client, of at most so many values. Rejects what JavaScript would change silently: bytes that are
 * not UTF-8, numbers that a double cannot hold, a `__proto__` member, and nesting beyond MAX_NESTING.
 */
export function parseJson(bytes: Uint8Array, mostValues: number): JsonValue {
  const text = decodeText(bytes)
  if (text.trim() === '') throw new Refusal('Invalid', 'The body is empty; JSON was expected.')
  return parseJsonText(text, 'The body', mostValues)
}

/** Decodes UTF-8 without its byte order mark. Refuses NUL, which UTF-16 is full of. */
function decodeText(bytes: Uint8Array): string {
  refuseNul(bytes)
  try {
    return decoder.decode(bytes)
  } catch {
    throw invalidUtf8()
  }
}

export function invalidUtf8(): Refusal {
  return new Refusal('Invalid', 'The body is not valid UTF-8.')
}

export function refuseNul(bytes: Uint8Array): void {
  const offset = bytes.indexOf(0)
  if (offset < 0) return
  const message = `The body has a NUL byte at offset ${offset}. Is it UTF-16? It must be UTF-8; in JSON, NUL is written \\u0000.`
  throw new Refusal('Invalid', message)
}

/** Like `parseJson`, for text that is not empty. `what` names the text in error messages. */
export function parseJsonText(text: string, what: string, mostValues: number): JsonValue {
  checkValues(text, mostValues, what)
  try {
    return parseChecked(text)
  } catch (error) {
    if (!(error instanceof Malformed)) throw error
    throw new Refusal('Invalid', `${what} is not well-formed JSON: ${whereMalformed(text)}.`)
  }
}

/**
 * Parses JSON that a client or an editor wrote; `depth` is the nesting depth of its value.
 * @throws {Malformed}
 * @throws {ViolationError}
 */
export function parseChecked(text: string, depth = 1): JsonValue {
  const value = parseText(text)
  const violation = violationIn(value, text, depth)
  if (violation) throw new ViolationError(violation)
  return value
}

/** JSON whose value would be changed silently, or is nested too deeply. */
export class ViolationError extends Refusal {
  readonly violation: Violation

  constructor(violation: Violation) {
    const { code, ...fault } = violation
    super(code, `${fault.message} (at ${fault.pointer || 'the root'}).`, [fault])
    this.violation = violation
  }
}

export interface Violation extends Fault {
  readonly code: 'Invalid' | 'Unprocessable'
}

const TOO_DEEP = { code: 'Invalid', message: NESTED } as const
const TOO_LARGE = { code: 'Invalid', message: 'A number is too large' } as const
const TOO_SMALL = { code: 'Invalid', message: 'A number is too small, it would become 0' } as const
const BEYOND_2_TO_53 = {
  code: 'Unprocessable',
  message: 'A number beyond 2^53 would be rounded; send it as text',
} as const
const PROTO = { code: 'Invalid', message: 'A member must not be named __proto__' } as const

/** The first violation that the parsed value shows. */
export function violationOf(value: JsonValue): Violation | undefined {
  return new Walk().violationOf(value, 1)
}

/** The first violation that the value or its text shows. */
function violationIn(value: JsonValue, text: string, depth: number): Violation | undefined {
  const walk = new Walk()
  return walk.violationOf(value, depth) ?? roundedIn(text, walk)
}

function roundedIn(text: string, { has2to53, hasZero }: Walk): Violation | undefined {
  const rounded = has2to53 || (hasZero && mayUnderflow(text)) ? whereRounded(text) : undefined
  return rounded && { ...(rounded.value === 0 ? TOO_SMALL : BEYOND_2_TO_53), pointer: pointer(rounded.path) }
}

class Walk {
  /** The value has a number that may have been rounded to ±2^53. */
  has2to53 = false
  hasZero = false

  violationOf(value: JsonValue, depth: number): Violation | undefined {
    if (typeof value === 'number') return this.#violationOfNumber(value)
    if (typeof value !== 'object' || value === null) return undefined
    if (depth > MAX_NESTING) return { ...TOO_DEEP, pointer: '' }
    if (isArray(value)) {
      for (let index = 0; index < value.length; index++) {
        const violation = this.violationOf(value[index] as JsonValue, depth + 1)
        if (violation) return inside(index, violation)
      }
      return undefined
    }
    for (const name in value) {
      if (name === '__proto__') return { ...PROTO, pointer: pointer([name]) }
      const violation = this.violationOf(value[name] as JsonValue, depth + 1)
      if (violation) return inside(name, violation)
    }
    return undefined
  }

  #violationOfNumber(value: number): Violation | undefined {
    const size = Math.abs(value)
    if (size > 2 ** 53) return { ...(size === Number.POSITIVE_INFINITY ? TOO_LARGE : BEYOND_2_TO_53), pointer: '' }
    if (size === 2 ** 53) this.has2to53 = true
    else if (size === 0) this.hasZero = true
    return undefined
  }
}

function inside(token: string | number, violation: Violation): Violation {
  return { ...violation, pointer: pointer([token]) + violation.pointer }
}
