/** A histogram. Noting a value takes only a few comparisons. */
export class Histogram {
  /** In ascending order. */
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

  /** For each bound the number of values up to it, and finally the total. */
  cumulative(): readonly number[] {
    let total = 0
    return this.#counts.map((count) => {
      total += count
      return total
    })
  }
}
