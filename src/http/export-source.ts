import { parseSteps } from '../json/parse-steps.ts'
import { formatPath, type Path, type Selection } from '../json/paths.ts'
import type { JsonValue } from '../json/value.ts'
import { stringifySteps } from '../json/value-steps.ts'
import type { CollectionSnapshot } from '../query/collection-snapshot.ts'
import type { PageText } from '../query/page-text.ts'
import type { Query } from '../query/query.ts'
import { ResultCursor } from '../query/result-cursor.ts'
import { RECEIVED, withReceived } from '../query/virtual-field.ts'
import type { Steps } from '../runtime/time-slices.ts'
import { CsvColumns } from './formats/csv-columns.ts'
import type { Form } from './formats/forms.ts'
import { ItemShapes } from './formats/item-shapes.ts'
import { type ItemText, noteColumns } from './formats/writers.ts'

/** Items, or characters of items, read and written at once. */
const PART_ITEMS = 256
const PART_CHARACTERS = 128 * 1024

/** Returns items part by part, each once; undefined after the last. */
export type ItemSource = () => Steps<readonly ItemText[] | undefined>

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
  // State changes inside the steps, since work may restart before them.
  return function* () {
    while (index >= places.length) {
      const next = yield* cursor.next()
      if (!next) return undefined
      places = next
      index = 0
    }
    const part: ItemText[] = []
    let characters = 0
    let at = index
    while (at < places.length && part.length < PART_ITEMS && characters < PART_CHARACTERS) {
      const item = items.uncachedAt(places[at++] as number) as Timed
      part.push(selectedFrom(item, query))
      characters += item.text.length
      if (part.length % READ === 0) yield
    }
    index = at
    return part
  }
}

const READ = 32

export function listSource(items: readonly ItemText[]): ItemSource {
  let index = 0
  // biome-ignore lint/correctness/useYield: the items are there
  return function* () {
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

export function* columnsOf(
  source: ItemSource,
  fields: Selection | undefined,
  nameOf: (path: Path) => string,
): Steps<{ readonly columns: CsvColumns; readonly shapes: ItemShapes }> {
  const columns = new CsvColumns(nameOf, fields)
  const shapes = new ItemShapes(nameOf)
  for (;;) {
    const items = yield* source()
    if (!items) return { columns, shapes }
    yield* noteColumns(columns, shapes, items, fields)
    yield
  }
}

/** The column of distinct values is named by a path already. */
export function plainName(path: Path): string {
  return path.join('.')
}

/** The rows of a grouped query, or its newest items. In CSV a distinct value is a row with one column. */
export function* rowsOf(text: PageText['text'], form: Form, { grouping }: Query): Steps<readonly ItemText[]> {
  const rows = (yield* parseSteps(typeof text === 'string' ? text : text.pieces.join(''))) as readonly JsonValue[]
  const column = form === 'csv' && grouping?.kind === 'distinct' ? formatPath(grouping.path) : undefined
  const items: ItemText[] = []
  for (const row of rows) {
    items.push({ text: yield* stringifySteps(column === undefined ? row : { [column]: row }) })
    yield
  }
  return items
}
