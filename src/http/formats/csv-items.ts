import type Papa from 'papaparse'
import { MAX_NESTING } from '../../json/parse.ts'
import { formatPath, type Path } from '../../json/paths.ts'
import { isObject, type JsonObject, type JsonValue, own } from '../../json/value.ts'
import { Refusal } from '../../runtime/errors.ts'
import { MOST_COLUMNS, pathOfColumn, textIn, valueIn } from './csv-columns.ts'

/** Characters of CSV parsed at once. */
const PART_CHARACTERS = 32 * 1024
/** Limited, because a row is parsed without yielding: this number of quotes takes 15 ms. */
const ROW_CHARACTERS = 256 * 1024

interface CsvItem {
  /** The line of the text where the row begins, counting from 1. */
  readonly line: number
  /** Throws a Refusal for an invalid row. */
  readonly item: () => JsonObject
}

interface Row {
  readonly cells: readonly string[]
  readonly line: number
}

interface Column {
  readonly name: string
  readonly path: Path
}

interface CsvLimits {
  /** Whether the first line has the names of the columns. Otherwise these are `field1`, `field2`… */
  readonly hasHeader: boolean
  readonly mostCharacters: number
}

/**
 * Parses CSV (RFC 4180) with a header row of dotted paths. Also yields each empty line, and undefined now and then, so
 * that the caller can yield to the event loop. Each item repeats the names of its columns, so `mostCharacters` limits names and values together.
 */
export function* csvItems(
  papa: typeof Papa,
  text: string,
  { hasHeader, mostCharacters }: CsvLimits,
): Generator<CsvItem | 'empty' | undefined, void> {
  let columns: readonly Column[] | undefined
  let characters = 0
  let items = 0
  for (const row of rowsOf(papa, text)) {
    if (!row || row === 'empty') yield row
    else if (!columns && hasHeader) columns = columnsOf(row)
    else {
      columns ??= columnsOf({ ...row, cells: row.cells.map((_, index) => `field${index + 1}`) })
      items++
      characters += charactersIn(row, columns)
      if (characters > mostCharacters) {
        throw new Refusal('TooLarge', `The items of the batch would have more than ${mostCharacters} bytes as JSON.`)
      }
      yield { line: row.line, item: itemIn(row, columns) }
    }
  }
  if (!columns) throw new Refusal('Invalid', 'The body is empty; CSV with a header row was expected.')
  if (items === 0) throw new Refusal('Invalid', HEADER_ALONE)
}

const HEADER_ALONE =
  'The body has a single line, the header row, and no items. If the line is an item, send Content-Type: text/csv; header=absent.'

/** All rows, those of empty lines as `empty`. A row that is longer than a part is parsed again, in a part of twice the length. */
function* rowsOf(papa: typeof Papa, text: string): Generator<Row | 'empty' | undefined, void> {
  // Lines may end with CRLF and LF in the same text.
  const newline = text.includes('\n') ? '\n' : '\r'
  let line = 1
  let characters = PART_CHARACTERS
  // All rows before `from` were returned, and the next one begins there, in this `line`.
  for (let from = 0; from < text.length; ) {
    const part = text.slice(from, from + characters)
    // A part that was made longer for its first row may have a hundred thousand short ones after it.
    const isForOne = characters > PART_CHARACTERS
    let isAll = from + part.length === text.length
    const rows: { readonly cells: readonly string[]; readonly end: number; readonly error: string | undefined }[] = []
    papa.parse<string[]>(part, {
      delimiter: ',',
      newline: newline as '\n',
      step: ({ data, errors, meta }, parser) => {
        dropReturn(data, part, meta.cursor)
        rows.push({ cells: data, end: meta.cursor, error: errors[0]?.message })
        if (!isForOne || rows.length < 2) return
        isAll = false
        parser.abort()
      },
    })
    // The last row may continue in the next part.
    const last = isAll ? undefined : rows.pop()
    if (last && rows.length === 0) {
      if (characters >= ROW_CHARACTERS)
        throw malformed(line, last.error ?? `the row is longer than ${ROW_CHARACTERS} characters`)
      characters *= 2
      yield undefined
      continue
    }
    characters = PART_CHARACTERS
    let begin = 0
    for (const { cells, end, error } of rows) {
      // After a wrong quote, the end of the row is unknown.
      if (error) throw malformed(line, error)
      yield cells.length > 1 || cells[0] !== '' ? { cells, line } : 'empty'
      line += linesIn(part, begin, end, newline)
      begin = end
    }
    from += last ? begin : part.length
    yield undefined
  }
}

