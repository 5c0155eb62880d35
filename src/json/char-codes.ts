// Characters of JSON, as UTF-16 units or bytes of UTF-8.
const TAB = 0x09
export const NEWLINE = 0x0a
export const RETURN = 0x0d
export const SPACE = 0x20
export const QUOTE = 0x22
export const COMMA = 0x2c
export const MINUS = 0x2d
export const POINT = 0x2e
export const SLASH = 0x2f
export const ZERO = 0x30
export const COLON = 0x3a
export const OPEN_BRACKET = 0x5b
export const BACKSLASH = 0x5c
export const CLOSE_BRACKET = 0x5d
export const LETTER_U = 0x75
export const OPEN_BRACE = 0x7b
export const CLOSE_BRACE = 0x7d

/** Whether a character is white space between tokens. */
export function isBlank(code: number | undefined): boolean {
  return code === SPACE || code === NEWLINE || code === RETURN || code === TAB
}

export function isDigit(code: number): boolean {
  return code >= ZERO && code <= ZERO + 9
}
