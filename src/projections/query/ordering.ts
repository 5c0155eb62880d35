import { compareText, isArray, type JsonValue } from '../../json/value.ts'
import { type Instant, parseInstant } from './instant.ts'

/**
 * The classes of values, in their order: every two values compare, of whatever kind they are. Only values of one
 * class are compared by what they say.
 */
export type Ranked =
  | { readonly rank: 0 }
  | { readonly rank: 1; readonly value: boolean }
  | { readonly rank: 2; readonly value: number }
  | { readonly rank: 3; readonly value: Instant }
  | { readonly rank: 4; readonly value: string }
  /** Arrays (5) and objects (6), by their JSON. */
  | { readonly rank: 5 | 6; readonly value: string }

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
      return { rank: isArray(value) ? 5 : 6, value: JSON.stringify(value) }
  }
}

export function compareRanked(a: Ranked, b: Ranked): number {
  if (a.rank !== b.rank) return a.rank - b.rank
  switch (a.rank) {
    case 0:
      return 0
    case 1:
    case 2:
      return Number(a.value) - Number((b as typeof a).value)
    case 3: {
      const other = (b as typeof a).value
      return a.value.ms - other.ms || a.value.micros - other.micros
    }
    default:
      return compareText(a.value, (b as typeof a).value)
  }
}

const JSON_NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/

/** A filter's text, read as a value of the class of another; undefined when it is none, and so never matches. */
export function readAs(rank: Ranked['rank'], text: string): Ranked | undefined {
  switch (rank) {
    case 0:
      return text === 'null' ? { rank } : undefined
    case 1:
      return text === 'true' || text === 'false' ? { rank, value: text === 'true' } : undefined
    case 2:
      return JSON_NUMBER.test(text) ? { rank, value: Number(text) } : undefined
    case 3: {
      // In a query, an unescaped "+" of a zone arrives as a space.
      const value = parseInstant(text.replace(/ (?=\d\d(:?\d\d)?$)/, '+'))
      return value && { rank, value }
    }
    case 4:
      return { rank, value: text }
    default: {
      try {
        const read = ranked(JSON.parse(text))
        return read.rank === rank ? read : undefined
      } catch {
        return undefined
      }
    }
  }
}
