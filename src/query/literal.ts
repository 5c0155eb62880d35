import { readInstant } from '../json/instant.ts'
import { RANK, type Ranked, ranked } from '../json/order.ts'
import { violationOf } from '../json/parse.ts'
import { parseText } from '../json/parse-text.ts'
import type { JsonValue } from '../json/value.ts'

const JSON_NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/

/** A filter's text as a value of each type, by rank; undefined where it is not one. */
export function interpretations(text: string): readonly (Ranked | undefined)[] {
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
