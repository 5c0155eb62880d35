import type { Logger } from 'pino'

/** The identity that wrong credentials claimed. */
export interface Claim {
  readonly scheme: 'password' | 'token' | 'apikey'
  /** The named user, if it exists. */
  readonly actor?: string
}

const WINDOW_MS = 10_000
const LINES = 10

/** At most ten lines in ten seconds, so that no client can fill the disk with log lines. */
export class LineLimit {
  readonly #elapsedMs: () => number
  #beganMs = Number.NEGATIVE_INFINITY
  #lines = 0

  constructor(elapsedMs: () => number) {
    this.#elapsedMs = elapsedMs
  }

  /** Whether another line may be written now. */
  take(): boolean {
    const now = this.#elapsedMs()
    if (now - this.#beganMs >= WINDOW_MS) {
      this.#beganMs = now
      this.#lines = 0
    }
    return ++this.#lines <= LINES
  }
}

/** Logs failed logins, within a LineLimit. */
export class FailureLog {
  readonly #log: Pick<Logger, 'warn'>
  readonly #limit: LineLimit
  #unlogged = 0

  constructor(log: Pick<Logger, 'warn'>, elapsedMs: () => number) {
    this.#log = log
    this.#limit = new LineLimit(elapsedMs)
  }

  add(address: string, claim: Claim): void {
    if (!this.#limit.take()) {
      this.#unlogged++
      return
    }
    const others = this.#unlogged > 0 && { unlogged: this.#unlogged }
    this.#unlogged = 0
    this.#log.warn({ address, ...claim, ...others }, 'a login failed')
  }
}
