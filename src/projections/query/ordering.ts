import { violationOf } from '../../json/parse.ts'
import { compareText, isArray, type JsonObject, type JsonValue } from '../../json/value.ts'
import { compareInstants, type Instant, parseInstant, readInstant } from './instant.ts'

/**
 * A value with its class. The classes have an order, so that every two values compare, of whatever kind they are;
 * only values of one class are compared by what they say.
 */
export type Ranked =
  | { readonly rank: 0 }
  | { readonly rank: 1; readonly value: boolean }
  | { readonly rank: 2; readonly value: number }
  | { readonly rank: 3; readonly value: Instant }
  | { readonly rank: 4; readonly value: string }
  /** An array (5) is its elements, an object (6) its names, sorted, each before its value. */
  | { readonly rank: 5 | 6; readonly value: readonly Ranked[] }

export function ranked(value: JsonValue): Ranked {
  switch (typeof value) {
    case 'boolean':
      return { rank: 1, value }
    case 'number':
      return { rank: 2, value }
    case 'string': {
      const instant = parseInstant(value)
      return instant ? { rank: 3, value: instant } : { rank: 4, value }
    }
    default:
      if (value === null) return { rank: 0 }
      return isArray(value) ? { rank: 5, value: value.map(ranked) } : { rank: 6, value: members(value) }
  }
}

function members(object: JsonObject): readonly Ranked[] {
  return Object.keys(object)
    .sort(compareText)
    .flatMap((name) => [{ rank: 4, value: name }, ranked(object[name] as JsonValue)])
}

export function compareRanked(a: Ranked, b: Ranked): number {
  if (a.rank !== b.rank) return a.rank - b.rank
  switch (a.rank) {
    case 0:
      return 0
    case 1:
    case 2:
      return Number(a.value) - Number((b as typeof a).value)
    case 3:
      return compareInstants(a.value, (b as typeof a).value)
    case 4:
      return compareText(a.value, (b as typeof a).value)
    default:
      return compareSequences(a.value, (b as typeof a).value)
  }
}

/** Text that two values have in common when, and only when, they are equal: members stand in one order, -0 is 0. */
export function keyOf(value: Ranked): string {
  return JSON.stringify(value)
}

/** By the first place at which they differ; a beginning of the other comes before it. */
function compareSequences(a: readonly Ranked[], b: readonly Ranked[]): number {
  for (const [index, left] of a.entries()) {
    const right = b[index]
    const order = right ? compareRanked(left, right) : 1
    if (order !== 0) return order
  }
  return a.length - b.length
}

const JSON_NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/

/** A filter's text as a value of each class, by rank; where it is none, it never matches. */
export function readings(text: string): readonly (Ranked | undefined)[] {
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
    value = JSON.parse(text)
  } catch {
    return undefined
  }
  // What may not be stored is in no item; nesting without end would be more than the stack holds.
  return violationOf(value) ? undefined : ranked(value)
}
