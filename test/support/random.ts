import fc from 'fast-check'
import type { JsonObject, JsonValue } from '../../src/json/value.ts'

/** The seed of all random tests. Only `npm run torture` draws one, and sets the environment variable SEED. */
export const SEED = Number(process.env.SEED ?? 1)
if (!Number.isSafeInteger(SEED)) throw new Error(`SEED is an integer, and not ${process.env.SEED}`)

/** Random choices: the same seed gives the same ones. For long runs; properties take theirs from `forAll`. */
export class Random {
  readonly #below: (bound: number) => number

  constructor(source: number | ((bound: number) => number)) {
    this.#below = typeof source === 'number' ? seeded(source) : source
  }

  /** From 0 up to, not including, 1. */
  next(): number {
    return this.#below(2 ** 32) / 2 ** 32
  }

  /** From 0 up to, not including, `bound`. */
  integer(bound: number): number {
    return this.#below(bound)
  }

  chance(probability: number): boolean {
    return this.next() < probability
  }

  pick<T>(choices: readonly T[]): T {
    return choices[this.integer(choices.length)] as T
  }
}

/** The generator mulberry32. */
function seeded(seed: number): (bound: number) => number {
  let state = seed >>> 0
  return (bound) => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * bound)
  }
}

/** Checks a property with fast-check for `runs` sequences of choices, and reduces one that fails. */
export function forAll(runs: number, property: (random: Random) => void): void {
  fc.assert(fc.property(choices(), property), { seed: SEED, numRuns: runs })
}

/** `forAll` of a property that takes time. */
export async function forAllAsync(runs: number, property: (random: Random) => Promise<void>): Promise<void> {
  await fc.assert(fc.asyncProperty(choices(), property), { seed: SEED, numRuns: runs })
}

function choices(): fc.Arbitrary<Random> {
  const integers = new Map<number, fc.Arbitrary<number>>()
  const below = (bound: number): fc.Arbitrary<number> => {
    const integer = integers.get(bound) ?? fc.integer({ min: 0, max: Math.max(bound, 1) - 1 })
    integers.set(bound, integer)
    return integer
  }
  return fc.gen().map((generate) => new Random((bound) => generate(below, bound)))
}

/** Any JSON whose texts and names are made of some. */
function anyValue(random: Random, texts: readonly string[], depth: number): JsonValue {
  switch (random.integer(depth > 0 ? 6 : 4)) {
    case 0:
      return random.integer(1000) / 7
    case 1:
      return random.chance(0.5) ? null : random.chance(0.5)
    case 2:
      return random.pick(texts)
    case 3:
      return random.pick(texts) + random.pick(texts)
    case 4:
      return Array.from({ length: random.integer(4) }, () => anyValue(random, texts, depth - 1))
    default:
      return anyObject(random, texts, depth - 1)
  }
}

export function anyObject(random: Random, texts: readonly string[], depth: number): JsonObject {
  return Object.fromEntries(
    Array.from({ length: random.integer(4) }, () => [random.pick(texts), anyValue(random, texts, depth)]),
  )
}
