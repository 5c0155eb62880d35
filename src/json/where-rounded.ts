import * as CODE from './char-codes.ts'
import { pathAt } from './item-size.ts'
import { endOfString } from './scan.ts'

/** The shortest number that a double rounds to 0 is `1e-324`. */
const LEAST_CHARACTERS = 6
/** A number that becomes 0 has an exponent of three digits or very many zeros. */
const MAY_UNDERFLOW = /[eE]-0*[1-9]\d\d|(?<!0)0{200}/

/** Whether the text may contain a number other than 0 that becomes 0. False positives are possible. */
export function mayUnderflow(json: string): boolean {
  return MAY_UNDERFLOW.test(json)
}

interface Rounded {
  /** Tokens of a JSON Pointer. */
  readonly path: readonly (string | number)[]
  /** The rounded value: 0 or 2^53. */
  readonly value: number
}

/** The first number in well-formed JSON that is rounded to 0 or to 2^53. The parsed value cannot show that. */
export function whereRounded(json: string): Rounded | undefined {
  for (let at = 0; at < json.length; at++) {
    const code = json.charCodeAt(at)
    if (code === CODE.QUOTE) at = endOfString(json, at)
    else if (isOfNumber(code)) {
      const begin = at
      while (isOfNumber(json.charCodeAt(at + 1))) at++
      const value = at + 1 - begin < LEAST_CHARACTERS ? undefined : roundedTo(json.slice(begin, at + 1))
      if (value !== undefined) return { value, path: pathAt(json, begin) }
    }
  }
  return undefined
}

/** Also matches letters of `true` and `false`, which are too short to be taken for a number. */
function isOfNumber(code: number): boolean {
  const { MINUS, DOT, PLUS, LETTER_E } = CODE
  return CODE.isDigit(code) || code === MINUS || code === DOT || code === PLUS || (code | 0x20) === LETTER_E
}

/** Undefined if the number is not rounded. */
function roundedTo(number: string): number | undefined {
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
