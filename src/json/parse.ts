import { type Fault, Refusal } from '../errors.ts'
import type { Steps } from '../steps.ts'
import { MAX_NESTING, Malformed, type Parsed, parseSteps, TooDeep } from './parse-steps.ts'
import { pointer } from './pointer.ts'
import { isArray, type JsonValue } from './value.ts'
import { chunksOf, whereMalformed } from './where-malformed.ts'
import { mayUnderflow, whereRounded } from './where-rounded.ts'

const decoder = new TextDecoder('utf-8', { fatal: true })

/**
 * Reads JSON that came from outside. Refuses what JavaScript would silently change or stumble over: bytes that are not
 * UTF-8, numbers that no double is near to, a `__proto__` member, nesting beyond MAX_NESTING.
 */
export function* parseJson(bytes: Uint8Array): Steps<JsonValue> {
  const text = yield* decodeText(bytes)
  if (text.trim() === '') throw new Refusal('Invalid', 'The body is empty; JSON was expected.')
  return yield* parseJsonText(text, 'The body')
}

/** Bytes that are decoded at once. */
const STEP_BYTES = 1024 * 1024

/** The text of a body; a byte order mark is no part of it. */
export function* decodeText(bytes: Uint8Array): Steps<string> {
  try {
    if (bytes.length <= STEP_BYTES) return decoder.decode(bytes)
    const pieces: string[] = []
    const inPieces = new TextDecoder('utf-8', { fatal: true })
    for (let from = 0; from < bytes.length; from += STEP_BYTES) {
      pieces.push(inPieces.decode(bytes.subarray(from, from + STEP_BYTES), { stream: true }))
      yield
    }
    pieces.push(inPieces.decode())
    return pieces.join('')
  } catch {
    throw new Refusal('Invalid', 'The body is not valid UTF-8.')
  }
}

/** The same as `parseJson` of text that is not empty. A refusal calls the text `what`. */
export function* parseJsonText(text: string, what: string): Steps<JsonValue> {
  try {
    return yield* parseSteps(text, checkParsed)
  } catch (error) {
    if (!(error instanceof Malformed)) throw refusalOf(error)
    throw new Refusal('Invalid', `${what} is not well-formed JSON: ${yield* whereMalformed(chunksOf(text))}.`)
  }
}

function refusalOf(error: unknown): unknown {
  const violation = violationTold(error)
  if (!violation) return error
  const { code, ...fault } = violation
  return new Refusal(code, `${fault.message} (at ${fault.pointer || 'the root'}).`, [fault])
}

/** Thrown at the first thing that must not be stored. */
class Violated extends Error {
  readonly violation: Violation

  constructor(violation: Violation) {
    super(violation.message)
    this.violation = violation
  }
}

/**
 * Inspects what `parseSteps` parses, if it came from outside.
 * @throws An error of which `violationTold` knows what is wrong.
 */
export function checkParsed(parsed: Parsed): void {
  const violation = violationIn(parsed)
  if (violation) throw new Violated(violation)
}

/** The violation that made parsing fail; undefined when the error has another cause. */
export function violationTold(error: unknown): Violation | undefined {
  if (error instanceof TooDeep) return { ...TOO_DEEP, pointer: pointer(error.path) }
  return error instanceof Violated ? error.violation : undefined
}

export interface Violation extends Fault {
  readonly code: 'Invalid' | 'Unprocessable'
}

const TOO_DEEP = { code: 'Invalid', message: `Nesting deeper than ${MAX_NESTING} is not accepted` } as const
const TOO_LARGE = { code: 'Invalid', message: 'A number is too large to be kept' } as const
const TOO_SMALL = { code: 'Invalid', message: 'A number is too small to be kept, it would become 0' } as const
const BEYOND_2_TO_53 = {
  code: 'Unprocessable',
  message: 'A number beyond 2^53 would be rounded; it can be kept as text',
} as const
const PROTO = { code: 'Invalid', message: 'A member must not be named __proto__' } as const

/** The first thing in a parsed value that must not be stored, as far as the value tells. */
export function violationOf(value: JsonValue): Violation | undefined {
  return new Walk().violationOf(value, 1)
}

/** The same of text that was parsed, also of what only the text tells. */
function violationIn({ value, text, depth, path, skipped }: Parsed): Violation | undefined {
  const walk = new Walk()
  const violation = walk.violationOf(value, depth) ?? roundedIn(text, walk)
  if (!violation) return undefined
  const [, first, rest] = /^\/(\d+)(.*)$/s.exec(violation.pointer) ?? []
  const within = skipped > 0 ? pointer([Number(first) + skipped]) + rest : violation.pointer
  return { ...violation, pointer: pointer(path()) + within }
}

function roundedIn(text: string, { has2to53, hasZero }: Walk): Violation | undefined {
  const rounded = has2to53 || (hasZero && mayUnderflow(text)) ? whereRounded(text) : undefined
  return rounded && { ...(rounded.value === 0 ? TOO_SMALL : BEYOND_2_TO_53), pointer: pointer(rounded.path) }
}

/** A walk through a value. */
class Walk {
  /** It holds a number that may have been another one before it was parsed. */
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
