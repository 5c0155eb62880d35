import { lowerBound } from '../runtime/chunked-list.ts'

/** Places in a block. A block with empty places is scanned to find the nth item in it. */
export const BLOCK = 512

export function blockOf(place: number): number {
  return Math.floor(place / BLOCK)
}

/** Counts the places without items in each block, so that the nth item is found without visiting those before it. */
export class Gaps {
  #empty: number[] = []
  /** Items before each block, valid for the first `#counted` blocks. */
  #before: number[] = [0]
  #counted = 1
  /** Whether another instance has the same arrays: they are copied before a change. */
  #areShared = false
  /** Empty places in all blocks. */
  #total = 0

  /** A copy that later changes do not affect. */
  copy(): Gaps {
    const copy = new Gaps()
    this.#areShared = true
    copy.#areShared = true
    copy.#empty = this.#empty
    copy.#before = this.#before
    copy.#counted = this.#counted
    copy.#total = this.#total
    return copy
  }

  emptyIn(block: number): number {
    return this.#empty[block] ?? 0
  }

  set(block: number, empty: number): void {
    if (this.#areShared) {
      this.#empty = this.#empty.slice()
      this.#before = this.#before.slice()
      this.#areShared = false
    }
    while (this.#empty.length <= block) this.#empty.push(0)
    this.#total += empty - (this.#empty[block] as number)
    this.#empty[block] = empty
    this.#counted = Math.min(this.#counted, block + 1)
  }

  itemsBefore(block: number): number {
    if (this.#total === 0) return block * BLOCK
    this.#count(block + 1)
    return this.#before[block] as number
  }

  /** The block of the nth item, and the number of items before that block; `places` is above all places. */
  blockWith(nth: number, places: number): { readonly block: number; readonly before: number } {
    if (this.#total === 0) {
      const block = Math.floor(nth / BLOCK)
      return { block, before: block * BLOCK }
    }
    this.#count(Math.ceil(places / BLOCK))
    const block = lowerBound(this.#before, nth + 1) - 1
    return { block, before: this.#before[block] as number }
  }

  #count(blocks: number): void {
    for (; this.#counted < blocks; this.#counted++) {
      const last = this.#counted - 1
      this.#before[this.#counted] = (this.#before[last] as number) + BLOCK - this.emptyIn(last)
    }
  }
}
