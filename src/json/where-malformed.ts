import { type ParseError, parse, printParseErrorCode } from 'jsonc-parser'

/**
 * What is wrong with text that is no JSON, and in which line and column. JSON.parse does not always say where it
 * stumbled, and quotes the text, which may be secret.
 */
export function whereMalformed(text: string): string {
  const errors: ParseError[] = []
  try {
    parse(text, errors, { disallowComments: true, allowTrailingComma: false })
  } catch {
    return 'it is nested too deeply'
  }
  const [first] = errors
  if (!first) return 'it cannot be parsed'
  const lines = text.slice(0, first.offset).split('\n')
  return `${printParseErrorCode(first.error)} in line ${lines.length}, column ${(lines.at(-1) ?? '').length + 1}`
}
