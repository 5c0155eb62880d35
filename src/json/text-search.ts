import type { Steps } from '../runtime/steps.ts'

/** `String.includes` may need as many comparisons as the product of both lengths. This limit takes a millisecond. */
const NATIVE_PRODUCT = 2 ** 20
/** UTF-16 units searched in one step. */
const STEP = 2 ** 16

/** Whether a text contains another, in linear time. */
export function* contains(text: string, wanted: string): Steps<boolean> {
  if (wanted.length > text.length) return false
  if (text.length * wanted.length <= NATIVE_PRODUCT) return text.includes(wanted)
  const search = new Search(wanted)
  for (let from = 0; from < text.length; from += STEP) {
    if (search.isIn(text.slice(from, from + STEP))) return true
    yield
  }
  return false
}

/** Folds case, by both conversions, as some letters have two forms in one case: σ and ς, K and the kelvin sign. */
export function fold(text: string): string {
  return text.toLowerCase().toUpperCase()
}

/** Whether the case-folded text contains any of the texts, which must be folded already. */
export function* containsFolded(text: string, wanted: readonly string[]): Steps<boolean> {
  if (text.length <= STEP) {
    const folded = fold(text)
    for (const one of wanted) {
      if (yield* contains(folded, one)) return true
      if (wanted.length * folded.length > NATIVE_PRODUCT) yield
    }
    return false
  }
  const searches = wanted.map((one) => new Search(one))
  for (let from = 0, to = 0; from < text.length; from = to) {
    to = Math.min(text.length, from + STEP)
    // A surrogate pair must not be split before folding.
    if ((text.charCodeAt(to - 1) & 0xfc00) === 0xd800) to++
    const piece = fold(text.slice(from, to))
    for (const search of searches) {
      if (search.isIn(piece)) return true
      yield
    }
  }
  return false
}

/** Knuth-Morris-Pratt search in a text that arrives in pieces. */
class Search {
  readonly #wanted: string
  /** The failure table: by the number of matched units, the length of the longest shorter match to continue with. */
  readonly #shorter: Int32Array
  #matched = 0

  constructor(wanted: string) {
    this.#wanted = wanted
    this.#shorter = new Int32Array(wanted.length + 1)
    for (let length = 1, matched = 0; length < wanted.length; ) {
      if (wanted.charCodeAt(length) === wanted.charCodeAt(matched)) this.#shorter[++length] = ++matched
      else if (matched > 0) matched = this.#shorter[matched] as number
      else length++
    }
  }

  /** Whether the match ends in this piece; it may have begun in earlier ones. */
  isIn(piece: string): boolean {
    const wanted = this.#wanted
    const shorter = this.#shorter
    let matched = this.#matched
    for (let index = 0; index < piece.length && matched < wanted.length; index++) {
      const unit = piece.charCodeAt(index)
      while (matched > 0 && unit !== wanted.charCodeAt(matched)) matched = shorter[matched] as number
      if (unit === wanted.charCodeAt(matched)) matched++
    }
    this.#matched = matched
    return matched === wanted.length
  }
}
