import * as CODE from './char-codes.ts'

/** Printable ASCII without characters that JSON escapes. */
const PLAIN = /^[ !#-[\]-~]*$/

/** Stringifies a text. Testing for plain ASCII costs a third of `JSON.stringify`, and most texts are plain. */
export function quoted(text: string): string {
  return PLAIN.test(text) ? `"${text}"` : JSON.stringify(text)
}

/** Offset of the closing quote of the string that starts at `start`; -1 if it is unterminated. */
export function endOfString(json: string, start: number): number {
  let at = json.indexOf('"', start + 1)
  if (at < 0 || !isEscaped(json, at)) return at
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

/** Offset of the first character at or after `from` that is no white space; the text's length if there is none. */
export function afterBlanks(text: string, from: number): number {
  let at = from
  while (at < text.length && CODE.isBlank(text.charCodeAt(at))) at++
  return at
}
