import type { Logger } from 'pino'

/** The identity that wrong credentials claimed. */
export interface Claim {
  readonly scheme: 'password' | 'token' | 'apikey'
  /** The named user, if it exists. */
  readonly actor?: string
}

const WINDOW_MS = 10_000
const LINES = 10

/** Logs failed logins, at most ten lines in ten seconds, so that attackers cannot fill the disk. */
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
