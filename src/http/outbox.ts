/** So long an answer waits for others at most, as long as more are made. */
const GATHER_MS = 1

/** An answer that is made and not sent. */
interface Outgoing {
  send(): void
}

/**
 * Answers that are sent together, once all requests that are here have been handled. To send each by itself would wake
 * its reader from sleep each time, which costs more than many an answer, and the code that sends would have to come back
 * into the processor's caches.
 */
export class Outbox {
  readonly #now: () => number
  #waiting: Outgoing[] = []
  /** When the first of them came. */
  #since = 0

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  add(answer: Outgoing): void {
    const now = this.#now()
    if (this.#waiting.push(answer) === 1) {
      this.#since = now
      setImmediate(() => this.#flush())
    } else if (now - this.#since > GATHER_MS) this.#flush()
  }

  #flush(): void {
    const waiting = this.#waiting
    this.#waiting = []
    for (const answer of waiting) answer.send()
  }
}
