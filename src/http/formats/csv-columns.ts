import { Malformed, parseChecked, ViolationError } from '../../json/parse.ts'
import { formatPath, type Path, parsePath, type Selection } from '../../json/paths.ts'
import { isArray, isObject, isWellFormed, type JsonObject, type JsonValue, own } from '../../json/value.ts'
import { isFunctionOfField } from '../../query/aggregate/aggregation.ts'
import { Refusal } from '../../runtime/errors.ts'

/** Limited, because each item gets a row with all columns, and a row is parsed and written without yielding. */
export const MOST_COLUMNS = 1000

interface Column {
  /** Whether an item has a value here other than an object with members. */
  hasValue: boolean
  /** Whether the column was requested. Then it exists, unless items have objects with members here. */
  isWanted: boolean
  readonly inner: Columns
}

type Columns = Map<string, Column>

/** The columns of items: dotted paths in order of first appearance, those of one object side by side. */
export class CsvColumns {
  readonly #columns: Columns = new Map()
  readonly #columnName: (path: Path) => string
  #count = 0

  /** Requested fields come first, also those that no item has. */
  constructor(columnName: (path: Path) => string, fields?: Selection) {
    this.#columnName = columnName
    if (fields) this.#begin(this.#columns, fields)
  }

  /** Adds the columns of an item. */
  note(item: JsonObject): void {
    this.#note(this.#columns, item)
  }

  get names(): readonly string[] {
    const names: string[] = []
    const list = (columns: Columns, path: Path): void => {
      for (const [name, column] of columns) {
        const here = [...path, name]
        if (isShown(column)) names.push(this.#columnName(here))
        list(column.inner, here)
      }
    }
    list(this.#columns, [])
    return names
  }

  /** The cells of an item whose columns were noted. */
  row(item: JsonObject): readonly string[] {
    const cells: string[] = []
    const add = (columns: Columns, object: JsonObject | undefined): void => {
      for (const [name, column] of columns) {
        const { inner } = column
        const value = object && own(object, name)
        const isBranch = isObject(value) && hasMembers(value)
        if (isShown(column)) cells.push(isBranch ? '' : cellWith(value))
        if (inner.size > 0) add(inner, isBranch ? value : undefined)
      }
    }
    add(this.#columns, item)
    return cells
  }

  #begin(columns: Columns, fields: Selection): void {
    for (const [name, below] of fields) {
      const column = this.#columnOf(columns, name)
      column.isWanted = below.size === 0
      this.#begin(column.inner, below)
    }
  }

  #note(columns: Columns, object: JsonObject): void {
    for (const name in object) {
      const value = object[name] as JsonValue
      const column = columns.get(name) ?? this.#columnOf(columns, name)
      if (isObject(value) && hasMembers(value)) this.#note(column.inner, value)
      else column.hasValue = true
    }
  }

  #columnOf(columns: Columns, name: string): Column {
    const known = columns.get(name)
    if (known) return known
    if (++this.#count > MOST_COLUMNS) {
      throw new Refusal(
        'Invalid',
        `The items have more than ${MOST_COLUMNS} different fields, too many for columns; name those wanted in fields, or ask for NDJSON.`,
      )
    }
    const column: Column = { hasValue: false, isWanted: false, inner: new Map() }
    columns.set(name, column)
    return column
  }
}

function cellWith(value: JsonValue | undefined): string {
  if (value === undefined || value === null) return ''
  return typeof value === 'string' ? cellOf(value) : JSON.stringify(value)
}

function isShown({ hasValue, isWanted, inner }: Column): boolean {
  return hasValue || (isWanted && inner.size === 0)
}

function hasMembers(object: JsonObject): boolean {
  for (const _ in object) return true
  return false
}

/** The path of a column that is read: a dotted path, or one name such as `avg(data.temperature)`. */
export function pathOfColumn(name: string): Path {
  return isPlain(name) ? [name] : parsePath(name)
}

/** The name of a column of rows, so that it is read as the same member again. */
export function columnOfRows(path: Path): string {
  const [name = ''] = path
  return isPlain(name) ? name : formatPath(path)
}

/** The dots of such a name are those of its field. */
function isPlain(name: string): boolean {
  return !name.includes('\\') && isFunctionOfField(name)
}

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
