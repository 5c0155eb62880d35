import * as CODE from './char-codes.ts'
import { endOfString } from './quoted.ts'

/** A container that is open at some offset of a JSON text. */
interface OpenContainer {
  readonly isArray: boolean
  /** The index of the current element, or the offset of the current member's name. */
  at: number
}

/** Tokens of a JSON Pointer to the value at an offset of JSON, which need not be well-formed. */
export function pathAt(json: string, offset: number): readonly (string | number)[] {
  const open: OpenContainer[] = []
  let string = 0
  for (let at = 0; at < offset; at++) {
    const code = json.charCodeAt(at)
    const innermost = open[open.length - 1]
    if (code === CODE.QUOTE) {
      string = at
      at = endOfString(json, at)
    } else if (code === CODE.OPEN_BRACKET || code === CODE.OPEN_BRACE)
      open.push({ isArray: code === CODE.OPEN_BRACKET, at: 0 })
    else if (code === CODE.CLOSE_BRACKET || code === CODE.CLOSE_BRACE) open.pop()
    else if (code === CODE.COLON && innermost) innermost.at = string
    else if (code === CODE.COMMA && innermost?.isArray) innermost.at++
  }
  return open.map(({ isArray, at }) => (isArray ? at : nameAt(json, at)))
}

function nameAt(json: string, begin: number): string {
  const name = json.slice(begin, endOfString(json, begin) + 1)
  try {
    return JSON.parse(name)
  } catch {
    return name
  }
}
