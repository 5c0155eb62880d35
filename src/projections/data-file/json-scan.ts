import { isUtf8 } from 'node:buffer'
import { crc32 } from 'node:zlib'
import { Malformed } from '../../json/parse-steps.ts'

const TAB = 0x09
const NEWLINE = 0x0a
const RETURN = 0x0d
const SPACE = 0x20
const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_BRACKET = 0x5b
const BACKSLASH = 0x5c
const CLOSE_BRACKET = 0x5d
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const BYTE_ORDER_MARK = Buffer.from('\uFEFF')

/** Of each byte, whether it may be one of a number, `true`, `false` or `null`. */
const IS_WORD = Uint8Array.from({ length: 256 }, (_, byte) => (/[\w.+-]/.test(String.fromCharCode(byte)) ? 1 : 0))

/** Asked for where the bytes that there are end before what is gone through does. */
export const MORE = 'more'

export type Scanning<Result> = Generator<typeof MORE | undefined, Result>

/** So many bytes it has at a time, unless a name is longer. */
const WINDOW_BYTES = 256 * 1024

/** Bytes of an object that are passed in one step. */
const STEP_BYTES = 32 * 1024

/** The state at the beginning of an object. */
const NOTHING_CUT = {
  /** Bytes that were looked at. */
  passed: 0,
  /** Bytes without the blanks between tokens; they are moved together at the beginning. */
  size: 0,
  /** All of them, combined by "or". */
  all: 0,
  /** Containers that it is in. */
  depth: 0,
  isInString: false,
  isEscaped: false,
}

/**
 * Goes through the JSON of a data file without parsing it, however long it is: an object of arrays of objects. What
 * is wrong with it is thrown as Malformed, but for what is wrong within the objects, whose texts are only cut out.
 *
 * It has a part of the file at a time. Whenever it asks for MORE, the next bytes are to be put into `room` and told of
 * with `fed`, no bytes at the end of the file.
 */
export class JsonScan {
  /** The tokens of a JSON Pointer to what it goes through, for whoever has to say where something is wrong. */
  place: () => readonly (string | number)[] = () => []
  /** The part of the file that it goes through now, and room for what follows. */
  #window: Buffer = Buffer.allocUnsafeSlow(WINDOW_BYTES)
  /** Where in the window the part ends. */
  #end = 0
  /** Where in the window it stands. */
  #at = 0
  #isWhole = false
  #cut = { ...NOTHING_CUT }
  /** The bytes of the last object as they are in the file, if it has no blanks between tokens; until it goes on. */
  compact: Buffer | undefined

  /** Where the next bytes belong. What was passed gives way to them. */
  room(): Buffer {
    const rest = this.#end - this.#at
    // As much room again as is kept, so that what is long is not gone through once for each part of it.
    const window = 2 * rest > this.#window.length ? Buffer.allocUnsafeSlow(2 * this.#window.length) : this.#window
    this.#window.copy(window, 0, this.#at, this.#end)
    this.#window = window
    this.#at = 0
    this.#end = rest
    return window.subarray(rest)
  }

  fed(bytes: number): void {
    this.#end += bytes
    if (bytes === 0) this.#isWhole = true
  }

