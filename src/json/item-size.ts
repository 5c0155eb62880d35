import { Refusal } from '../runtime/errors.ts'
import * as CODE from './char-codes.ts'
import { pathAt } from './path-at.ts'
import { pointer } from './pointer.ts'
import { endOfString } from './quoted.ts'

/** Highest nesting depth; the outermost container counts as 1. */
export const MAX_NESTING = 100

/** The values of an item that any request handles within 15 ms. */
export const DEFAULT_ITEM_VALUES = 20_000

export const NESTED = `Nesting deeper than ${MAX_NESTING} is not accepted`

/** A member of an object takes as long as about four elements of an array, as its name takes time as well. */
export const MEMBER_VALUES = 4

export interface Size {
  /** Elements of arrays, and members of objects as MEMBER_VALUES each: how long the value takes. */
  readonly values: number
  readonly nesting: number
  /** Offset at which the count ended. */
  readonly end: number
}

/** The size of a JSON text, counted without parsing it. The count ends where the nesting exceeds MAX_NESTING. */
export function sizeOf(json: string): Size {
  const weights: number[] = []
  let weight = 0
  let nesting = 0
  let values = 0
  let isEmpty = false
  let at = 0
  for (; at < json.length && nesting <= MAX_NESTING; at++) {
    const code = json.charCodeAt(at)
    if (CODE.isBlank(code)) continue
    if (code === CODE.CLOSE_BRACE || code === CODE.CLOSE_BRACKET) {
      if (!isEmpty) values += weight
      isEmpty = false
      weight = weights.pop() ?? 0
      continue
    }
    isEmpty = false
    if (code === CODE.QUOTE) {
      at = endOfString(json, at)
      if (at < 0) break
    } else if (code === CODE.COMMA) values += weight
    else if (code === CODE.OPEN_BRACE || code === CODE.OPEN_BRACKET) {
      weights.push(weight)
      weight = code === CODE.OPEN_BRACE ? MEMBER_VALUES : 1
      nesting = Math.max(nesting, weights.length)
      isEmpty = true
    }
  }
  return { values, nesting, end: at }
}

/**
 * Refuses a JSON text with more values than `most`: parsing, comparing and writing it would block the event loop for too
 * long. Each value takes at least a character. The id is not counted: `idValues` are its values, undefined for a text that
 * may have one.
 * @throws {Refusal} `Unprocessable` with the place of the largest container; `Invalid` if it is nested too deeply.
 */
export function checkValues(json: string, most: number, what: string, idValues?: number): void {
  if (json.length <= most) return
  const { values, nesting, end } = sizeOf(json)
  if (nesting > MAX_NESTING) {
    const place = pointer(pathAt(json, end))
    throw new Refusal('Invalid', `${NESTED} (at ${place}).`, [{ pointer: place, message: NESTED }])
  }
  const counted = values - (idValues ?? 0)
  if (counted <= most + (idValues === undefined ? MEMBER_VALUES : 0)) return
  const place = placeOfMost(json)
  const message = `${what} has ${counted} values, most of them at ${place || 'the root'}; ${most} are accepted (Limits.ItemValues, where a member counts as ${MEMBER_VALUES})`
  throw new Refusal('Unprocessable', `${message}.`, [{ pointer: place, message }])
}

interface OpenContainer {
  readonly begin: number
  readonly weight: number
  values: number
}

/** The place of the container with the most values of its own, as a JSON Pointer. */
function placeOfMost(json: string): string {
  const open: OpenContainer[] = []
  let largest: OpenContainer = { begin: 0, weight: 0, values: 0 }
  for (let at = 0; at < json.length; at++) {
    const code = json.charCodeAt(at)
    if (code === CODE.QUOTE) {
      at = endOfString(json, at)
      if (at < 0) break
    } else if (code === CODE.OPEN_BRACE || code === CODE.OPEN_BRACKET) {
      open.push({ begin: at, weight: code === CODE.OPEN_BRACE ? MEMBER_VALUES : 1, values: 0 })
    } else if (code === CODE.COMMA) {
      const container = open[open.length - 1]
      if (!container) break
      container.values += container.weight
      if (container.values > largest.values) largest = container
    } else if (code === CODE.CLOSE_BRACE || code === CODE.CLOSE_BRACKET) open.pop()
  }
  return pointer(pathAt(json, largest.begin))
}
