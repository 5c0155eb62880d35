import * as CODE from './char-codes.ts'

/** The result of `next` after the last token. */
export const END = -1

/** For each ASCII character, whether it belongs to a word: a number, `true`, `false`, `null`, or what stands in place of one. */
const IS_WORD = Uint8Array.from({ length: 128 }, (_, code) =>
  /[^ \t\n\r,:"[\]{}]/.test(String.fromCharCode(code)) ? 1 : 0,
)

/**
 * The tokens of JSON text from an offset on: strings, words, and single characters of punctuation. The text need not be
 * well-formed.
 */
export class JsonTokens {
  /** Where the current token begins and ends. */
  begin = 0
  end: number
  readonly #json: string

  constructor(json: string, from = 0) {
    this.#json = json
    this.end = from
  }

  /** Moves to the next token. Returns its first character, which tells its kind; END if there is none, or a string has no end. */
  next(): number {
    const json = this.#json
    let at = this.end
    let code = json.charCodeAt(at)
    while (code <= CODE.SPACE && CODE.isBlank(code)) code = json.charCodeAt(++at)
    this.begin = at
    if (at >= json.length) return END
    if (code === CODE.QUOTE) {
      at = endOfString(json, at)
      if (at < 0) return END
    } else if (isWord(code)) while (at + 1 < json.length && isWord(json.charCodeAt(at + 1))) at++
    this.end = at + 1
    return code
  }
}

function isWord(code: number): boolean {
  return code >= IS_WORD.length || IS_WORD[code] === 1
}

/** Offset of the closing quote of the string that starts at `start`; -1 if it is unterminated. */
export function endOfString(json: string, start: number): number {
  let at = json.indexOf('"', start + 1)
  if (at < 0 || json.charCodeAt(at - 1) !== CODE.BACKSLASH || !isEscaped(json, at)) return at
  // With very many escaped quotes, repeated `indexOf` takes five times as long.
  for (at++; at < json.length; at++) {
    const code = json.charCodeAt(at)
    if (code === CODE.QUOTE) return at
    if (code === CODE.BACKSLASH) at++
  }
  return -1
}

function isEscaped(json: string, at: number): boolean {
  let before = at - 1
  while (json.charCodeAt(before) === CODE.BACKSLASH) before--
  return (at - before) % 2 === 0
}
