import type { Logger } from 'pino'

/** How many lines of a kind may be written in a time. */
interface LineRate {
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
  /** A line was written, and none of `recovered` since. */
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

  info(facts: object, message: string, rate?: LineRate): void {
    this.#write('info', facts, message, rate)
  }

  /** Whether the line was written. */
  warn(facts: object, message: string, rate?: LineRate): boolean {
    return this.#write('warn', facts, message, rate)
  }

  error(facts: object, message: string, rate?: LineRate): void {
    this.#write('error', facts, message, rate)
  }

  /**
   * Logs that the trouble which lines of `kind` reported is over. It does so only when a line of new trouble could be
   * logged at once, so that the last line is always true.
   */
  recovered(kind: string, facts: object, message: string): void {
    const known = this.#kinds.get(kind)
    if (!known?.isOngoing || this.#elapsedMs() - known.beganMs < ONE_A_MINUTE.ms) return
    known.isOngoing = false
    this.#log.info({ ...facts, ...takeUnlogged(known) }, message)
  }

  #write(level: 'info' | 'warn' | 'error', facts: object, message: string, { lines, ms } = ONE_A_MINUTE): boolean {
    const now = this.#elapsedMs()
    const kind = this.#kinds.get(message) ?? { beganMs: now, lines: 0, unlogged: 0, isOngoing: false }
    this.#kinds.set(message, kind)
    if (now - kind.beganMs >= ms) {
      kind.beganMs = now
      kind.lines = 0
    }
    if (kind.lines >= lines) {
      kind.unlogged++
      return false
    }
    kind.lines++
    kind.isOngoing = true
    this.#log[level]({ ...facts, ...takeUnlogged(kind) }, message)
    return true
  }
}

function takeUnlogged(kind: Kind): { readonly unlogged?: number } {
  const { unlogged } = kind
  kind.unlogged = 0
  return unlogged > 0 ? { unlogged } : {}
}

/** When to log the first line, and the interval between two lines, in milliseconds. */
const FIRST_MS = 1000
const INTERVAL_MS = 5000

export type ProgressLog = (facts: Readonly<Record<string, number>> & { readonly of: number }, message: string) => void

/** Logs the progress of long work every few seconds: the first fact of `of`, and about how long the rest takes. */
export function progressLog(log: Pick<Logger, 'info'>, elapsedMs: () => number = () => performance.now()): ProgressLog {
  let dueMs = elapsedMs() + FIRST_MS
  let estimate = new Estimate(elapsedMs)
  let known = ''
  return (facts, message) => {
    if (message !== known) estimate = new Estimate(elapsedMs)
    known = message
    const [done = 0] = Object.values(facts)
    const secondsLeft = estimate.secondsLeft(done, facts.of)
    if (elapsedMs() < dueMs) return
    dueMs = elapsedMs() + INTERVAL_MS
    log.info({ ...facts, ...(secondsLeft !== undefined && { secondsLeft }) }, message)
  }
}

/** Estimates how long work takes from its rate since it began. */
export class Estimate {
  readonly #elapsedMs: () => number
  #began: { readonly done: number; readonly ms: number } | undefined

  constructor(elapsedMs: () => number) {
    this.#elapsedMs = elapsedMs
  }

  /** Undefined until there is a rate. */
  secondsLeft(done: number, of: number): number | undefined {
    const ms = this.#elapsedMs()
    this.#began ??= { done, ms }
    const advanced = done - this.#began.done
    if (advanced <= 0) return undefined
    return Math.ceil(((of - done) * (ms - this.#began.ms)) / advanced / 1000)
  }
}
