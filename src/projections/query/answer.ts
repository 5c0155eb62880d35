import type { Item } from '../../collections/item.ts'
import { Refusal } from '../../errors.ts'
import { parseSteps } from '../../json/parse-steps.ts'
import { type Selection, select } from '../../json/paths.ts'
import type { JsonObject } from '../../json/value.ts'
import { stringifySteps } from '../../json/value-steps.ts'
import type { Steps } from '../../slices.ts'

/** Text that is too long to be made, counted or sent at once. */
export class LongText {
  /** One after the other they are the text. */
  readonly pieces: readonly string[]
  /** Of the whole, in UTF-8. */
  readonly bytes: number

  constructor(pieces: readonly string[], bytes: number) {
    this.pieces = pieces
    this.bytes = bytes
  }
}

export interface Answer {
  /** A JSON array. */
  readonly text: string | LongText
  /** Items that match, on all pages. */
  readonly total: number
}

/** Items after which others may have a turn. */
const STEP = 32

/** Characters of a piece, about. */
const PIECE = 2 ** 18

/** Half of what the longest string can hold: whoever reads the answer has to. */
const MOST_CHARACTERS = 2 ** 28

/** The text of a page. Refuses one that would be longer than `most` characters. */
export function* textOf(
  items: readonly Pick<Item, 'text'>[],
  fields: Selection | undefined,
  most = MOST_CHARACTERS,
): Steps<string | LongText> {
  if (items.length === 0) return '[]'
  const pieces: string[] = []
  let bytes = 0
  let length = 1
  // Joined once, and not put between brackets after that, it is one string and need not be copied when it is sent.
  let texts: string[] = []
  let before = '['
  // Not by `entries()`, which makes an array of each.
  for (let index = 0; index < items.length; index++) {
    const item = items[index] as Pick<Item, 'text'>
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

function* selectedText({ text }: Pick<Item, 'text'>, fields: Selection): Steps<string> {
  const value = (yield* parseSteps(text)) as JsonObject
  return yield* stringifySteps(yield* select(value, fields))
}
