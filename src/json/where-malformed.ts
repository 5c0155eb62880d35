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
  const found = firstError(before + part)
  if (!found) return 'it cannot be parsed, or is nested too deeply'
  const passed = part.slice(0, Math.max(0, found.offset - before.length)).split('\n')
  const inLine = (passed.at(-1) ?? '').length + (passed.length === 1 ? column : 0)
  return `${printParseErrorCode(found.code)} in line ${lines + passed.length}, column ${inLine + 1}`
}

interface Found {
  readonly code: ParseErrorCode
  readonly offset: number
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
