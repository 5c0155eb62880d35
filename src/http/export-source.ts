import { elementsOf } from '../json/elements.ts'
import { formatPath, type Path, type Selection } from '../json/paths.ts'
import type { CollectionSnapshot } from '../query/collection-snapshot.ts'
import type { PageText } from '../query/page-text.ts'
import type { Query } from '../query/query.ts'
import { ResultCursor } from '../query/result-cursor.ts'
import { RECEIVED, withReceived } from '../query/virtual-field.ts'
import type { Turn } from '../runtime/turns.ts'
import { CsvColumns } from './formats/csv-columns.ts'
import type { Form } from './formats/forms.ts'
import { ItemShapes } from './formats/item-shapes.ts'
import { type ItemText, noteColumns } from './formats/writers.ts'

/** Items, or characters of items, read and written at once. */
const PART_ITEMS = 256
const PART_CHARACTERS = 128 * 1024

/** Returns items part by part, each once; undefined after the last. */
export type ItemSource = (turn: Turn) => Promise<readonly ItemText[] | undefined>

/** Starts reading the items, in order or in any order. */
export type OpenSource = (isOrdered: boolean) => ItemSource

type Timed = ItemText & { readonly timeMs: number }

/** An item as the fields are selected from it. */
export function selectedFrom(item: Timed, { fields }: Query): ItemText {
  return fields?.has(RECEIVED) ? { text: withReceived(item.text, item.timeMs) } : item
}

export function resultSource(reading: CollectionSnapshot, query: Query): ItemSource {
  const { items } = reading
  const cursor = new ResultCursor(reading, query)
  let places: readonly number[] = []
  let index = 0
  return async (turn) => {
    while (index >= places.length) {
      const next = await cursor.next(turn)
      if (!next) return undefined
      places = next
      index = 0
    }
    const part: ItemText[] = []
    let characters = 0
    while (index < places.length && part.length < PART_ITEMS && characters < PART_CHARACTERS) {
      if (turn.isOver) await turn.next()
      const item = items.itemAt(places[index++] as number) as Timed
      part.push(selectedFrom(item, query))
      characters += item.text.length
    }
    return part
  }
}

export function listSource(items: readonly ItemText[]): ItemSource {
  let index = 0
  return async () => {
    const part: ItemText[] = []
    let characters = 0
    for (; index < items.length && part.length < PART_ITEMS && characters < PART_CHARACTERS; index++) {
      const item = items[index] as ItemText
      part.push(item)
      characters += item.text.length
    }
    return part.length > 0 ? part : undefined
  }
}

export async function columnsOf(
  source: ItemSource,
  fields: Selection | undefined,
  nameOf: (path: Path) => string,
  turn: Turn,
): Promise<{ readonly columns: CsvColumns; readonly shapes: ItemShapes }> {
  const columns = new CsvColumns(nameOf, fields)
  const shapes = new ItemShapes(nameOf)
  for (;;) {
    const items = await source(turn)
    if (!items) return { columns, shapes }
    await noteColumns(columns, shapes, items, fields, turn)
  }
}

/** The column of distinct values is named by a path already. */
export function plainName(path: Path): string {
  return path.join('.')
}

/** The rows of a grouped query, or its newest items. In CSV a distinct value is a row with one column. */
export async function rowsOf(
  text: PageText['text'],
  form: Form,
  { grouping }: Query,
  turn: Turn,
): Promise<readonly ItemText[]> {
  const column = form === 'csv' && grouping?.kind === 'distinct' ? JSON.stringify(formatPath(grouping.path)) : undefined
  const items: ItemText[] = []
  for (const list of listsOf(text)) {
    for (const row of elementsOf(list)) {
      if (turn.isOver) await turn.next()
      if (row !== undefined) items.push({ text: column === undefined ? row : `{${column}:${row}}` })
    }
  }
  return items
}

/** The pieces of a long text, each as a list of its own: it begins with a bracket or comma, and ends after an element. */
function* listsOf(text: PageText['text']): Generator<string> {
  if (typeof text === 'string') {
    yield text
    return
  }
  for (const [index, piece] of text.pieces.entries()) {
    yield `[${piece.slice(1)}${index === text.pieces.length - 1 ? '' : ']'}`
  }
}
