import type Papa from 'papaparse'
import { parseText } from '../../json/parse.ts'
import { type Selection, select } from '../../json/paths.ts'
import type { JsonObject } from '../../json/value.ts'
import type { ItemText } from '../../query/page.ts'
import { type Turn, visitEach } from '../../runtime/turns.ts'
import { type CsvColumns, cellOf } from './csv-columns.ts'

/** Writes items part by part. */
export interface ItemsWriter {
  readonly begin: string
  /** Separates two parts. */
  readonly between: string
  readonly end: string
  part(items: readonly ItemText[], turn: Turn): Promise<string>
}

export function jsonWriter(fields: Selection | undefined): ItemsWriter {
  return {
    begin: '[',
    between: ',',
    end: ']',
    part: (items, turn) => joined(items, fields, ',', turn),
  }
}

export function linesWriter(fields: Selection | undefined): ItemsWriter {
  return {
    begin: '',
    between: '',
    end: '',
    async part(items, turn) {
      return `${await joined(items, fields, '\n', turn)}\n`
    },
  }
}

/** RFC 4180, with a header row unless there are no columns. */
export function csvWriter(papa: typeof Papa, columns: CsvColumns, fields: Selection | undefined): ItemsWriter {
  const config = { newline: NEWLINE }
  const { names } = columns
  return {
    begin: names.length > 0 ? papa.unparse([names.map(cellOf)], config) + NEWLINE : '',
    between: '',
    end: '',
    async part(items, turn) {
      const rows: (readonly string[])[] = []
      for (const item of items) {
        if (turn.isOver) await turn.next()
        rows.push(columns.row(selected(item, fields)))
      }
      return papa.unparse(rows as string[][], config) + NEWLINE
    },
  }
}

const NEWLINE = '\r\n'

/** The columns of some items. */
export async function noteColumns(
  columns: CsvColumns,
  items: readonly ItemText[],
  fields: Selection | undefined,
  turn: Turn,
): Promise<void> {
  await visitEach(items, turn, (item) => columns.note(selected(item, fields)))
}

async function joined(
  items: readonly ItemText[],
  fields: Selection | undefined,
  separator: string,
  turn: Turn,
): Promise<string> {
  const texts: string[] = []
  for (const item of items) {
    if (turn.isOver) await turn.next()
    texts.push(fields ? JSON.stringify(selected(item, fields)) : item.text)
  }
  return texts.join(separator)
}

function selected({ text }: ItemText, fields: Selection | undefined): JsonObject {
  const value = parseText(text) as JsonObject
  return fields ? select(value, fields) : value
}
