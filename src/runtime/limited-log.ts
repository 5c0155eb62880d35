import type { Logger } from 'pino'

/** How many lines of a kind may be written in a time. */
export interface LineRate {
  readonly lines: number
  readonly ms: number
}

const ONE_A_MINUTE: LineRate = { lines: 1, ms: 60_000 }
/** For lines about single requests: the next request may fail for another reason. */
export const TEN_IN_TEN_SECONDS: LineRate = { lines: 10, ms: 10_000 }

interface Kind {
  beganMs: number
  lines: number
  unlogged: number
  /** A line was written, and `over` has not been called since. */
  isOngoing: boolean
}

/**
 * A log with a limited number of lines of each kind, so that neither clients nor a broken disk can fill it. The message
 * is the kind, so it must be constant. The next line of a kind has the number of lines that were left out: `unlogged`.
 */
export class LimitedLog {
  readonly #log: Pick<Logger, 'info' | 'warn' | 'error'>
  readonly #elapsedMs: () => number
  readonly #kinds = new Map<string, Kind>()

  constructor(log: Pick<Logger, 'info' | 'warn' | 'error'>, elapsedMs: () => number) {
    this.#log = log
    this.#elapsedMs = elapsedMs
  }

  warn(facts: object, message: string, rate?: LineRate): void {
    const unlogged = this.#take(message, rate)
    if (unlogged) this.#log.warn({ ...facts, ...unlogged }, message)
  }

  error(facts: object, message: string, rate?: LineRate): void {
    const unlogged = this.#take(message, rate)
    if (unlogged) this.#log.error({ ...facts, ...unlogged }, message)
  }

  /** Logs once that the trouble is over which lines of `kind` reported; nothing if there was none since the last call. */
  over(kind: string, facts: object, message: string): void {
    const known = this.#kinds.get(kind)
    if (!known?.isOngoing) return
    known.isOngoing = false
    this.#log.info(facts, message)
  }

  /** Undefined if the line is to be left out. */
  #take(message: string, { lines, ms }: LineRate = ONE_A_MINUTE): { readonly unlogged?: number } | undefined {
    const now = this.#elapsedMs()
    let kind = this.#kinds.get(message)
    if (!kind) {
      kind = { beganMs: now, lines: 0, unlogged: 0, isOngoing: false }
      this.#kinds.set(message, kind)
    }
    if (now - kind.beganMs >= ms) {
      kind.beganMs = now
      kind.lines = 0
    }
    if (kind.lines >= lines) {
      kind.unlogged++
      return undefined
    }
    const { unlogged } = kind
    kind.lines++
    kind.unlogged = 0
    kind.isOngoing = true
    return unlogged > 0 ? { unlogged } : {}
  }
}
