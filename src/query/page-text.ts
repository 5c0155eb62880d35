import type { Item } from '../collections/item.ts'
import { parseSteps } from '../json/parse-steps.ts'
import { type Selection, select } from '../json/paths.ts'
import type { JsonObject } from '../json/value.ts'
import { stringifySteps } from '../json/value-steps.ts'
import { Refusal } from '../runtime/errors.ts'
import type { Steps } from '../runtime/time-slices.ts'
import { RECEIVED, withReceived } from './virtual-field.ts'

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
}

export interface PageText {
  /** A JSON array. */
  readonly text: string | LongText
  /** Number of matching items on all pages. */
  readonly total: number
}

/** Items processed in one step. */
const STEP = 32

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

  /** Adds an element. Returns whether it has completed a piece, which takes time. */
  add(text: string): boolean {
    const completes = this.#gathered >= PIECE
    if (completes) this.#endPiece()
    const before = this.size === 0 ? '[' : this.#texts.length === 0 ? ',' : ''
    this.#texts.push(before === '' ? text : before + text)
    this.size++
    this.characters += text.length + 1
    this.#gathered += text.length + 1
    return completes
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
export function* textOf(
  items: readonly PageRow[],
  fields: Selection | undefined,
  most = MOST_CHARACTERS,
): Steps<string | LongText> {
  const array = new ArrayText()
  // `entries()` would create an array for each item.
  for (let index = 0; index < items.length; index++) {
    const item = items[index] as PageRow
    if (index % STEP === STEP - 1) yield
    const text = fields ? yield* selectedText(item, fields) : item.text
    if (array.characters + text.length + 1 > most) {
      throw new Refusal(
        'Invalid',
        `The page of ${items.length} items would be longer than ${most} characters; ask for fewer.`,
      )
    }
    if (array.add(text)) yield
  }
  return array.end()
}

function* selectedText(item: PageRow, fields: Selection): Steps<string> {
  const value = (yield* parseSteps(
    fields.has(RECEIVED) ? withReceived(item.text, item.timeMs ?? 0) : item.text,
  )) as JsonObject
  return yield* stringifySteps(yield* select(value, fields))
}
