import { isUtf8 } from 'node:buffer'
import { crc32 } from 'node:zlib'
import * as CODE from '../json/char-codes.ts'
import { Malformed } from '../json/parse-steps.ts'

const BYTE_ORDER_MARK = Buffer.from('\uFEFF')

/** For each byte, whether it may belong to a number, `true`, `false` or `null`. */
const IS_WORD = Uint8Array.from({ length: 256 }, (_, byte) => (/[\w.+-]/.test(String.fromCharCode(byte)) ? 1 : 0))

/** Yielded when the scan needs further bytes. */
export const MORE = 'more'

export type ScanSteps<Result> = Generator<typeof MORE | undefined, Result>

/** Size of the window, unless a name is longer. */
const WINDOW_BYTES = 256 * 1024

/** Bytes of an object scanned in one step. */
const STEP_BYTES = 32 * 1024

/** The state at the beginning of an object. */
const NOTHING_CUT = {
  /** Bytes scanned. */
  passed: 0,
  /** Bytes without blanks between tokens; these are moved together at the beginning. */
  size: 0,
  /** All bytes, combined by "or". */
  all: 0,
  /** Number of open containers. */
  depth: 0,
  isInString: false,
  isEscaped: false,
}

/**
 * Scans the JSON of a data file of any length without parsing it: an object of arrays of objects. Throws Malformed for
 * syntax errors outside of objects, whose texts are only extracted.
 *
 * It holds a window of the file. When it yields MORE, put the next bytes into `room` and report them with `fed`; no
 * bytes mean the end of the file.
 */
export class JsonScanner {
  /** Tokens of a JSON Pointer to the current value, for error messages. */
  place: () => readonly (string | number)[] = () => []
  /** The current part of the file, and room for further bytes. */
  #window: Buffer = Buffer.allocUnsafeSlow(WINDOW_BYTES)
  /** Where the part ends in the window. */
  #end = 0
  /** The current offset in the window. */
  #at = 0
  #isWhole = false
  #cut = { ...NOTHING_CUT }
  /** The bytes of the last object, if it has no blanks between tokens; valid until the scan continues. */
  compact: Buffer | undefined

  /** Space for the next bytes. Discards scanned ones. */
  allocate(): Buffer {
    const rest = this.#end - this.#at
    // Doubles the window for long values, so that these are not scanned again for each part.
    const window = 2 * rest > this.#window.length ? Buffer.allocUnsafeSlow(2 * this.#window.length) : this.#window
    this.#window.copy(window, 0, this.#at, this.#end)
    this.#window = window
    this.#at = 0
    this.#end = rest
    return window.subarray(rest)
  }

  commit(bytes: number): void {
    this.#end += bytes
    if (bytes === 0) this.#isWhole = true
  }

