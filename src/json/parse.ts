/*
 * JSON text that clients, editors and the journal hold.
 *
 * | Function | |
 * |---|---|
 * | `parseJson`, `parseJsonText` | parse what a client sent: of limited size, and with the place of a mistake in the error |
 * | `parseChecked` | parses text of any size; throws `Malformed` or `ViolationError` |
 * | `parseText` | parses text of any size without looking for violations; throws `Malformed` |
 * | `checkValues` | limits the size, which `sizeOf` counts without parsing |
 * | `violationOf` | what a value must not contain, such as numbers that a double cannot hold |
 * | `elementsOf` | splits the text of a list without parsing it |
 */

import { type Fault, Refusal } from '../runtime/errors.ts'
import * as CODE from './char-codes.ts'
import { pathAt, pointer } from './paths.ts'
import { END, endOfString, JsonTokens } from './tokens.ts'
import { isArray, type JsonValue, put } from './value.ts'
import { whereMalformed } from './where-malformed.ts'
import { mayUnderflow, whereRounded } from './where-rounded.ts'

/** Highest nesting depth; the outermost container counts as 1. */
export const MAX_NESTING = 100

/**
 * Parses JSON from a client, of at most so many values. Rejects what JavaScript would change silently: bytes that are
 * not UTF-8, numbers that a double cannot hold, a `__proto__` member, and nesting beyond MAX_NESTING.
 */
export function parseJson(bytes: Uint8Array, mostValues: number): JsonValue {
  const text = decodeText(bytes)
  if (text.trim() === '') throw new Refusal('Invalid', 'The body is empty; JSON was expected.')
  return parseJsonText(text, 'The body', mostValues)
}

const decoder = new TextDecoder('utf-8', { fatal: true })

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
  const search = new ViolationSearch()
  const violation = search.first(value, depth) ?? roundedIn(text, search)
  if (violation) throw new ViolationError(violation)
  return value
}

/**
 * `JSON.parse`, with each member under its own name. In V8 12.9 to 14.6 (Node 23 to 26), `JSON.parse` may take a
 * name that is written with an escape for another one that it has seen before:
 *
 *     JSON.parse('{"h":[],"\\\\":0}')
 *     JSON.parse('{"h":1,"\\"":2}')   // { h: 1, '\\': 2 }
 *
 * See https://github.com/nodejs/node/issues/63785. Text with such a name is parsed here.
 * @throws {Malformed}
 */
export function parseText(text: string): JsonValue {
  let value: JsonValue
  try {
    value = JSON.parse(text)
  } catch {
    throw new Malformed()
  }
  return hasEscapedName(text) ? parseWellFormed(text) : value
}

function hasEscapedName(json: string): boolean {
  for (let at = json.indexOf('\\'); at >= 0; at = json.indexOf('\\', at)) {
    at = endOfString(json, at) + 1
    if (new JsonTokens(json, at).next() === CODE.COLON) return true
  }
  return false
}

/** Text that is not JSON. `whereMalformed` finds the place. */
export class Malformed extends Error {
  constructor() {
    super('malformed JSON')
  }
}

/** Parses JSON that is known to be well-formed. */
function parseWellFormed(json: string): JsonValue {
  const tokens = new JsonTokens(json)
  /** The open containers, each with its name in the one around it. */
  const open: { readonly container: JsonValue[] | Record<string, JsonValue>; readonly name: string }[] = []
  let name: string | undefined
  for (;;) {
    const code = tokens.next()
    if (code === CODE.COMMA || code === CODE.COLON) continue
    if (code === CODE.OPEN_BRACKET || code === CODE.OPEN_BRACE) {
      open.push({ container: code === CODE.OPEN_BRACKET ? [] : {}, name: name ?? '' })
      name = undefined
      continue
    }
    let value: JsonValue
    if (code === CODE.CLOSE_BRACKET || code === CODE.CLOSE_BRACE) {
      const ended = open.pop() as (typeof open)[number]
      value = ended.container
      name = ended.name
    } else value = JSON.parse(json.slice(tokens.begin, tokens.end)) as JsonValue
    const around = open.at(-1)?.container
    if (around === undefined) return value
    if (isArray(around)) around.push(value)
    else if (name === undefined) {
      name = value as string
      continue
    } else put(around, name, value)
    name = undefined
  }
}

