import { Refusal } from '../runtime/errors.ts'
import * as CODE from './char-codes.ts'
import { MAX_NESTING, NESTED } from './item-size.ts'
import { Malformed } from './parse-text.ts'
import { END, JsonTokens } from './tokens.ts'

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
  const tokens = new JsonTokens(text)
  if (tokens.next() !== CODE.OPEN_BRACKET) throw new Malformed()
  let size = 0
  let pause = PART_CHARACTERS
  for (let code: number = CODE.COMMA; code !== CODE.CLOSE_BRACKET; size++) {
    code = tokens.next()
    const { begin } = tokens
    let end = begin
    // Up to the comma or bracket after the element. Between brackets, depth is above 0.
    for (let depth = 0; depth > 0 || (code !== CODE.COMMA && code !== CODE.CLOSE_BRACKET); code = tokens.next()) {
      if (code === CODE.OPEN_BRACKET || code === CODE.OPEN_BRACE) {
        if (++depth > MOST_NESTING) throw new Refusal('Invalid', `${NESTED}.`)
      } else if (code === CODE.CLOSE_BRACKET || code === CODE.CLOSE_BRACE) depth--
      if (code === END || depth < 0) throw new Malformed()
      end = tokens.end
      if (end < pause) continue
      yield undefined
      pause = end + PART_CHARACTERS
    }
    if (end > begin) yield text.slice(begin, end)
    else if (size > 0 || code === CODE.COMMA) throw new Malformed()
  }
  if (tokens.next() !== END || tokens.begin < text.length) throw new Malformed()
}
