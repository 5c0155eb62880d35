import type { Scope } from '../../test/support/directory.ts'
import type { Bench } from './bench.ts'
import { type Row, times } from './figures.ts'

/** Blocks in milliseconds by costly work, and by harmless work of the same size. */
export interface Blocks {
  readonly what: string
  readonly costly: number
  readonly harmless: number
}

export interface Measurement {
  readonly work: string
  readonly harmless: string
  /** The goal: at most so many times the harmless block. */
  readonly most: number
  /** Starts what is measured, and returns what measures one round: each kind of costly work. */
  readonly begin: (t: Scope) => Promise<() => Promise<readonly Blocks[]>>
}

/** The worst kind of work of each round. */
export async function rowOf(bench: Bench, { work, harmless, most, begin }: Measurement): Promise<Row> {
  return scoped(async (t) => {
    const measure = await begin(t)
    const worst: Blocks[] = []
    const kinds = new Set<string>()
    for (let round = 1; round <= bench.rounds; round++) {
      const all = await measure()
      for (const { what } of all) kinds.add(what)
      const one = all.reduce((a, b) => (b.costly / b.harmless > a.costly / a.harmless ? b : a))
      const figures = `${one.costly.toFixed(1)} ms, ${harmless} ${one.harmless.toFixed(1)} ms`
      bench.say(`round ${round} of ${bench.rounds}: ${work}: ${figures}: ${one.what}`)
      worst.push(one)
    }
    const against = { name: harmless, unit: 'ms', values: worst.map((one) => one.harmless) }
    return {
      work: `longest block of the event loop: ${work}`,
      ours: { name: 'Recollect', unit: 'ms', values: worst.map(({ costly }) => costly) },
      better: 'less',
      goals: [times(against, most, 'at most')],
      others: [against],
      ...(kinds.size > 1 && { note: `the worst of each round: ${worst.map(({ what }) => what).join('; ')}.` }),
    }
  })
}

/** Ends after the work whatever the work starts. */
export async function scoped<T>(work: (t: Scope) => Promise<T>): Promise<T> {
  const ends: (() => Promise<unknown>)[] = []
  try {
    return await work({ after: (end) => void ends.unshift(end) })
  } finally {
    for (const end of ends) await end()
  }
}

/** The shortest time of a work, in milliseconds. */
export function shortest(work: () => unknown): number {
  // The first ones are compiled while they run.
  const all = Array.from({ length: 15 }, () => {
    const began = performance.now()
    work()
    return performance.now() - began
  })
  return Math.min(...all)
}
