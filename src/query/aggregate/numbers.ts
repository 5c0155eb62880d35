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
