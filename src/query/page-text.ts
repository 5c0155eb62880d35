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
  if (items.length === 0) return '[]'
  const pieces: string[] = []
  let bytes = 0
  let length = 1
  // Joined once, with its brackets, so that the string is flat and need not be copied when it is sent.
  let texts: string[] = []
  let before = '['
  // `entries()` would create an array for each item.
  for (let index = 0; index < items.length; index++) {
    const item = items[index] as PageRow
    if (index % STEP === STEP - 1) yield
    const text = fields ? yield* selectedText(item, fields) : item.text
    texts.push(before === '' ? text : before + text)
    before = ''
    length += text.length + 1
    if (length > most) {
      throw new Refusal(
        'Invalid',
        `The page of ${items.length} items would be longer than ${most} characters; ask for fewer.`,
      )
    }
    if (length < (pieces.length + 1) * PIECE || index === items.length - 1) continue
    const piece = texts.join(',')
    pieces.push(piece)
    bytes += Buffer.byteLength(piece)
    texts = []
    before = ','
    yield
  }
  texts.push(`${texts.pop()}]`)
  const last = texts.join(',')
  if (pieces.length === 0) return last
  pieces.push(last)
  return new LongText(pieces, bytes + Buffer.byteLength(last))
}

function* selectedText(item: PageRow, fields: Selection): Steps<string> {
  const value = (yield* parseSteps(
    fields.has(RECEIVED) ? withReceived(item.text, item.timeMs ?? 0) : item.text,
  )) as JsonObject
  return yield* stringifySteps(yield* select(value, fields))
}
