import { LongText } from '../query/page-text.ts'

/** Approximate number of characters encoded and sent at once. */
const PIECE_CHARACTERS = 2 ** 18

/** A JSON array, created in pieces if it is long. */
export class EventPage {
  size = 0
  characters = 0
  readonly #pieces: string[] = []
  #bytes = 0
  #texts: string[] = []
  #gathered = 0

  add(text: string): void {
    this.size++
    this.characters += text.length + 1
    this.#texts.push(text)
    this.#gathered += text.length
    if (this.#gathered >= PIECE_CHARACTERS) this.#endPiece()
  }

  end(): string | LongText {
    if (this.#pieces.length === 0) return `[${this.#texts.join(',')}]`
    if (this.#texts.length > 0) this.#endPiece()
    return new LongText([...this.#pieces, ']'], this.#bytes + 1)
  }

  #endPiece(): void {
    const piece = `${this.#pieces.length === 0 ? '[' : ','}${this.#texts.join(',')}`
    this.#pieces.push(piece)
    this.#bytes += Buffer.byteLength(piece)
    this.#texts = []
    this.#gathered = 0
  }
}