/** Removes the CR of a CRLF from the last cell of the row that ends at `end`. The parser drops it behind a quoted cell. */
function dropReturn(cells: string[], text: string, end: number): void {
  const at = text[end - 1] === '\n' ? end - 2 : end - 1
  const last = cells.at(-1)
  if (text[at] !== '\r' || text[at - 1] === '"' || !last?.endsWith('\r')) return
  cells[cells.length - 1] = last.slice(0, -1)
}

function malformed(line: number, why: string): Refusal {
  return new Refusal('Invalid', `Line ${line}: the body is not well-formed CSV: ${why}.`)
}

function linesIn(text: string, from: number, to: number, newline: string): number {
  let lines = 0
  for (let at = text.indexOf(newline, from); at >= 0 && at < to; at = text.indexOf(newline, at + newline.length))
    lines++
  return lines
}

/** At least the members of an object in JSON: a name, a value and the characters around them. */
function charactersIn({ cells }: Row, columns: readonly Column[]): number {
  let characters = 0
  for (const [index, { name }] of columns.entries()) {
    const cell = cells[index] ?? ''
    if (cell !== '') characters += name.length + cell.length + MEMBER_CHARACTERS
  }
  return characters
}

/** Two quotes, a colon and a comma. */
const MEMBER_CHARACTERS = 4

function columnsOf({ cells, line }: Row): readonly Column[] {
  if (cells.length > MOST_COLUMNS) {
    throw new Refusal(
      'Invalid',
      `Line ${line}: the header has ${cells.length} columns, and at most ${MOST_COLUMNS} are accepted; send NDJSON.`,
    )
  }
  const known = new Set<string>()
  return cells.map((cell, index) => {
    const name = textIn(cell)
    const path = pathOfColumn(name)
    const fault = known.has(name)
      ? 'is there twice'
      : path.some((part) => part === '')
        ? 'has an empty name'
        : path.includes('__proto__')
          ? 'must not be named __proto__'
          : path.length > MAX_NESTING
            ? `is nested deeper than ${MAX_NESTING}`
            : cells.length === 1 && /[;\t]/.test(name)
              ? 'is the only one: columns are separated by commas'
              : undefined
    if (fault)
      throw new Refusal(
        'Invalid',
        `Line ${line}: column ${index + 1} of the header, ${JSON.stringify(name)}, ${fault}.`,
      )
    known.add(name)
    return { name, path }
  })
}

function itemIn({ cells }: Row, columns: readonly Column[]): () => JsonObject {
  return () => {
    if (cells.length !== columns.length) {
      throw new Refusal('Invalid', `The row has ${cells.length} cells, and the first line has ${columns.length}.`)
    }
    const item: Record<string, JsonValue> = {}
    for (const [index, cell] of cells.entries()) {
      const { path } = columns[index] as Column
      if (cell !== '') put(item, path, valueIn(cell, path.length + 1))
    }
    return item
  }
}

function put(item: Record<string, JsonValue>, path: Path, value: JsonValue): void {
  let at = item
  for (const [depth, name] of path.entries()) {
    const there = own(at, name)
    if (depth === path.length - 1) {
      if (there !== undefined) throw clash(path)
      at[name] = value
      return
    }
    if (there !== undefined && !isObject(there)) throw clash(path)
    const inner: Record<string, JsonValue> = there ?? {}
    at[name] = inner
    at = inner
  }
}

function clash(path: Path): Refusal {
  return new Refusal(
    'Invalid',
    `The column ${JSON.stringify(formatPath(path))} is inside another one that has a value, or around it.`,
  )
}
