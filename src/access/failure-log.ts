import type { Logger } from 'pino'

/** What somebody said of themselves with credentials that were wrong. */
export interface Claim {
  readonly scheme: 'password' | 'token' | 'apikey'
  /** The user that was named, if there is such a one. */
  readonly actor?: string
}

const WINDOW_MS = 10_000
const LINES = 10

/** Logs wrong credentials: ten lines in ten seconds, so that nobody fills the disk with them. */
export class FailureLog {
  readonly #log: Pick<Logger, 'warn'>
  readonly #elapsedMs: () => number
  #beganMs = Number.NEGATIVE_INFINITY
  #lines = 0
  #unlogged = 0

  /** `elapsedMs` must be monotonic. */
  constructor(log: Pick<Logger, 'warn'>, elapsedMs: () => number) {
    this.#log = log
    this.#elapsedMs = elapsedMs
  }

  add(address: string, claim: Claim): void {
    const now = this.#elapsedMs()
    if (now - this.#beganMs >= WINDOW_MS) {
      this.#beganMs = now
      this.#lines = 0
    }
    if (this.#lines >= LINES) {
      this.#unlogged++
      return
    }
    this.#lines++
    const others = this.#unlogged > 0 && { unlogged: this.#unlogged }
    this.#unlogged = 0
    this.#log.warn({ address, ...claim, ...others }, 'a login failed')
  }
}
