/** How many values there were up to each bound. To note one costs no more than a few comparisons, on the hottest way too. */
export class Distribution {
  /** Ascending. */
  readonly bounds: readonly number[]
  readonly #counts: number[]
  #sum = 0

  constructor(bounds: readonly number[]) {
    this.bounds = bounds
    this.#counts = new Array<number>(bounds.length + 1).fill(0)
  }

  note(value: number): void {
    const { bounds } = this
    let index = 0
    while (index < bounds.length && value > (bounds[index] as number)) index++
    this.#counts[index] = (this.#counts[index] as number) + 1
    this.#sum += value
  }

  get sum(): number {
    return this.#sum
  }

  /** How many values there were up to each bound, and, last, altogether. */
  cumulative(): readonly number[] {
    let total = 0
    return this.#counts.map((count) => {
      total += count
      return total
    })
  }
}
