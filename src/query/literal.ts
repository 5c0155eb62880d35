import { instantOf } from '../json/event-time.ts'
import { type Instant, readInstant, withPlus } from '../json/instant.ts'
import { RANK, type Ranked, ranked } from '../json/order.ts'
import { keyOfRanked, unreadableKey } from '../json/order-key.ts'
import { violationOf } from '../json/parse.ts'
import { parseText } from '../json/parse-text.ts'
import type { JsonValue } from '../json/value.ts'

const JSON_NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/

/** The text of a parameter, read as a value of each type; the type of the item's value decides which one counts. */
export interface Operand {
  readonly text: string
  /** By rank. */
  readonly interpretations: readonly (Ranked | undefined)[]
  /** The order keys of a value to which it is equal. */
  readonly keys: readonly string[]
}

export function operandOf(text: string, isTime: boolean): Operand {
  const instant = isTime ? readEventTime(text) : undefined
  const byRank: (Ranked | undefined)[] = []
  if (instant) byRank[RANK.instant] = { rank: RANK.instant, value: instant }
  const all = instant ? byRank : interpretations(text)
  const keys = all.flatMap((one) => (one ? [keyOfRanked(one)] : []))
  return { text, interpretations: all, keys: isTime && !instant ? keys.map(unreadableKey) : keys }
}

/** A filter's text as a value of each type, by rank; undefined where it is not one. */
function interpretations(text: string): readonly (Ranked | undefined)[] {
  const instant = readInstant(text)
  const container = /^\s*[[{]/.test(text) ? readContainer(text) : undefined
  const values: (Ranked | undefined)[] = [
    text === 'null' ? { rank: RANK.null } : undefined,
    text === 'true' || text === 'false' ? { rank: RANK.boolean, value: text === 'true' } : undefined,
    JSON_NUMBER.test(text) ? { rank: RANK.number, value: Number(text) } : undefined,
    instant && { rank: RANK.instant, value: instant },
    { rank: RANK.text, value: text },
    container,
  ]
  const byRank: (Ranked | undefined)[] = new Array(RANK.object + 1).fill(undefined)
  for (const value of values) if (value) byRank[value.rank] = value
  return byRank
}

/** A filter's text as an event time: any spelling, and any number; undefined for other text. */
export function readEventTime(text: string): Instant | undefined {
  return instantOf(withPlus(text)) ?? (JSON_NUMBER.test(text) ? instantOf(Number(text)) : undefined)
}

function readContainer(text: string): Ranked | undefined {
  let value: JsonValue
  try {
    value = parseText(text)
  } catch {
    return undefined
  }
  // Values that cannot be stored match nothing; unlimited nesting would overflow the stack.
  return violationOf(value) ? undefined : ranked(value)
}
