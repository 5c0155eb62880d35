import { setTimeout as sleep } from 'node:timers/promises'
import { DELAY } from '../query/parameter.ts'
import { Refusal } from '../runtime/errors.ts'
import { randomFrom } from '../runtime/random.ts'
import type { Step } from './exchange.ts'

export interface SimulationSettings {
  readonly delay: {
    readonly enabled: boolean
    readonly methods: readonly string[]
    readonly minMs: number
    readonly maxMs: number
  }
  readonly error: {
    readonly enabled: boolean
    readonly methods: readonly string[]
    /** From 0 to 1. */
    readonly probability: number
  }
  readonly seed: number
}

/** The step that delays requests and makes them fail, as the settings say. */
export function simulate({ delay, error, seed }: SimulationSettings, wait: Wait = pause): Step {
  const random = randomFrom(seed)
  return async ({ method: sent }) => {
    const method = sent === 'HEAD' ? 'GET' : sent
    // Both are drawn before it waits, so that the outcome depends on the order of the requests alone.
    const waitMs = delay.minMs + Math.floor(random() * (delay.maxMs - delay.minMs + 1))
    const isFailed = random() < error.probability
    if (delay.enabled && delay.methods.includes(method)) await wait(waitMs)
    if (error.enabled && error.methods.includes(method) && isFailed) {
      throw new Refusal('Simulated', 'This error is simulated (Simulate.Error). Nothing was changed.')
    }
  }
}

/** The longest delay of a request: with a longer one, a body that is not read yet could exceed Limits.RequestSeconds. */
export const MOST_DELAY_MS = 30_000

/** The step that delays a request as its parameter `_delay` asks, as json-server 0.17 does. */
export function delayAsAsked(wait: Wait = pause): Step {
  return ({ incoming: { url = '' } }) => {
    const end = url.indexOf('?')
    if (end < 0) return
    const ms = Number.parseFloat(new URLSearchParams(url.slice(end + 1)).get(DELAY) ?? '')
    if (ms > 0) return wait(Math.min(ms, MOST_DELAY_MS))
  }
}

type Wait = (ms: number) => Promise<void>

const pause: Wait = (ms) => sleep(ms, undefined, { ref: false })

/** Warnings for the log and for admins. */
export function simulationWarnings({ delay, error, seed }: SimulationSettings): readonly string[] {
  const warnings: string[] = []
  const add = (what: string, methods: readonly string[]): void => {
    warnings.push(`SIMULATION: ${what} of the ${methods.join(', ')} requests below /api. Not for production.`)
  }
  if (delay.enabled) add(`Simulate.Delay adds ${delay.minMs} to ${delay.maxMs} ms to each`, delay.methods)
  if (error.enabled) {
    add(
      `Simulate.Error answers 500 with probability ${error.probability} (Simulate.Seed ${seed}) to each`,
      error.methods,
    )
  }
  return warnings
}
