import type { Item } from '../collections/item.ts'
import type { CollectionItems } from '../collections/stored-items.ts'
import type { Selection } from '../json/paths.ts'
import type { JsonObject } from '../json/value.ts'
import { textBytes } from '../runtime/memory.ts'
import type { Turn } from '../runtime/turns.ts'
import { RECEIVED, withReceived } from './parameter.ts'

/** An item, or a row of a grouped query, as JSON. */
export interface ItemText {
  readonly text: string
}

/** Returns the items part by part, each once; undefined after the last. */
export type ItemSource = (turn: Turn) => Promise<readonly ItemText[] | undefined>

/** The result of a query. It is read as far as the client reads, so that a long page takes little memory. */
export interface Page {
  /** Number of matching items on all pages. */
  readonly total: number
  /** The memory that it holds, in bytes. */
  readonly bytes: number
  /** Starts reading its items in order. */
  open(): ItemSource
}

/** The memory of a place, and of a text besides its characters. */
const PLACE_BYTES = 8
const TEXT_BYTES = 60

/** The items at places. They must not change until they are read. */
export function pageOfItems(
  items: Pick<CollectionItems, 'itemAt'>,
  places: readonly number[],
  total: number,
  fields: Selection | undefined,
): Page {
  return {
    total,
    bytes: places.length * PLACE_BYTES,
    open() {
      const left = [places]
      return itemsAt(items, async () => left.shift(), fields)
    },
  }
}

/** Items whose texts are held in memory. */
export function pageOfTexts(texts: readonly ItemText[], total: number): Page {
  let bytes = 0
  for (const { text } of texts) bytes += TEXT_BYTES + textBytes(text)
  return { total, bytes, open: () => written(texts, (text) => text) }
}

/** The rows of groups, or the values of one of their columns. */
export function pageOfRows(
  rows: readonly JsonObject[],
  column: string | undefined,
  { total, bytes }: Pick<Page, 'total' | 'bytes'>,
): Page {
  const textOf = (row: JsonObject): string => JSON.stringify(column === undefined ? row : row[column])
  return { total, bytes, open: () => written(rows, (row) => ({ text: textOf(row) })) }
}

function written<T>(values: readonly T[], write: (value: T) => ItemText): ItemSource {
  let index = 0
  return async (turn) => {
    const part = new Part()
    for (; index < values.length && !part.isFull; index++) {
      if (turn.isOver) await turn.next()
      part.add(write(values[index] as T))
    }
    return part.items.length > 0 ? part.items : undefined
  }
}

/** Reads the items at places, which `nextPlaces` returns part by part. */
export function itemsAt(
  items: Pick<CollectionItems, 'itemAt'>,
  nextPlaces: (turn: Turn) => Promise<readonly number[] | undefined>,
  fields: Selection | undefined,
): ItemSource {
  const areReceived = fields?.has(RECEIVED) === true
  // Those who call it may be suspended, and would keep the item.
  const textAt = (place: number): ItemText => {
    const item = items.itemAt(place) as Item
    return areReceived ? { text: withReceived(item.text, item.timeMs) } : item
  }
  let places: readonly number[] = []
  let index = 0
  return async (turn) => {
    while (index >= places.length) {
      const next = await nextPlaces(turn)
      if (!next) return undefined
      places = next
      index = 0
    }
    const part = new Part()
    for (; index < places.length && !part.isFull; index++) {
      if (turn.isOver) await turn.next()
      part.add(textAt(places[index] as number))
    }
    return part.items
  }
}

/** Highest number of items read at once, and of their characters before the last one. */
const PART_ITEMS = 256
const PART_CHARACTERS = 128 * 1024

class Part {
  readonly items: ItemText[] = []
  #characters = 0

  get isFull(): boolean {
    return this.items.length >= PART_ITEMS || this.#characters >= PART_CHARACTERS
  }

  add(item: ItemText): void {
    this.items.push(item)
    this.#characters += item.text.length
  }
}
