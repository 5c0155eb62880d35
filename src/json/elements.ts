import { Refusal } from '../runtime/errors.ts'
import * as CODE from './char-codes.ts'
import { MAX_NESTING, NESTED } from './item-size.ts'
import { Malformed } from './parse-text.ts'
import { endOfString } from './scan.ts'

/** Characters between two pauses. */
const PART_CHARACTERS = 64 * 1024
/** A request of another node of the cluster has an item inside it. */
const MOST_NESTING = MAX_NESTING + 10

/**
 * The texts of the elements of a JSON list, which are not parsed. Yields undefined now and then, so that the caller can
 * pause in a long element.
 * @throws {Refusal} `Invalid` where an element is nested too deeply.
 * @throws {Malformed} at the first place where the text is no list. Otherwise it is well-formed if each element is.
 */
export function* elementsOf(text: string): Generator<string | undefined, void> {
  let place: 'before' | 'inside' | 'after' = 'before'
  let depth = 0
  let size = 0
  /** Offset of the current element, or of the white space before it. */
  let begin = 0
  let pause = PART_CHARACTERS
  for (let at = 0; at < text.length; at++) {
    if (at > pause) {
      yield undefined
      pause = at + PART_CHARACTERS
    }
    const code = text.charCodeAt(at)
    if (CODE.isBlank(code)) {
      if (at === begin) begin++
      continue
    }
    if (place !== 'inside') {
      if (place === 'after' || code !== CODE.OPEN_BRACKET) throw new Malformed()
      place = 'inside'
      begin = at + 1
      continue
    }
    if (code === CODE.QUOTE) {
      at = endOfString(text, at)
      if (at < 0) break
    } else if (code === CODE.OPEN_BRACKET || code === CODE.OPEN_BRACE) {
      if (++depth > MOST_NESTING) throw new Refusal('Invalid', `${NESTED}.`)
    } else if (code === CODE.CLOSE_BRACKET || code === CODE.CLOSE_BRACE) depth--
    const isLast = depth < 0
    if (!isLast && (code !== CODE.COMMA || depth > 0)) continue
    const isNothing = at === begin
    if (code === CODE.CLOSE_BRACE || (isNothing && (size > 0 || !isLast))) throw new Malformed()
    if (!isNothing) yield text.slice(begin, at)
    size++
    begin = at + 1
    if (isLast) place = 'after'
  }
  if (place !== 'after') throw new Malformed()
}
