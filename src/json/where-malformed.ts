import * as CODE from './char-codes.ts'

/**
 * The first syntax error of JSON text: line, column and the expected token; undefined if there is none. `JSON.parse`
 * does not always report the position, and its message quotes the text, which may be secret.
 */
export function whereMalformed(text: string): string | undefined {
  const syntax = new Syntax()
  return syntax.errorIn(text) ?? syntax.errorAtEnd()
}

/** Messages for each expected token. */
const EXPECTED = {
  document: 'a value was expected',
  end: 'nothing more was expected after the value',
  firstElement: 'a value or ] was expected',
  element: 'a value was expected after the comma',
  endOfElement: 'a comma or ] was expected',
  firstName: 'a member name in double quotes or } was expected',
  name: 'a member name in double quotes was expected after the comma',
  colon: 'a colon was expected after the member name',
  memberValue: 'a value was expected after the colon',
  endOfMember: 'a comma or } was expected',
}

type Expected = keyof typeof EXPECTED

const VALUES: readonly Expected[] = ['document', 'firstElement', 'element', 'memberValue']

const ERRORS = {
  control: 'the string has a control character, which must be written as an escape such as \\n or \\u0009',
  escape: 'the string has a backslash that begins no escape; a backslash itself is written \\\\',
  unicode: '\\u in the string must be followed by four hexadecimal digits',
  unclosed: 'the string has no closing double quote in its line',
  comment: 'JSON has no comments',
  number: 'the number has no digits after its point or exponent',
  word: 'a value is text in double quotes, a number, true, false, null, a list or an object',
}

