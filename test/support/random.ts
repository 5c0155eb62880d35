/** Random numbers from a seed (mulberry32): the same seed, the same run. */
export class Random {
  readonly seed: number
  #state: number

  constructor(seed: number) {
    this.seed = seed
    this.#state = seed >>> 0
  }

  /** From 0 up to, not including, 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = this.#state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  /** From 0 up to, not including, `below`. */
  integer(below: number): number {
    return Math.floor(this.next() * below)
  }

  chance(probability: number): boolean {
    return this.next() < probability
  }

  pick<T>(choices: readonly T[]): T {
    return choices[this.integer(choices.length)] as T
  }
}

/** The seed that the environment names, else a new one; printed, so that a failure can be run again. */
export function seedFor(name: string): number {
  const variable = `${name.toUpperCase().replaceAll(/\W+/g, '_')}_SEED`
  const seed = Number(process.env[variable] ?? Math.floor(Math.random() * 2 ** 32))
  process.stderr.write(`${variable}=${seed}\n`)
  return seed
}
