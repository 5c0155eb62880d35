import * as CODE from './char-codes.ts'
import { END, JsonTokens } from './tokens.ts'

/** A value in a JSON text, from one offset to another. */
export interface JsonNode {
  readonly begin: number
  readonly end: number
  readonly kind: 'array' | 'object' | 'other'
  readonly children: readonly JsonChild[]
}

/** A member of an object or an element of an array. */
export interface JsonChild {
  readonly index: number
  /** Where it begins: with the name of a member. */
  readonly begin: number
  /** Empty for an element. */
  readonly name: string
  /** The end of the name. */
  readonly nameEnd: number
  readonly value: JsonNode
}

/**
 * The value in a text, which must be JSON. Values more levels below have no children.
 * @throws {SyntaxError} if the text ends before the value.
 */
export function nodeIn(text: string, levels = Number.POSITIVE_INFINITY): JsonNode {
  const tokens = new JsonTokens(text)
  return nodeAt(text, tokens, next(tokens), levels)
}

function nodeAt(text: string, tokens: JsonTokens, code: number, levels: number): JsonNode {
  const { begin } = tokens
  const children: JsonChild[] = []
  if (!isOpening(code)) return { begin, end: tokens.end, kind: 'other', children }
  const kind = code === CODE.OPEN_BRACKET ? 'array' : 'object'
  if (levels === 0) {
    for (let depth = 1; depth > 0; ) {
      const inner = next(tokens)
      if (isOpening(inner)) depth++
      else if (isClosing(inner)) depth--
    }
    return { begin, end: tokens.end, kind, children }
  }
  for (let first = next(tokens); !isClosing(first); first = next(tokens)) {
    if (first === CODE.COMMA) continue
    const { begin: from, end: nameEnd } = tokens
    const isMember = kind === 'object'
    const name = isMember ? (JSON.parse(text.slice(from, nameEnd)) as string) : ''
    // The colon comes between them.
    if (isMember) next(tokens)
    const value = nodeAt(text, tokens, isMember ? next(tokens) : first, levels - 1)
    children.push({ index: children.length, begin: from, name, nameEnd: isMember ? nameEnd : from, value })
  }
  return { begin, end: tokens.end, kind, children }
}

function next(tokens: JsonTokens): number {
  const code = tokens.next()
  if (code === END) throw new SyntaxError('The text ends before its value.')
  return code
}

function isOpening(code: number): boolean {
  return code === CODE.OPEN_BRACE || code === CODE.OPEN_BRACKET
}

function isClosing(code: number): boolean {
  return code === CODE.CLOSE_BRACE || code === CODE.CLOSE_BRACKET
}
