/** Places, in a bit each. */
export class PlaceSet {
  #words: Uint32Array
  #size = 0

  constructor(places: number) {
    this.#words = new Uint32Array((places >>> 5) + 1)
  }

  get size(): number {
    return this.#size
  }

  has(place: number): boolean {
    return (((this.#words[place >>> 5] ?? 0) >>> (place & 31)) & 1) === 1
  }

  add(place: number): void {
    const at = place >>> 5
    if (at >= this.#words.length) {
      const words = new Uint32Array(at * 2)
      words.set(this.#words)
      this.#words = words
    }
    const word = this.#words[at] as number
    const bit = 1 << (place & 31)
    if (word & bit) return
    this.#words[at] = word | bit
    this.#size++
  }

  addAll(places: Uint32Array): void {
    for (let index = 0; index < places.length; index++) this.add(places[index] as number)
  }

  delete(place: number): void {
    if (!this.has(place)) return
    this.#words[place >>> 5] = (this.#words[place >>> 5] as number) & ~(1 << (place & 31))
    this.#size--
  }

  /** From the nth on, the first being 0, at most so many, in order. */
  slice(offset: number, size: number): number[] {
    const found: number[] = []
    let toPass = offset
    const words = this.#words
    for (let at = 0; at < words.length && found.length < size; at++) {
      let word = words[at] as number
      if (word === 0) continue
      const count = ones(word)
      if (toPass >= count) {
        toPass -= count
        continue
      }
      for (; word !== 0 && found.length < size; word &= word - 1) {
        if (toPass > 0) toPass--
        else found.push(at * 32 + 31 - Math.clz32(word & -word))
      }
    }
    return found
  }
}

function ones(word: number): number {
  let count = word - ((word >>> 1) & 0x55555555)
  count = (count & 0x33333333) + ((count >>> 2) & 0x33333333)
  return Math.imul((count + (count >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24
}
