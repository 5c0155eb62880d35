import { isUtf8 } from 'node:buffer'

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

/** Bytes that are not as JSON begins, or goes on, from `begin` on. */
export class Malformed extends Error {
  readonly begin: number
  /** JSON text that may come before `begin`, as far as what follows is concerned. */
  readonly before: string
  /** The bytes are no UTF-8. */
  readonly isNoText: boolean

  constructor(begin: number, before: string, isNoText = false) {
    super('malformed JSON')
    this.begin = begin
    this.before = before
    this.isNoText = isNoText
  }
}

/**
 * Goes through the JSON of a data file without parsing it, however long it is: an object of arrays of objects. What
 * is wrong with it is thrown as Malformed, but for what is wrong within the objects, whose texts are only cut out.
 */
export class JsonScan {
  readonly #bytes: Buffer
  #at: number
  /** Where the last object, or the last name, begins. */
  #begin = 0
  #scratch: Buffer = Buffer.allocUnsafe(4096)

  constructor(bytes: Buffer) {
    this.#bytes = bytes
    this.#at = bytes.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK) ? BYTE_ORDER_MARK.length : 0
    this.#skipBlanks()
  }

  /** The byte at which it stands, which is no blank; undefined at the end. */
  peek(): number | undefined {
    return this.#bytes[this.#at]
  }

  /** Once for each member of the object that begins here; the caller reads its name and its value. */
  members(): Generator<undefined> {
    return this.#each(CLOSE_BRACE, '{', '{"":[]')
  }

  /** Once for each element of the array that begins here; the caller reads it. */
  elements(): Generator<undefined> {
    return this.#each(CLOSE_BRACKET, '{"":[', '{"":[{}')
  }

  /** The name of a member, up to its value. */
  name(): string {
    const begin = this.#at
    if (this.peek() !== QUOTE) throw new Malformed(begin, '{')
    for (this.#at++; this.peek() !== QUOTE; this.#at++) {
      if (this.peek() === undefined) throw new Malformed(begin, '{')
      if (this.peek() === BACKSLASH) this.#at++
    }
    const bytes = this.#bytes.subarray(begin, ++this.#at)
    if (!isUtf8(bytes)) throw new Malformed(begin, '{', true)
    let name: string
    try {
      name = JSON.parse(bytes.toString())
    } catch {
      throw new Malformed(begin, '{')
    }
    this.#skipBlanks()
    if (this.peek() !== COLON) throw new Malformed(begin, '{')
    this.#at++
    this.#skipBlanks()
    return name
  }

  /** The text of the object that begins here, without the blanks between its tokens. */
  object(): string {
    const bytes = this.#bytes
    const { length } = bytes
    const begin = this.#at
    this.#begin = begin
    let scratch = this.#scratch
    let size = 0
    let all = 0
    let depth = 0
    let wasBlank = false
    let at = begin
    do {
      if (at >= length) throw new Malformed(begin, '{"":[')
      const byte = bytes[at] as number
      if (byte <= SPACE && (byte === SPACE || byte === NEWLINE || byte === RETURN || byte === TAB)) {
        wasBlank = true
        at++
        continue
      }
      if (size + 8 > scratch.length) scratch = this.#largerScratch()
      // What blanks keep apart must not become one word.
      if (wasBlank && IS_WORD[byte] && IS_WORD[scratch[size - 1] as number]) scratch[size++] = SPACE
      wasBlank = false
      scratch[size++] = byte
      all |= byte
      at++
      if (byte === QUOTE) {
        for (;;) {
          if (at >= length) throw new Malformed(begin, '{"":[')
          if (size + 8 > scratch.length) scratch = this.#largerScratch()
          const inside = bytes[at++] as number
          scratch[size++] = inside
          all |= inside
          if (inside === QUOTE) break
          if (inside === BACKSLASH) scratch[size++] = bytes[at++] as number
        }
      } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth++
      else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) depth--
    } while (depth > 0)
    this.#at = at
    this.#skipBlanks()
    if (all < 0x80) return scratch.toString('latin1', 0, size)
    if (!isUtf8(scratch.subarray(0, size))) throw new Malformed(begin, '{"":[', true)
    return scratch.toString('utf8', 0, size)
  }

  /** Of the last object: it is no JSON. */
  malformed(): Malformed {
    return new Malformed(this.#begin, '{"":[')
  }

  /** Nothing may follow. */
  end(): void {
    if (this.peek() !== undefined) throw new Malformed(this.#at, '{}')
  }

  *#each(close: number, opening: string, going: string): Generator<undefined> {
    this.#at++
    this.#skipBlanks()
    if (this.peek() === close) {
      this.#pass()
      return
    }
    for (let before = opening; ; before = `${going},`) {
      if (this.peek() === undefined || this.peek() === COMMA || this.peek() === close)
        throw new Malformed(this.#at, before)
      yield
      this.#skipBlanks()
      const byte = this.peek()
      if (byte !== COMMA && byte !== close) throw new Malformed(this.#at, going)
      this.#pass()
      if (byte === close) return
    }
  }

  #pass(): void {
    this.#at++
    this.#skipBlanks()
  }

  #skipBlanks(): void {
    const bytes = this.#bytes
    for (;;) {
      const byte = bytes[this.#at]
      if (byte !== SPACE && byte !== NEWLINE && byte !== RETURN && byte !== TAB) return
      this.#at++
    }
  }

  #largerScratch(): Buffer {
    const larger = Buffer.allocUnsafe(2 * this.#scratch.length)
    this.#scratch.copy(larger)
    this.#scratch = larger
    return larger
  }
}