  /** Up to the first byte that is no blank. */
  *begin(): Scanning<void> {
    while (this.#end < BYTE_ORDER_MARK.length && !this.#isWhole) yield MORE
    if (this.#window.subarray(0, Math.min(this.#end, BYTE_ORDER_MARK.length)).equals(BYTE_ORDER_MARK)) {
      this.#at = BYTE_ORDER_MARK.length
    }
    yield* this.#skipBlanks()
  }

  /** The byte at which it stands, which is no blank; undefined at the end. */
  peek(): number | undefined {
    return this.#at < this.#end ? this.#window[this.#at] : undefined
  }

  /** Whether there is another member of the object, the first being that of the object that begins here; it goes on to its name. */
  member(isFirst: boolean): Scanning<boolean> {
    return this.#next(isFirst, CLOSE_BRACE)
  }

  /** Whether there is another element of the array, the first being that of the array that begins here; it goes on to it. */
  element(isFirst: boolean): Scanning<boolean> {
    return this.#next(isFirst, CLOSE_BRACKET)
  }

  /** The name of a member, up to its value. */
  *name(): Scanning<string> {
    let bytes = this.#cutName()
    while (!bytes) {
      if (this.#isWhole || this.peek() !== QUOTE) throw new Malformed()
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
    if (this.peek() !== COLON) throw new Malformed()
    yield* this.#pass()
    return name
  }

  /** The text of the object that begins here, without the blanks between its tokens. */
  *object(): Scanning<string> {
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

  /** The text of so many bytes that begin here, if they have this crc32; else it stays where it is. */
  *known(bytes: number, checksum: number): Scanning<string | undefined> {
    while (this.#end - this.#at < bytes && !this.#isWhole) yield MORE
    const text = this.#window.subarray(this.#at, Math.min(this.#at + bytes, this.#end))
    if (crc32(text) !== checksum) return undefined
    this.#at += bytes
    return text.toString()
  }

  /** Passes the value that begins here, whatever it is and however long. */
  *skip(): Scanning<void> {
    const first = this.peek()
    if (first !== QUOTE && first !== OPEN_BRACE && first !== OPEN_BRACKET) yield* this.#skipWord()
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

  /** Nothing may follow. */
  end(): void {
    if (this.peek() !== undefined) throw new Malformed()
  }

  *#next(isFirst: boolean, close: number): Scanning<boolean> {
    if (!isFirst) yield* this.#skipBlanks()
    const byte = isFirst ? undefined : this.peek()
    if (!isFirst && byte !== COMMA && byte !== close) throw new Malformed()
    yield* this.#pass()
    if (byte === close) return false
    if (isFirst && this.peek() === close) {
      yield* this.#pass()
      return false
    }
    const next = this.peek()
    if (next === undefined || next === COMMA || next === close) throw new Malformed()
    return true
  }

  *#pass(): Scanning<void> {
    this.#at++
    yield* this.#skipBlanks()
  }

  /** Passes a number, `true`, `false` or `null`. */
  *#skipWord(): Scanning<void> {
    if (!IS_WORD[this.peek() ?? SPACE]) throw new Malformed()
    for (;;) {
      while (this.#at < this.#end && IS_WORD[this.#window[this.#at] as number]) this.#at++
      if (this.#at < this.#end || this.#isWhole) return
      yield MORE
    }
  }

  /** Passes some of a text, an object or a list; true at its end. */
  #passInside(inside: { depth: number; isInString: boolean; isEscaped: boolean }): boolean {
    const stop = Math.min(this.#end, this.#at + STEP_BYTES)
    while (this.#at < stop) {
      const byte = this.#window[this.#at++]
      if (inside.isEscaped) inside.isEscaped = false
      else if (byte === QUOTE) inside.isInString = !inside.isInString
      else if (inside.isInString) inside.isEscaped = byte === BACKSLASH
      else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) inside.depth++
      else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) inside.depth--
      if (inside.depth === 0 && !inside.isInString) return true
    }
    return false
  }

  *#skipBlanks(): Scanning<void> {
    while (!this.#passBlanks() && !this.#isWhole) yield MORE
  }

  /** False when the window ends before something else comes. */
  #passBlanks(): boolean {
    const bytes = this.#window
    for (; this.#at < this.#end; this.#at++) {
      const byte = bytes[this.#at]
      if (byte !== SPACE && byte !== NEWLINE && byte !== RETURN && byte !== TAB) return true
    }
    return false
  }

  /** The name that begins here, quotation marks included, which is passed; undefined when it goes on beyond the window. */
  #cutName(): Buffer | undefined {
    const bytes = this.#window
    if (this.peek() !== QUOTE) return undefined
    for (let at = this.#at + 1; at < this.#end; at++) {
      if (bytes[at] === BACKSLASH) at++
      else if (bytes[at] === QUOTE) {
        const name = bytes.subarray(this.#at, at + 1)
        this.#at = at + 1
        return name
      }
    }
    return undefined
  }

  /** Looks at the bytes of an object up to its end. False when it is longer than a step or the window; the next call goes on. */
  #cutObject(): boolean {
    const cut = this.#cut
    const bytes = this.#window
    const length = Math.min(this.#end, this.#at + cut.passed + STEP_BYTES)
    let { all, depth, isInString, isEscaped } = cut
    let at = this.#at + cut.passed
    // Where the next byte belongs: behind `at` once there was a blank.
    let to = this.#at + cut.size
    for (; at < length; at++) {
      const byte = bytes[at] as number
      if (isInString) {
        if (isEscaped) isEscaped = false
        else if (byte === QUOTE) isInString = false
        else if (byte === BACKSLASH) isEscaped = true
      } else if (byte <= SPACE && isBlank(byte)) continue
      else if (byte === QUOTE) isInString = true
      else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth++
      else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) depth--
      // What blanks keep apart must not become one word.
      if (to < at && !isInString && IS_WORD[byte] && IS_WORD[bytes[to - 1] as number] && isBlank(bytes[at - 1]))
        bytes[to++] = SPACE
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

function isBlank(byte: number | undefined): boolean {
  return byte === SPACE || byte === NEWLINE || byte === RETURN || byte === TAB
}
