import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Row, Series } from './figures.ts'
import type { Fixtures } from './fixtures.ts'
import { type Load, type Loaded, load, type Sent, writeRequests } from './load.ts'
import type { Servers } from './servers.ts'

/** The parameters of every group of measurements. */
export interface Bench {
  readonly rounds: number
  /** The seconds of one load. */
  readonly seconds: number
  /** The size of the large collections: a million, unless it is a trial. */
  readonly items: number
  /** The directory of another build, which is compared with this one. */
  readonly against?: string | undefined
  readonly fixtures: Fixtures
  readonly servers: Servers
  /** Says how far it is. */
  say(text: string): void
}

/** Rows that are measured together: `npm run bench -- <name>`. */
export interface Group {
  readonly name: string
  readonly about: string
  measure(bench: Bench): Promise<readonly Row[]>
}

/** The candidates of a measurement: each round measures each once. */
export type Contestants = Readonly<Record<string, () => Promise<number>>>

/** Interleaves the rounds, so that what the machine does meanwhile falls on all alike. */
export async function interleaved(
  bench: Bench,
  unit: string,
  contestants: Contestants,
): Promise<Record<string, Series>> {
  const values: Record<string, number[]> = {}
  for (let round = 1; round <= bench.rounds; round++) {
    for (const [name, measure] of Object.entries(contestants)) {
      const value = await measure()
      bench.say(`round ${round} of ${bench.rounds}: ${name} ${value.toPrecision(4)} ${unit}`)
      values[name] = [...(values[name] ?? []), value]
    }
  }
  return Object.fromEntries(Object.entries(values).map(([name, all]) => [name, { name, unit, values: all }]))
}

/** Loads that only repeat, after one that warms up and does not count. */
export async function repeated(
  bench: Bench,
  url: string,
  requests: readonly Sent[],
  options: Partial<Load> = {},
): Promise<() => Promise<Loaded>> {
  const file = await writeRequests(join(await bench.fixtures.directory(), 'requests.txt'), requests)
  let isWarm = false
  return async () => {
    const wanted = { seconds: bench.seconds, ...options }
    if (!isWarm) await load(url, file, { ...wanted, seconds: 1 })
    isWarm = true
    return load(url, file, wanted)
  }
}

/** The same, for its rate alone. */
export async function rateOf(...args: Parameters<typeof repeated>): Promise<() => Promise<number>> {
  const measure = await repeated(...args)
  return async () => (await measure()).rate
}

/** Measured in the first round alone, as it is too slow to be asked again. */
export function once(measure: () => Promise<number>): () => Promise<number> {
  let first: Promise<number> | undefined
  return () => {
    first ??= measure()
    return first
  }
}

/** The first of these paths that there is. */
export function installed(...paths: readonly string[]): string | undefined {
  return paths.find((path) => existsSync(path))
}
