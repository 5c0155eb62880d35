import type { Turn } from '../../runtime/turns.ts'

/** A growing list of numbers. */
export class Numbers {
  #values = new Float64Array(16)
  #count = 0

  push(value: number): void {
    if (this.#count === this.#values.length) {
      const larger = new Float64Array(2 * this.#count)
      larger.set(this.#values)
      this.#values = larger
    }
    this.#values[this.#count++] = value
  }

  get length(): number {
    return this.#count
  }

  at(index: number): number {
    return this.#values[index] as number
  }

  get all(): Float64Array {
    return this.#values.subarray(0, this.#count)
  }
}

/** Numbers sorted or merged between two looks at the turn. */
export const CHUNK = 4096

/** A merge sort with pauses, since sorting millions of numbers would block the event loop. */
export async function sortedNumbers(values: Float64Array, turn: Turn, compare = ascending): Promise<Float64Array> {
  // Without a function the sort is faster.
  const compareInChunk = compare === ascending ? undefined : compare
  for (let start = 0; start < values.length; start += CHUNK) {
    values.subarray(start, start + CHUNK).sort(compareInChunk)
    if (turn.isOver) await turn.next()
  }
  let from = values
  for (let length = CHUNK; length < values.length; length *= 2) {
    const to = new Float64Array(values.length)
    for (let start = 0; start < values.length; start += 2 * length) {
      const middle = Math.min(start + length, values.length)
      const end = Math.min(middle + length, values.length)
      let left = start
      let right = middle
      for (let at = start; at < end; at++) {
        const takesLeft = left < middle && (right === end || compare(from[left] as number, from[right] as number) <= 0)
        to[at] = from[takesLeft ? left++ : right++] as number
        if (at % CHUNK === 0 && turn.isOver) await turn.next()
      }
    }
    from = to
  }
  return from
}

function ascending(a: number, b: number): number {
  return a - b
}
