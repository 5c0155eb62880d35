import type { Clock } from '../../src/projections/pace.ts'

interface Timer {
  readonly at: number
  readonly work: () => void
}

/** Enough turns of the event loop for reading from memory, or from a small file. */
const TURNS = 30

/** A clock that stands still until it is told how much time passes; whatever is due in it then happens, in order. */
export class SimulatedClock implements Clock {
  readonly #timers = new Set<Timer>()
  #ms = 0

  readonly elapsedMs = (): number => this.#ms

  readonly schedule: Clock['schedule'] = (work, delayMs) => {
    const timer = { at: this.#ms + delayMs, work }
    this.#timers.add(timer)
    return { cancel: () => this.#timers.delete(timer) }
  }

  /** Timers that wait. */
  get waiting(): number {
    return this.#timers.size
  }

  async pass(ms: number): Promise<void> {
    const until = this.#ms + ms
    await turns()
    for (;;) {
      const [next] = [...this.#timers].sort((a, b) => a.at - b.at)
      if (!next || next.at > until) break
      this.#ms = Math.max(this.#ms, next.at)
      this.#timers.delete(next)
      next.work()
      await turns()
    }
    this.#ms = until
    await turns()
  }
}

/** Lets what can happen without time passing happen. */
export async function turns(): Promise<void> {
  for (let turn = 0; turn < TURNS; turn++) await new Promise<void>((resolve) => setImmediate(resolve))
}

/** A clock that is moved by hand. */
export function clock(begin = '2026-11-20T12:00:00.000Z') {
  let ms = Date.parse(begin)
  return {
    now: () => new Date(ms),
    elapsedMs: () => ms,
    pass: (passed: number) => {
      ms += passed
    },
  }
}
