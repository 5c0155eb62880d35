import { instantOf } from '../json/event-time.ts'
import { type Instant, readInstant, withPlus } from '../json/instant.ts'
import { instantKey, orderKey, textKey } from '../json/order-key.ts'
import { violationOf } from '../json/parse.ts'
import { parseText } from '../json/parse-text.ts'
import type { JsonValue } from '../json/value.ts'

const JSON_NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/

/** The text of a parameter, read as a value of each type; the type of the item's value decides which one counts. */
export interface Operand {
  readonly text: string
  readonly instant: Instant | undefined
  /** The order keys of a value to which it is equal, of different ranks. */
  readonly keys: readonly string[]
}

export function operandOf(text: string, isTime: boolean): Operand {
  const instant = isTime ? readEventTime(text) : readInstant(text)
  if (!isTime) return { text, instant, keys: keysOf(text, instant) }
  return { text, instant, keys: instant ? [instantKey(instant)] : keysOf(text, undefined).map(textKey) }
}

function keysOf(text: string, instant: Instant | undefined): readonly string[] {
  const keys = [textKey(text)]
  if (instant) keys.push(instantKey(instant))
  if (JSON_NUMBER.test(text)) keys.push(orderKey(Number(text)))
  else if (/^(?:null|true|false)$|^\s*[[{]/.test(text)) {
    const value = storableValue(text)
    if (value !== undefined) keys.push(orderKey(value))
  }
  return keys
}

/** A filter's text as an event time: any spelling, and any number; undefined for other text. */
export function readEventTime(text: string): Instant | undefined {
  return instantOf(withPlus(text)) ?? (JSON_NUMBER.test(text) ? instantOf(Number(text)) : undefined)
}

function storableValue(text: string): JsonValue | undefined {
  let value: JsonValue
  try {
    value = parseText(text)
  } catch {
    return undefined
  }
  // Values that cannot be stored match nothing; unlimited nesting would overflow the stack.
  return violationOf(value) ? undefined : value
}
