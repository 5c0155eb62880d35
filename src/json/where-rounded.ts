import * as CODE from './char-codes.ts'
import { pathAt, type Tokens } from './paths.ts'
import { END, JsonTokens } from './tokens.ts'

/** The shortest number that a double rounds to 0 is `1e-324`. */
const LEAST_CHARACTERS = 6

/** The first number in well-formed JSON that is rounded to 0 or to 2^53. The parsed value cannot show that. */
export function whereRounded(json: string): Rounded | undefined {
  const tokens = new JsonTokens(json)
  for (let code = tokens.next(); code !== END; code = tokens.next()) {
    if (tokens.end - tokens.begin < LEAST_CHARACTERS || (code !== CODE.MINUS && !CODE.isDigit(code))) continue
    const value = roundedValue(json.slice(tokens.begin, tokens.end))
    if (value !== undefined) return { value, path: pathAt(json, tokens.begin) }
  }
  return undefined
}

interface Rounded {
  readonly path: Tokens
  /** The rounded value: 0 or 2^53. */
  readonly value: number
}

/** Undefined if the number is not rounded. */
function roundedValue(number: string): number | undefined {
  const value = Math.abs(Number(number))
  if (value === 0) return /^-?[0.]*[1-9]/.test(number) ? 0 : undefined
  return value === 2 ** 53 && !is2to53(number) ? 2 ** 53 : undefined
}

/** Whether the number is exactly 2^53 in any notation, such as `90071992547409920e-1`. */
function is2to53(number: string): boolean {
  const [, integer = '', fraction = '', exponent = '0'] = /^-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(number) ?? []
  const digits = integer + fraction
  let begin = 0
  while (digits[begin] === '0') begin++
  let end = digits.length
  while (digits[end - 1] === '0') end--
  return (
    digits.slice(begin, end) === '9007199254740992' && Number(exponent) - fraction.length + digits.length - end === 0
  )
}

/** A number that becomes 0 has an exponent of three digits or very many zeros. */
const MAY_UNDERFLOW = /[eE]-0*[1-9]\d\d|(?<!0)0{200}/

/** Whether the text may contain a number other than 0 that becomes 0. False positives are possible. */
export function mayUnderflow(json: string): boolean {
  return MAY_UNDERFLOW.test(json)
}
