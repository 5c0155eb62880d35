import { type ParseErrorCode, printParseErrorCode, visit } from 'jsonc-parser'

/** What comes before a part of a text. */
export interface Before {
  /** Text that may stand in its place, as far as the part is concerned; of one line. */
  readonly before: string
  /** Newlines in it. */
  readonly lines: number
  /** Characters after the last of them. */
  readonly column: number
}

const NOTHING: Before = { before: '', lines: 0, column: 0 }

/**
 * What is wrong with text that is no JSON, and in which line and column. JSON.parse does not always say where it
 * stumbled, and quotes the text, which may be secret.
 */
export function whereMalformed(part: string, { before, lines, column }: Before = NOTHING): string {
  const found = firstErrorBehindBlanks(before + part)
  if (!found) return 'it cannot be parsed, or is nested too deeply'
  const passed = linesBefore(part, Math.max(0, found.offset - before.length))
  const inLine = passed.column + (passed.lines === 0 ? column : 0)
  return `${printParseErrorCode(found.code)} in line ${lines + passed.lines + 1}, column ${inLine + 1}`
}

/** The newlines before an offset, and the characters after the last of them. */
export function linesBefore(text: string, offset: number): { readonly lines: number; readonly column: number } {
  let lines = 0
  let lineBegin = 0
  for (let at = 0; at < offset; at++) {
    if (text.charCodeAt(at) !== NEWLINE) continue
    lines++
    lineBegin = at + 1
  }
  return { lines, column: offset - lineBegin }
}

const NEWLINE = 0x0a

interface Found {
  readonly code: ParseErrorCode
  readonly offset: number
}

/** Blanks that are looked at as one: the parser takes 100 ns for each newline. */
const BLANKS = /[ \t\r\n]{8,}/g

/** The same as `firstError`, for text that may be almost nothing but blanks. */
function firstErrorBehindBlanks(text: string): Found | undefined {
  let short = ''
  let from = 0
  /** Where the short text lacks blanks, and how many up to there. */
  const lacks: { readonly at: number; readonly characters: number }[] = []
  for (const { 0: blanks, index } of text.matchAll(BLANKS)) {
    // Within a string a newline is what is wrong.
    short += text.slice(from, index) + (blanks.includes('\n') ? '\n' : ' ')
    from = index + blanks.length
    lacks.push({ at: short.length, characters: from - short.length })
  }
  const found = firstError(short + text.slice(from))
  const lack = found && lacks.findLast(({ at }) => at <= found.offset)
  return found && { ...found, offset: found.offset + (lack?.characters ?? 0) }
}

/** It is looked no further, as text may hold a million errors. Undefined when the end of the stack came first. */
function firstError(text: string): Found | undefined {
  let found: Found | undefined
  const onError = (code: ParseErrorCode, offset: number): void => {
    found ??= { code, offset }
    throw new Error('found')
  }
  try {
    visit(text, { onError }, { disallowComments: true, allowTrailingComma: false })
  } catch {
    return found
  }
  return found
}
