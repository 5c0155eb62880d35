import { setImmediate } from 'node:timers/promises'
import type { Item } from '../collections/item.ts'
import { parseText } from '../json/parse.ts'
import { type Selection, select } from '../json/paths.ts'
import type { JsonObject } from '../json/value.ts'
import { Refusal } from '../runtime/errors.ts'
import type { Turn } from '../runtime/turns.ts'
import { RECEIVED, withReceived } from './parameter.ts'

/** Text in pieces, too long to be created or sent at once. */
export class LongText {
  /** The consecutive parts of the text. */
  readonly pieces: readonly string[]
  /** Length of the whole text in UTF-8. */
  readonly bytes: number

  constructor(pieces: readonly string[], bytes: number) {
    this.pieces = pieces
    this.bytes = bytes
  }

  /** The event loop continues after each piece, even if a client reads without delay. */
  async *inTurns(): AsyncGenerator<string> {
    for (const piece of this.pieces) {
      yield piece
      await setImmediate()
    }
  }
}

export interface PageText {
  /** A JSON array. */
  readonly text: string | LongText
  /** Number of matching items on all pages. */
  readonly total: number
}

/** Approximate characters of a piece. */
const PIECE = 2 ** 18

/** Creates a JSON array, in pieces if it is long. */
export class ArrayText {
  /** Number of elements. */
  size = 0
  characters = 1
  readonly #pieces: string[] = []
  #bytes = 0
  /** Joined once, with its brackets, so that the string is flat and need not be copied when it is sent. */
  #texts: string[] = []
  #gathered = 0

  add(text: string): void {
    if (this.#gathered >= PIECE) this.#endPiece()
    const before = this.size === 0 ? '[' : this.#texts.length === 0 ? ',' : ''
    this.#texts.push(before === '' ? text : before + text)
    this.size++
    this.characters += text.length + 1
    this.#gathered += text.length + 1
  }

  end(): string | LongText {
    if (this.size === 0) return '[]'
    this.#texts.push(`${this.#texts.pop()}]`)
    if (this.#pieces.length === 0) return this.#texts.join(',')
    this.#endPiece()
    return new LongText(this.#pieces, this.#bytes)
  }

  #endPiece(): void {
    const piece = this.#texts.join(',')
    this.#pieces.push(piece)
    this.#bytes += Buffer.byteLength(piece)
    this.#texts = []
    this.#gathered = 0
  }
}

/** Half of the longest string, since clients must be able to parse the response. */
const MOST_CHARACTERS = 2 ** 28

/** An item, or a row that has no other time. */
type PageRow = Pick<Item, 'text'> & Partial<Pick<Item, 'timeMs'>>

/**
 * The text of a page.
 * @throws {Refusal} when it would exceed the highest number of characters.
 */
export async function pageText(
  items: readonly PageRow[],
  fields: Selection | undefined,
  turn: Turn,
  most = MOST_CHARACTERS,
): Promise<string | LongText> {
  const array = new ArrayText()
  // `entries()` would create an array for each item.
  for (let index = 0; index < items.length; index++) {
    const item = items[index] as PageRow
    if (turn.isOver) await turn.next()
    const text = fields ? selectedText(item, fields) : item.text
    if (array.characters + text.length + 1 > most) {
      throw new Refusal(
        'Invalid',
        `The page of ${items.length} items would be longer than ${most} characters; ask for fewer.`,
      )
    }
    array.add(text)
  }
  return array.end()
}

function selectedText(item: PageRow, fields: Selection): string {
  const value = parseText(fields.has(RECEIVED) ? withReceived(item.text, item.timeMs ?? 0) : item.text) as JsonObject
  return JSON.stringify(select(value, fields))
}