/** The values of an item that any request handles within 15 ms. */
export const DEFAULT_ITEM_VALUES = 20_000

/** A member of an object takes as long as about four elements of an array, as its name takes time as well. */
export const MEMBER_VALUES = 4

/**
 * Refuses a JSON text with more values than `most`: parsing, comparing and writing it would block the event loop for too
 * long. Each value takes at least a character. The id is not counted: `idValues` are its values, undefined for a text that
 * may have one.
 * @throws {Refusal} `Unprocessable` with the place of the largest container; `Invalid` if it is nested too deeply.
 */
export function checkValues(json: string, most: number, what: string, idValues?: number): void {
  if (json.length <= most) return
  const size = sizeOf(json)
  const counted = size.values - (idValues ?? 0)
  const isTooDeep = size.nesting > MAX_NESTING
  if (!isTooDeep && counted <= most + (idValues === undefined ? MEMBER_VALUES : 0)) return
  const place = pointer(pathAt(json, size.refusedAt))
  if (isTooDeep) throw new Refusal('Invalid', `${NESTED} (at ${place}).`, [{ pointer: place, message: NESTED }])
  const message = `${what} has ${counted} values, most of them at ${place || 'the root'}; ${most} are accepted (Limits.ItemValues, where a member counts as ${MEMBER_VALUES})`
  throw new Refusal('Unprocessable', `${message}.`, [{ pointer: place, message }])
}

interface Size {
  /** Elements of arrays, and members of objects as MEMBER_VALUES each: how long the value takes. */
  readonly values: number
  readonly nesting: number
  /** Offset of what a refusal names: the container with the most values of its own, or the first one deeper than MAX_NESTING. */
  readonly refusedAt: number
}

interface Container {
  readonly at: number
  /** How much each of its values counts. */
  readonly weight: number
  values: number
}

/**
 * The size of a JSON text, counted without parsing it. The count ends where the nesting exceeds MAX_NESTING. It reads
 * characters, as with `JsonTokens` parsing an item of 20,000 short texts takes a fifth longer.
 */
export function sizeOf(json: string): Size {
  const around: Container[] = []
  let innermost: Container = { at: 0, weight: 0, values: 0 }
  let largest = innermost
  let nesting = 0
  let values = 0
  /** Whether nothing has followed the bracket or brace that begins the innermost container. */
  let isEmpty = false
  for (let at = 0; at < json.length; at++) {
    const code = json.charCodeAt(at)
    if (code <= CODE.SPACE) continue
    if (code === CODE.QUOTE) {
      at = endOfString(json, at)
      if (at < 0) break
    } else if (code === CODE.OPEN_BRACE || code === CODE.OPEN_BRACKET) {
      around.push(innermost)
      nesting = Math.max(nesting, around.length)
      if (nesting > MAX_NESTING) return { values, nesting, refusedAt: at }
      innermost = { at, weight: code === CODE.OPEN_BRACE ? MEMBER_VALUES : 1, values: 0 }
      isEmpty = true
      continue
    } else if (code === CODE.COMMA || isEnd(code)) {
      if (code === CODE.COMMA || !isEmpty) {
        values += innermost.weight
        innermost.values += innermost.weight
        if (innermost.values > largest.values) largest = innermost
      }
      if (code !== CODE.COMMA) innermost = around.pop() ?? innermost
    }
    isEmpty = false
  }
  return { values, nesting, refusedAt: largest.at }
}

function isEnd(code: number): boolean {
  return code === CODE.CLOSE_BRACE || code === CODE.CLOSE_BRACKET
}

/** The first violation that the parsed value shows. */
export function violationOf(value: JsonValue): Violation | undefined {
  return new ViolationSearch().first(value, 1)
}

/** The first number of the text that was rounded. The value shows only that there may be one. */
function roundedIn(text: string, { has2to53, hasZero }: ViolationSearch): Violation | undefined {
  const rounded = has2to53 || (hasZero && mayUnderflow(text)) ? whereRounded(text) : undefined
  return rounded && { ...(rounded.value === 0 ? TOO_SMALL : BEYOND_2_TO_53), pointer: pointer(rounded.path) }
}

