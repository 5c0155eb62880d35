import type { Item } from '../../collections/item.ts'
import { Refusal } from '../../errors.ts'
import { type Selection, select } from '../../json/paths.ts'
import type { Steps } from '../../slices.ts'

export interface Answer {
  /** A JSON array. */
  readonly text: string
  /** Items that match, on all pages. */
  readonly total: number
}

/** Items after which others may have a turn. */
const STEP = 32

/** Half of what the longest string can hold. */
const MOST_CHARACTERS = 2 ** 28

/** The text of a page. Refuses one that would be longer than `most` characters: no string may be. */
export function* textOf(items: readonly Item[], fields: Selection | undefined, most = MOST_CHARACTERS): Steps<string> {
  const texts: string[] = []
  let length = 1
  for (const item of items) {
    if (texts.length % STEP === STEP - 1) yield
    const text = fields ? JSON.stringify(select(item.value, fields)) : item.text
    texts.push(text)
    length += text.length + 1
    if (length > most) {
      throw new Refusal(
        'Invalid',
        `The page of ${items.length} items would be longer than ${most} characters; ask for fewer.`,
      )
    }
  }
  if (texts.length === 0) return '[]'
  // Joined once, and not put between brackets after that, it is one string and need not be copied when it is sent.
  texts[0] = `[${texts[0]}`
  texts.push(`${texts.pop()}]`)
  return texts.join(',')
}
