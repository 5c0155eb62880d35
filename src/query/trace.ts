import { RANK, rankOfKey } from '../json/order-key.ts'
import type { Path } from '../json/paths.ts'
import type { Operand } from './literal.ts'

/** Highest number of values for a trace. */
const MOST_TRACED = 16
/** Highest number of their characters where each place of an item's text is compared with all of them. */
const MOST_CHARACTERS = 256

/** Matches the text of each matching item, as written by `JSON.stringify`; undefined without such an expression. */
export function traceOf(path: Path, operator: string, operands: readonly Operand[]): RegExp | undefined {
  if (operands.length > MOST_TRACED) return undefined
  const values: string[] = []
  for (const { text, keys } of operands) {
    // Instants and containers can equal differently written values.
    const ranks = keys.map(rankOfKey)
    if (ranks.some((rank) => rank === RANK.instant || rank >= RANK.array)) return undefined
    const quoted = JSON.stringify(text)
    if (operator === 'eq' || operator === 'in')
      values.push(quoted, ranks.includes(RANK.number) ? String(Number(text)) : text)
    else if (operator === 'startswith') values.push(quoted.slice(0, -1))
    else if (operator === 'contains' || operator === 'endswith') values.push(quoted.slice(1, -1))
    else return undefined
  }
  const value = values.map(escaped).join('|')
  if (operator === 'contains' || operator === 'endswith') {
    return value.length > MOST_CHARACTERS ? undefined : new RegExp(value)
  }
  // The value may be in an array.
  return new RegExp(`${escaped(JSON.stringify(path.at(-1)))}:(?:\\[|${value})`)
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')
}
