import { readInstant } from '../json/instant.ts'
import { type Ranked, ranked } from '../json/order.ts'
import { violationOf } from '../json/parse.ts'
import { parseText } from '../json/parse-text.ts'
import type { JsonValue } from '../json/value.ts'

const JSON_NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/

/** A filter's text as a value of each type, by rank; undefined where it is not one. */
export function interpretations(text: string): readonly (Ranked | undefined)[] {
  const instant = readInstant(text)
  const container = /^\s*[[{]/.test(text) ? readContainer(text) : undefined
  return [
    text === 'null' ? { rank: 0 } : undefined,
    text === 'true' || text === 'false' ? { rank: 1, value: text === 'true' } : undefined,
    JSON_NUMBER.test(text) ? { rank: 2, value: Number(text) } : undefined,
    instant && { rank: 3, value: instant },
    { rank: 4, value: text },
    container?.rank === 5 ? container : undefined,
    container?.rank === 6 ? container : undefined,
  ]
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
