import { type ParseErrorCode, printParseErrorCode, visit } from 'jsonc-parser'

/**
 * What is wrong with text that is no JSON, and in which line and column. JSON.parse does not always say where it
 * stumbled, and quotes the text, which may be secret.
 */
export function whereMalformed(text: string): string {
  const found = firstError(text)
  if (!found) return 'it cannot be parsed, or is nested too deeply'
  const lines = text.slice(0, found.offset).split('\n')
  return `${printParseErrorCode(found.code)} in line ${lines.length}, column ${(lines.at(-1) ?? '').length + 1}`
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