  /** Skips to the first byte that is not blank. */
  *begin(): ScanSteps<void> {
    while (this.#end < BYTE_ORDER_MARK.length && !this.#isWhole) yield MORE
    if (this.#window.subarray(0, Math.min(this.#end, BYTE_ORDER_MARK.length)).equals(BYTE_ORDER_MARK)) {
      this.#at = BYTE_ORDER_MARK.length
    }
    yield* this.#skipBlanks()
  }

  /** The current byte, which is not blank; undefined at the end. */
  peek(): number | undefined {
    return this.#at < this.#end ? this.#window[this.#at] : undefined
  }

  /** Whether the object has another member (`isFirst`: the first of the object that begins here); moves to its name. */
  member(isFirst: boolean): ScanSteps<boolean> {
    return this.#next(isFirst, CODE.CLOSE_BRACE)
  }

  /** Whether the array has another element (`isFirst`: the first of the array that begins here); moves to it. */
  element(isFirst: boolean): ScanSteps<boolean> {
    return this.#next(isFirst, CODE.CLOSE_BRACKET)
  }

  /** The name of a member; moves to its value. */
  *name(): ScanSteps<string> {
    let bytes = this.#cutName()
    while (!bytes) {
      if (this.#isWhole || this.peek() !== CODE.QUOTE) throw new Malformed()
      yield MORE
      bytes = this.#cutName()
    }
    if (!isUtf8(bytes)) throw new Malformed()
    let name: string
    try {
      name = JSON.parse(bytes.toString())
    } catch {
      throw new Malformed()
    }
    yield* this.#skipBlanks()
    if (this.peek() !== CODE.COLON) throw new Malformed()
    yield* this.#pass()
    return name
  }

  /** The text of the object that begins here, without blanks between tokens. */
  *object(): ScanSteps<string> {
    this.#cut = { ...NOTHING_CUT }
    while (!this.#cutObject()) {
      if (this.#at + this.#cut.passed < this.#end) yield
      else if (this.#isWhole) throw new Malformed()
      else yield MORE
    }
    const { passed, size, all } = this.#cut
    const bytes = this.#window.subarray(this.#at, this.#at + size)
    if (all >= 0x80 && !isUtf8(bytes)) throw new Malformed()
    const text = bytes.toString(all < 0x80 ? 'latin1' : 'utf8')
    this.compact = passed === size ? bytes : undefined
    this.#at += passed
    return text
  }

  /** The text of the next `bytes` bytes if they have this crc32; otherwise undefined, and nothing is consumed. */
  *known(bytes: number, checksum: number): ScanSteps<string | undefined> {
    while (this.#end - this.#at < bytes && !this.#isWhole) yield MORE
    const text = this.#window.subarray(this.#at, Math.min(this.#at + bytes, this.#end))
    if (crc32(text) !== checksum) return undefined
    this.#at += bytes
    return text.toString()
  }

  /** Skips the value that begins here, of any type and length. */
  *skip(): ScanSteps<void> {
    const first = this.peek()
    if (first !== CODE.QUOTE && first !== CODE.OPEN_BRACE && first !== CODE.OPEN_BRACKET) yield* this.#skipWord()
    else {
      const inside = { depth: 0, isInString: false, isEscaped: false }
      while (!this.#passInside(inside)) {
        if (this.#at < this.#end) yield
        else if (this.#isWhole) throw new Malformed()
        else yield MORE
      }
    }
    yield* this.#skipBlanks()
  }

  /** Checks that nothing follows. */
  end(): void {
    if (this.peek() !== undefined) throw new Malformed()
  }

  *#next(isFirst: boolean, close: number): ScanSteps<boolean> {
    if (!isFirst) yield* this.#skipBlanks()
    const byte = isFirst ? undefined : this.peek()
    if (!isFirst && byte !== CODE.COMMA && byte !== close) throw new Malformed()
    yield* this.#pass()
    if (byte === close) return false
    if (isFirst && this.peek() === close) {
      yield* this.#pass()
      return false
    }
    const next = this.peek()
    if (next === undefined || next === CODE.COMMA || next === close) throw new Malformed()
    return true
  }

  *#pass(): ScanSteps<void> {
    this.#at++
    yield* this.#skipBlanks()
  }

  /** Skips a number, `true`, `false` or `null`. */
  *#skipWord(): ScanSteps<void> {
    if (!IS_WORD[this.peek() ?? CODE.SPACE]) throw new Malformed()
    for (;;) {
      while (this.#at < this.#end && IS_WORD[this.#window[this.#at] as number]) this.#at++
      if (this.#at < this.#end || this.#isWhole) return
      yield MORE
    }
  }

  /** Skips a part of a text, an object or a list; true at its end. */
  #passInside(inside: { depth: number; isInString: boolean; isEscaped: boolean }): boolean {
    const stop = Math.min(this.#end, this.#at + STEP_BYTES)
    while (this.#at < stop) {
      const byte = this.#window[this.#at++]
      if (inside.isEscaped) inside.isEscaped = false
      else if (byte === CODE.QUOTE) inside.isInString = !inside.isInString
      else if (inside.isInString) inside.isEscaped = byte === CODE.BACKSLASH
      else if (byte === CODE.OPEN_BRACE || byte === CODE.OPEN_BRACKET) inside.depth++
      else if (byte === CODE.CLOSE_BRACE || byte === CODE.CLOSE_BRACKET) inside.depth--
      if (inside.depth === 0 && !inside.isInString) return true
    }
    return false
  }

  *#skipBlanks(): ScanSteps<void> {
    while (!this.#passBlanks() && !this.#isWhole) yield MORE
  }

  /** False if the window ends before something else comes. */
  #passBlanks(): boolean {
    while (this.#at < this.#end && CODE.isBlank(this.#window[this.#at])) this.#at++
    return this.#at < this.#end
  }

  /** Consumes the name that begins here, with its quotes; undefined if it continues beyond the window. */
  #cutName(): Buffer | undefined {
    const bytes = this.#window
    if (this.peek() !== CODE.QUOTE) return undefined
    for (let at = this.#at + 1; at < this.#end; at++) {
      if (bytes[at] === CODE.BACKSLASH) at++
      else if (bytes[at] === CODE.QUOTE) {
        const name = bytes.subarray(this.#at, at + 1)
        this.#at = at + 1
        return name
      }
    }
    return undefined
  }

  /** Scans an object up to its end. False if it is longer than a step or the window; the next call continues. */
  #cutObject(): boolean {
    const cut = this.#cut
    const bytes = this.#window
    const length = Math.min(this.#end, this.#at + cut.passed + STEP_BYTES)
    let { all, depth, isInString, isEscaped } = cut
    let at = this.#at + cut.passed
    // Where the next byte is moved to: behind `at` once there was a blank.
    let to = this.#at + cut.size
    for (; at < length; at++) {
      const byte = bytes[at] as number
      if (isInString) {
        if (isEscaped) isEscaped = false
        else if (byte === CODE.QUOTE) isInString = false
        else if (byte === CODE.BACKSLASH) isEscaped = true
      } else if (byte <= CODE.SPACE && CODE.isBlank(byte)) continue
      else if (byte === CODE.QUOTE) isInString = true
      else if (byte === CODE.OPEN_BRACE || byte === CODE.OPEN_BRACKET) depth++
      else if (byte === CODE.CLOSE_BRACE || byte === CODE.CLOSE_BRACKET) depth--
      // Keeps one blank between words, which must not be joined.
      if (to < at && !isInString && IS_WORD[byte] && IS_WORD[bytes[to - 1] as number] && CODE.isBlank(bytes[at - 1]))
        bytes[to++] = CODE.SPACE
      if (to < at) bytes[to] = byte
      to++
      all |= byte
      if (depth === 0) break
    }
    const isDone = at < length
    cut.passed = (isDone ? at + 1 : at) - this.#at
    cut.size = to - this.#at
    cut.all = all
    cut.depth = depth
    cut.isInString = isInString
    cut.isEscaped = isEscaped
    return isDone
  }
}
