import { Refusal } from '../runtime/errors.ts'
import * as CODE from './char-codes.ts'
import { pathAt, pointer } from './paths.ts'
import { endOfString } from './tokens.ts'

/** Highest nesting depth; the outermost container counts as 1. */
export const MAX_NESTING = 100

/** The values of an item that any request handles within 15 ms. */
export const DEFAULT_ITEM_VALUES = 20_000

export const NESTED = `Nesting deeper than ${MAX_NESTING} is not accepted`

/** A member of an object takes as long as about four elements of an array, as its name takes time as well. */
export const MEMBER_VALUES = 4

interface Size {
  /** Elements of arrays, and members of objects as MEMBER_VALUES each: how long the value takes. */
  readonly values: number
  readonly nesting: number
  /** Offset of the container with the most values of its own, or of the first one deeper than MAX_NESTING. */
  readonly place: number
}

interface Container {
  readonly place: number
  readonly weight: number
  values: number
}

/**
 * The size of a JSON text, counted without parsing it. The count ends where the nesting exceeds MAX_NESTING. It reads
 * characters, as with `JsonTokens` parsing an item of 20,000 short texts takes a fifth longer.
 */
export function sizeOf(json: string): Size {
  const around: Container[] = []
  let innermost: Container = { place: 0, weight: 0, values: 0 }
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
      if (nesting > MAX_NESTING) return { values, nesting, place: at }
      innermost = { place: at, weight: code === CODE.OPEN_BRACE ? MEMBER_VALUES : 1, values: 0 }
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
  return { values, nesting, place: largest.place }
}

function isEnd(code: number): boolean {
  return code === CODE.CLOSE_BRACE || code === CODE.CLOSE_BRACKET
}

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
  const place = pointer(pathAt(json, size.place))
  if (isTooDeep) throw new Refusal('Invalid', `${NESTED} (at ${place}).`, [{ pointer: place, message: NESTED }])
  const message = `${what} has ${counted} values, most of them at ${place || 'the root'}; ${most} are accepted (Limits.ItemValues, where a member counts as ${MEMBER_VALUES})`
  throw new Refusal('Unprocessable', `${message}.`, [{ pointer: place, message }])
}
