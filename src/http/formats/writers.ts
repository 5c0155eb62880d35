import type Papa from 'papaparse'
import { parseSteps } from '../../json/parse-steps.ts'
import { parseText } from '../../json/parse-text.ts'
import { type Selection, select } from '../../json/paths.ts'
import type { JsonObject } from '../../json/value.ts'
import { stringifySteps } from '../../json/value-steps.ts'
import type { Steps } from '../../runtime/time-slices.ts'
import { cellOf } from './csv-cells.ts'
import type { CsvColumns } from './csv-columns.ts'
import type { ItemShapes } from './item-shapes.ts'

/** An item as JSON. */
export interface ItemText {
  readonly text: string
}

/** Writes items part by part. */
export interface ItemsWriter {
  readonly begin: string
  /** Separates two parts. */
  readonly between: string
  readonly end: string
  part(items: readonly ItemText[]): Steps<string>
}

/** Items written in one step. */
const STEP = 32
/** A shorter text is parsed without steps. */
const SHORT_CHARACTERS = 4096

export function jsonWriter(fields: Selection | undefined): ItemsWriter {
  return { begin: '[', between: ',', end: ']', part: (items) => joined(items, fields, ',') }
}

export function linesWriter(fields: Selection | undefined): ItemsWriter {
  return {
    begin: '',
    between: '',
    end: '',
    *part(items) {
      return `${yield* joined(items, fields, '\n')}\n`
    },
  }
}

/** RFC 4180, with a header row unless there are no columns. */
export function csvWriter(
  papa: typeof Papa,
  columns: CsvColumns,
  shapes: ItemShapes,
  fields: Selection | undefined,
): ItemsWriter {
  const config = { newline: NEWLINE }
  const { names } = columns
  const places = new Map(names.map((name, place) => [name, place]))
  return {
    begin: names.length > 0 ? papa.unparse([names.map(cellOf)], config) + NEWLINE : '',
    between: '',
    end: '',
    *part(items) {
      const rows: (readonly string[])[] = []
      for (const [index, item] of items.entries()) {
        if (index % STEP === STEP - 1) yield
        rows.push(shapes.rowOf(item.text, places) ?? (yield* columns.row(yield* selected(item, fields))))
      }
      return papa.unparse(rows as string[][], config) + NEWLINE
    },
  }
}

const NEWLINE = '\r\n'

/** The columns of some items. */
export function* noteColumns(
  columns: CsvColumns,
  shapes: ItemShapes,
  items: readonly ItemText[],
  fields: Selection | undefined,
): Steps<void> {
  for (const [index, item] of items.entries()) {
    if (index % STEP === STEP - 1) yield
    if (shapes.isKnown(item.text)) continue
    const value = yield* selected(item, undefined)
    columns.note(fields ? yield* select(value, fields) : value)
    shapes.note(item.text, value)
  }
}

function* joined(items: readonly ItemText[], fields: Selection | undefined, separator: string): Steps<string> {
  const texts: string[] = []
  for (const [index, item] of items.entries()) {
    if (index % STEP === STEP - 1) yield
    texts.push(fields ? yield* stringifySteps(yield* selected(item, fields)) : item.text)
  }
  return texts.join(separator)
}

function* selected({ text }: ItemText, fields: Selection | undefined): Steps<JsonObject> {
  const value = (text.length <= SHORT_CHARACTERS ? parseText(text) : yield* parseSteps(text)) as JsonObject
  return fields ? yield* select(value, fields) : value
}