class ViolationSearch {
  /** The value has a number that may have been rounded to ±2^53. */
  has2to53 = false
  hasZero = false

  first(value: JsonValue, depth: number): Violation | undefined {
    if (typeof value === 'number') return this.#inNumber(value)
    if (typeof value !== 'object' || value === null) return undefined
    if (depth > MAX_NESTING) return { ...TOO_DEEP, pointer: '' }
    if (isArray(value)) {
      for (let index = 0; index < value.length; index++) {
        const violation = this.first(value[index] as JsonValue, depth + 1)
        if (violation) return withParent(index, violation)
      }
      return undefined
    }
    for (const name in value) {
      if (name === '__proto__') return { ...PROTO, pointer: pointer([name]) }
      const violation = this.first(value[name] as JsonValue, depth + 1)
      if (violation) return withParent(name, violation)
    }
    return undefined
  }

  #inNumber(value: number): Violation | undefined {
    const size = Math.abs(value)
    if (size > 2 ** 53) return { ...(size === Number.POSITIVE_INFINITY ? TOO_LARGE : BEYOND_2_TO_53), pointer: '' }
    if (size === 2 ** 53) this.has2to53 = true
    else if (size === 0) this.hasZero = true
    return undefined
  }
}

function withParent(token: string | number, violation: Violation): Violation {
  return { ...violation, pointer: pointer([token]) + violation.pointer }
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

interface Violation extends Fault {
  readonly code: 'Invalid' | 'Unprocessable'
}

const NESTED = `Nesting deeper than ${MAX_NESTING} is not accepted`

const TOO_DEEP = { code: 'Invalid', message: NESTED } as const
const TOO_LARGE = { code: 'Invalid', message: 'A number is too large' } as const
const TOO_SMALL = { code: 'Invalid', message: 'A number is too small, it would become 0' } as const
const BEYOND_2_TO_53 = {
  code: 'Unprocessable',
  message: 'A number beyond 2^53 would be rounded; send it as text',
} as const
const PROTO = { code: 'Invalid', message: 'A member must not be named __proto__' } as const

/** Characters between two pauses. */
const PART_CHARACTERS = 64 * 1024
/** A request of another node of the cluster has an item inside it. */
const MOST_NESTING = MAX_NESTING + 10

/**
 * The texts of the elements of a JSON list, which are not parsed. Yields undefined now and then, so that the caller can
 * pause in a long element.
 * @throws {Refusal} `Invalid` where an element is nested too deeply.
 * @throws {Malformed} at the first place where the text is no list. Otherwise it is well-formed if each element is.
 */
export function* elementsOf(text: string): Generator<string | undefined, void> {
  const tokens = new JsonTokens(text)
  if (tokens.next() !== CODE.OPEN_BRACKET) throw new Malformed()
  let size = 0
  let pause = PART_CHARACTERS
  for (let code: number = CODE.COMMA; code !== CODE.CLOSE_BRACKET; size++) {
    code = tokens.next()
    const { begin } = tokens
    let end = begin
    // Up to the comma or bracket after the element. Between brackets, depth is above 0.
    for (let depth = 0; depth > 0 || (code !== CODE.COMMA && code !== CODE.CLOSE_BRACKET); code = tokens.next()) {
      if (code === CODE.OPEN_BRACKET || code === CODE.OPEN_BRACE) {
        if (++depth > MOST_NESTING) throw new Refusal('Invalid', `${NESTED}.`)
      } else if (code === CODE.CLOSE_BRACKET || code === CODE.CLOSE_BRACE) depth--
      if (code === END || depth < 0) throw new Malformed()
      end = tokens.end
      if (end < pause) continue
      yield undefined
      pause = end + PART_CHARACTERS
    }
    if (end > begin) yield text.slice(begin, end)
    else if (size > 0 || code === CODE.COMMA) throw new Malformed()
  }
  if (tokens.next() !== END || tokens.begin < text.length) throw new Malformed()
}
