import { isUtf8 } from 'node:buffer'
import * as CODE from '../json/char-codes.ts'
import { Malformed } from '../json/parse.ts'

const BYTE_ORDER_MARK = Buffer.from('\uFEFF')

/** For each byte, whether it may belong to a number, `true`, `false` or `null`. */
const IS_WORD = Uint8Array.from({ length: 256 }, (_, byte) => (/[\w.+-]/.test(String.fromCharCode(byte)) ? 1 : 0))

/** Size of the window, unless a value is longer. */
const WINDOW_BYTES = 256 * 1024
const MOST_WINDOW_BYTES = 64 * 1024 * 1024

/** The result of `peek` at the end of the file. */
export const END = -1

/**
 * Scans the JSON of a data file of any length without parsing it: an object of arrays of objects. Throws Malformed for
 * syntax errors outside of objects, whose texts are only extracted. It scans bytes: with `JsonTokens` of their text, reading
 * a file takes a fifth longer, and half as long again where its items are not parsed.
 *
 * It holds a window of the file. A method that needs further bytes returns undefined, and is to be called again after
 * these were put where `allocate` says and reported with `commit`; no bytes mean the end of the file.
 */
export class JsonScanner {
  /** The current part of the file, and space for further bytes. */
  #window: Buffer = Buffer.allocUnsafeSlow(WINDOW_BYTES)
  /** Where the part ends in the window. */
  #end = 0
  /** The current offset in the window. */
  #at = 0
  #isAllRead = false
  /** The bytes of the last object, combined by "or". */
  #allBits = 0

  /** Space for the next bytes. Discards scanned ones. Undefined if a value is too long. */
  allocate(): Buffer | undefined {
    const rest = this.#end - this.#at
    // Doubles the window for long values, so that each byte is scanned three times at most.
    const before = this.#window.length
    const size = 2 * rest > before ? Math.min(2 * before, MOST_WINDOW_BYTES) : before
    if (rest === size) return undefined
    const window = size > before ? Buffer.allocUnsafeSlow(size) : this.#window
    this.#window.copy(window, 0, this.#at, this.#end)
    this.#window = window
    this.#at = 0
    this.#end = rest
    return window.subarray(rest)
  }

  commit(bytes: number): void {
    this.#end += bytes
    if (bytes === 0) this.#isAllRead = true
  }

  /** Skips a byte order mark. */
  begin(): true | undefined {
    if (this.#end < BYTE_ORDER_MARK.length && !this.#isAllRead) return undefined
    const first = this.#window.subarray(0, Math.min(this.#end, BYTE_ORDER_MARK.length))
    if (first.equals(BYTE_ORDER_MARK)) this.#at = BYTE_ORDER_MARK.length
    return true
  }

  /** The first byte that is not blank; END at the end. */
  peek(): number | undefined {
    while (this.#at < this.#end && CODE.isBlank(this.#window[this.#at])) this.#at++
    if (this.#at < this.#end) return this.#window[this.#at]
    return this.#isAllRead ? END : undefined
  }

  /** Whether the object has another member (`isFirst`: the first of the object that begins here); moves to its name. */
  member(isFirst: boolean): boolean | undefined {
    return this.#next(isFirst, CODE.CLOSE_BRACE)
  }

  /** Whether the array has another element (`isFirst`: the first of the array that begins here); moves to it. */
  element(isFirst: boolean): boolean | undefined {
    return this.#next(isFirst, CODE.CLOSE_BRACKET)
  }

  #next(isFirst: boolean, close: number): boolean | undefined {
    const begin = this.#at
    const byte = isFirst ? undefined : this.peek()
    if (!isFirst && byte === undefined) return undefined
    if (!isFirst && byte !== CODE.COMMA && byte !== close) throw new Malformed()
    this.#at++
    if (byte === close) return false
    const next = this.peek()
    if (next === undefined) {
      this.#at = begin
      return undefined
    }
    if (isFirst && next === close) {
      this.#at++
      return false
    }
    if (next === END || next === CODE.COMMA || next === close) throw new Malformed()
    return true
  }

  /** The name of a member; moves to its value. */
  name(): string | undefined {
    const begin = this.#at
    if (this.peek() !== CODE.QUOTE) throw new Malformed()
    const end = this.#endOfString(this.#at)
    if (end === undefined) return this.#needMore()
    const bytes = this.#window.subarray(this.#at, end)
    this.#at = end
    const colon = this.peek()
    if (colon === CODE.COLON) this.#at++
    if (colon === undefined || this.peek() === undefined) {
      this.#at = begin
      return undefined
    }
    if (colon !== CODE.COLON || !isUtf8(bytes)) throw new Malformed()
    try {
      return JSON.parse(bytes.toString())
    } catch {
      throw new Malformed()
    }
  }

  /** The text of the object that begins here. */
  object(): string | undefined {
    const end = this.#endOfContainer()
    if (end === undefined) return this.#needMore()
    const bytes = this.#window.subarray(this.#at, end)
    const isAscii = this.#allBits < 0x80
    if (!isAscii && !isUtf8(bytes)) throw new Malformed()
    this.#at = end
    return bytes.toString(isAscii ? 'latin1' : 'utf8')
  }

  /** Skips the value that begins here, of any type. */
  skip(): true | undefined {
    const first = this.peek()
    const isContainer = first === CODE.OPEN_BRACE || first === CODE.OPEN_BRACKET
    const isText = first === CODE.QUOTE
    const end = isContainer ? this.#endOfContainer() : isText ? this.#endOfString(this.#at) : this.#endOfWord()
    if (end === undefined) return this.#needMore()
    this.#at = end
    return true
  }

  /** The value goes on behind the window, unless the file ends there. */
  #needMore(): undefined {
    if (this.#isAllRead) throw new Malformed()
  }

  #endOfString(begin: number): number | undefined {
    const bytes = this.#window
    for (let at = begin + 1; at < this.#end; at++) {
      if (bytes[at] === CODE.BACKSLASH) at++
      else if (bytes[at] === CODE.QUOTE) return at + 1
    }
    return undefined
  }

  #endOfWord(): number | undefined {
    let at = this.#at
    while (at < this.#end && IS_WORD[this.#window[at] as number]) at++
    if (at === this.#end && !this.#isAllRead) return undefined
    if (at === this.#at) throw new Malformed()
    return at
  }

  #endOfContainer(): number | undefined {
    const bytes = this.#window
    const end = this.#end
    let allBits = 0
    let depth = 0
    for (let at = this.#at; at < end; at++) {
      const byte = bytes[at] as number
      allBits |= byte
      if (byte === CODE.QUOTE) {
        for (at++; at < end && bytes[at] !== CODE.QUOTE; at++) {
          allBits |= bytes[at] as number
          if (bytes[at] === CODE.BACKSLASH) at++
        }
      } else if (byte === CODE.OPEN_BRACE || byte === CODE.OPEN_BRACKET) depth++
      else if ((byte === CODE.CLOSE_BRACE || byte === CODE.CLOSE_BRACKET) && --depth === 0) {
        this.#allBits = allBits
        return at + 1
      }
    }
    return undefined
  }
}
