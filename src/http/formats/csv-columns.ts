import type { Path, Selection } from '../../json/paths.ts'
import { isObject, type JsonObject, type JsonValue, own } from '../../json/value.ts'
import { Refusal } from '../../runtime/errors.ts'
import { cellOf } from './csv-cells.ts'

/** Limited, because each item gets a row with all columns. */
const MOST_COLUMNS = 1000

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
  readonly #nameOf: (path: Path) => string
  #count = 0

  /** Requested fields come first, also those that no item has. */
  constructor(nameOf: (path: Path) => string, fields?: Selection) {
    this.#nameOf = nameOf
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
        if (isShown(column)) names.push(this.#nameOf(here))
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
