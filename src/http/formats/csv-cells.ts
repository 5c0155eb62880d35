import { parseChecked, ViolationError } from '../../json/parse.ts'
import { Malformed } from '../../json/parse-text.ts'
import { isArray, isWellFormed, type JsonValue } from '../../json/value.ts'

const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/

/** Parses `true`, `false`, `{}`, JSON lists, and JSON numbers that a double can hold; other cells are text. */
export function valueIn(cell: string, depth: number): JsonValue {
  if (cell === 'true' || cell === 'false') return cell === 'true'
  if (cell === '{}') return {}
  if (!NUMBER.test(cell)) return listIn(cell, depth) ?? textIn(cell)
  const number = Number(cell)
  const isKept = Math.abs(number) < 2 ** 53 && (number !== 0 || !/[1-9]/.test(cell.replace(/[eE].*/, '')))
  // Adding 0 turns -0 into 0.
  return isKept ? number + 0 : cell
}

/**
 * The cell of a text. Text that cannot be in CSV as it is (a lone surrogate, NUL), and text that would be read as a list
 * or an object, is written as JSON: in double quotes.
 */
export function cellOf(text: string): string {
  return isWrittenAsJson(text) ? JSON.stringify(text) : text
}

/** Reverses `cellOf`. */
export function textIn(cell: string): string {
  return quotedIn(cell) ?? cell
}

function isWrittenAsJson(text: string): boolean {
  if (!isWellFormed(text) || text.includes('\0') || text === '{}') return true
  return listIn(text, 1) !== undefined || quotedIn(text) !== undefined
}

/** The text that `cellOf` wrote as JSON. Other text in double quotes is what it is. */
function quotedIn(cell: string): string | undefined {
  if (!cell.startsWith('"') || !cell.endsWith('"')) return undefined
  const text = parsed(cell, 1)
  return typeof text === 'string' && isWrittenAsJson(text) ? text : undefined
}

function listIn(cell: string, depth: number): JsonValue | undefined {
  if (!cell.startsWith('[') || !cell.endsWith(']')) return undefined
  const list = parsed(cell, depth)
  return isArray(list) ? list : undefined
}

/** Undefined for text that is no JSON, or that a body may not contain. */
function parsed(text: string, depth: number): JsonValue | undefined {
  try {
    return parseChecked(text, depth)
  } catch (error) {
    if (error instanceof Malformed || error instanceof ViolationError) return undefined
    throw error
  }
}
