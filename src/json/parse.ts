import { type Fault, Refusal } from '../runtime/errors.ts'
import type { Steps } from '../runtime/steps.ts'
import { MAX_NESTING, Malformed, type Parsed, parseSteps, TooDeep } from './parse-steps.ts'
import { pointer } from './pointer.ts'
import { isArray, type JsonValue } from './value.ts'
import { chunksOf, whereMalformed } from './where-malformed.ts'
import { mayUnderflow, whereRounded } from './where-rounded.ts'

const decoder = new TextDecoder('utf-8', { fatal: true })

/**
 * Parses JSON from a client. Rejects what JavaScript would change silently: bytes that are not UTF-8, numbers that a
 * double cannot hold, a `__proto__` member, and nesting beyond MAX_NESTING.
 */
export function* parseJson(bytes: Uint8Array): Steps<JsonValue> {
  const text = yield* decodeText(bytes)
  if (text.trim() === '') throw new Refusal('Invalid', 'The body is empty; JSON was expected.')
  return yield* parseJsonText(text, 'The body')
}

/** Bytes decoded in one step. */
const STEP_BYTES = 1024 * 1024

/** Decodes UTF-8 without its byte order mark. Refuses NUL, which UTF-16 is full of. */
export function* decodeText(bytes: Uint8Array): Steps<string> {
  refuseNul(bytes)
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

export function refuseNul(bytes: Uint8Array): void {
  const offset = bytes.indexOf(0)
  if (offset < 0) return
  const message = `The body has a NUL byte at offset ${offset}. Is it UTF-16? It must be UTF-8; in JSON, NUL is written \\u0000.`
  throw new Refusal('Invalid', message)
}

/** Like `parseJson`, for text that is not empty. `what` names the text in error messages. */
export function* parseJsonText(text: string, what: string): Steps<JsonValue> {
  try {
    return yield* parseSteps(text, checkParsed)
  } catch (error) {
    if (!(error instanceof Malformed)) throw refusalOf(error)
    throw new Refusal('Invalid', `${what} is not well-formed JSON: ${yield* whereMalformed(chunksOf(text))}.`)
  }
}

function refusalOf(error: unknown): unknown {
  const violation = violationOfError(error)
  if (!violation) return error
  const { code, ...fault } = violation
  return new Refusal(code, `${fault.message} (at ${fault.pointer || 'the root'}).`, [fault])
}

/** Thrown by `checkParsed`. */
class ViolationError extends Error {
  readonly violation: Violation

  constructor(violation: Violation) {
    super(violation.message)
    this.violation = violation
  }
}

/**
 * An `inspect` callback of `parseSteps` for values from clients.
 * @throws An error that `violationOfError` explains.
 */
export function checkParsed(parsed: Parsed): void {
  const violation = violationIn(parsed)
  if (violation) throw new ViolationError(violation)
}

/** The violation that made parsing fail; undefined for other errors. */
export function violationOfError(error: unknown): Violation | undefined {
  if (error instanceof TooDeep) return { ...TOO_DEEP, pointer: pointer(error.path) }
  return error instanceof ViolationError ? error.violation : undefined
}

export interface Violation extends Fault {
  readonly code: 'Invalid' | 'Unprocessable'
}

const TOO_DEEP = { code: 'Invalid', message: `Nesting deeper than ${MAX_NESTING} is not accepted` } as const
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