const DELIMITERS = Array.from('",:[]{}', (character) => character.charCodeAt(0))
const HEX_DIGIT = /[\da-fA-F]/
const ESCAPED = /["\\/bfnrt]/
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y
const UNFINISHED_NUMBER = /-?(?:0|[1-9]\d*)(?:\.(?!\d)|(?:\.\d+)?[eE](?![+-]?\d))/y
const LITERAL = /(?:true|false|null)(?![^/])/y

/** A scanner for JSON text that arrives in chunks. */
export class Syntax {
  #expected: Expected = 'document'
  /** For each open container, the outermost first: whether it is an array. */
  readonly #containers: boolean[] = []
  /** Length of all previous chunks. */
  #passed = 0
  #line = 1
  /** Offset of the current line. */
  #lineBegin = 0
  /** Offset of the last string or word. */
  #begin = 0
  /** The characters since the last delimiter. */
  #word = ''
  #isInString = false
  /** Characters of an escape still to come: five after the backslash, four after `\u`. */
  #escape = 0

  errorIn(chunk: string): string | undefined {
    let error: string | undefined
    for (let at = 0; at < chunk.length && error === undefined; at++) {
      const code = chunk.charCodeAt(at)
      if (this.#isInString) error = this.#errorInString(code)
      else if (isDelimiter(code)) error = this.#errorInWord() ?? this.#errorAt(code, this.#passed + at)
      else {
        if (this.#word === '') this.#begin = this.#passed + at
        const from = at
        while (at + 1 < chunk.length && !isDelimiter(chunk.charCodeAt(at + 1))) at++
        this.#word += chunk.slice(from, at + 1)
      }
    }
    this.#passed += chunk.length
    return error
  }

  errorAtEnd(): string | undefined {
    if (this.#isInString) return this.#message(ERRORS.unclosed, this.#begin)
    const error = this.#errorInWord()
    if (error !== undefined || this.#expected === 'end') return error
    return this.#message(`the text ends where ${EXPECTED[this.#expected]}`, this.#passed)
  }

  #errorInString(code: number): string | undefined {
    if (this.#escape === 0) {
      if (code === CODE.QUOTE) this.#isInString = false
      else if (code === CODE.BACKSLASH) this.#escape = 5
      else if (code === CODE.NEWLINE || code === CODE.RETURN) return this.#message(ERRORS.unclosed, this.#begin)
      else if (code < CODE.SPACE) return this.#message(ERRORS.control, this.#begin)
      return undefined
    }
    const isFirst = this.#escape === 5
    this.#escape = isFirst && code !== CODE.LETTER_U ? 0 : this.#escape - 1
    if (isFirst && code === CODE.LETTER_U) return undefined
    if ((isFirst ? ESCAPED : HEX_DIGIT).test(String.fromCharCode(code))) return undefined
    return this.#message(isFirst ? ERRORS.escape : ERRORS.unicode, this.#begin)
  }

  /** Checks the word that has ended, which may consist of several tokens. */
  #errorInWord(): string | undefined {
    const word = this.#word
    this.#word = ''
    for (let at = 0; at < word.length; ) {
      const begin = this.#begin + at
      if (word.charCodeAt(at) === CODE.SLASH) {
        return /[/*]/.test(word.charAt(at + 1)) ? this.#message(ERRORS.comment, begin) : this.#unexpected(begin)
      }
      if (matchLength(UNFINISHED_NUMBER, word, at) > 0) return this.#message(ERRORS.number, begin)
      const length = matchLength(NUMBER, word, at) || matchLength(LITERAL, word, at)
      if (length === 0 || !this.#takesValue) return this.#unexpected(begin)
      this.#expected = this.#afterValue
      at += length
    }
    return undefined
  }

  #errorAt(code: number, begin: number): string | undefined {
    if (code === CODE.NEWLINE) {
      this.#line++
      this.#lineBegin = begin + 1
    }
    if (CODE.isBlank(code)) return undefined
    const next = this.#expectedAfter(code)
    if (next === undefined) return this.#message(EXPECTED[this.#expected], begin)
    this.#expected = next
    if (code === CODE.QUOTE) {
      this.#isInString = true
      this.#begin = begin
    }
    return undefined
  }

  /** The expected token after the one that begins with `code`; undefined if that one is not allowed here. */
  #expectedAfter(code: number): Expected | undefined {
    const expected = this.#expected
    switch (code) {
      case CODE.QUOTE:
        if (expected === 'firstName' || expected === 'name') return 'colon'
        return this.#takesValue ? this.#afterValue : undefined
      case CODE.OPEN_BRACKET:
      case CODE.OPEN_BRACE:
        if (!this.#takesValue) return undefined
        this.#containers.push(code === CODE.OPEN_BRACKET)
        return code === CODE.OPEN_BRACKET ? 'firstElement' : 'firstName'
      case CODE.CLOSE_BRACKET:
        return expected === 'firstElement' || expected === 'endOfElement' ? this.#leave() : undefined
      case CODE.CLOSE_BRACE:
        return expected === 'firstName' || expected === 'endOfMember' ? this.#leave() : undefined
      case CODE.COMMA:
        if (expected === 'endOfElement') return 'element'
        return expected === 'endOfMember' ? 'name' : undefined
      default:
        return expected === 'colon' ? 'memberValue' : undefined
    }
  }

  #leave(): Expected {
    this.#containers.pop()
    return this.#afterValue
  }

  get #takesValue(): boolean {
    return VALUES.includes(this.#expected)
  }

  get #afterValue(): Expected {
    const isInArray = this.#containers.at(-1)
    if (isInArray === undefined) return 'end'
    return isInArray ? 'endOfElement' : 'endOfMember'
  }

  /** The message for a character that begins no token allowed here. */
  #unexpected(at: number): string {
    const expected = EXPECTED[this.#expected]
    return this.#message(this.#takesValue ? `${expected}; ${ERRORS.word}` : expected, at)
  }

  #message(error: string, at: number): string {
    return `line ${this.#line}, column ${at - this.#lineBegin + 1}: ${error}`
  }
}

function isDelimiter(code: number): boolean {
  return CODE.isBlank(code) || DELIMITERS.includes(code)
}

/** Length of the match of a sticky expression at an offset; 0 without a match. */
function matchLength(expression: RegExp, text: string, at: number): number {
  expression.lastIndex = at
  return expression.test(text) ? expression.lastIndex - at : 0
}
