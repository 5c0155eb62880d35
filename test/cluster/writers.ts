import { setTimeout as sleep } from 'node:timers/promises'
import type { Random } from '../support/random.ts'
import { json, type RunningServer } from '../support/server.ts'

/** A write that was acknowledged, or is still tried. */
export interface Write {
  readonly n: number
  readonly key: string
  readonly path: string
  readonly init: RequestInit
  acknowledged?: { readonly id: unknown; readonly position: number; readonly at: number }
}

/** How long one try may take; longer than a node waits for another one. */
const TRY_MS = 20_000
/** How long a write is tried; much longer than the nodes are without a leader. */
const WRITE_DEADLINE_MS = 5 * 60_000

/**
 * Clients that write, each write with an Idempotency-Key of its own, and go on to another node whenever one is
 * gone or says that it cannot.
 */
export class Writers {
  readonly writes: Write[] = []
  /** Answers by status; 0 for none. */
  readonly answers = new Map<number, number>()
  readonly #nodes: () => readonly RunningServer[]
  readonly #random: Random
  #isEnding = false
  #running: Promise<unknown> = Promise.resolve()

  constructor(nodes: () => readonly RunningServer[], random: Random) {
    this.#nodes = nodes
    this.#random = random
  }

  get acknowledged(): readonly (Write & Required<Pick<Write, 'acknowledged'>>)[] {
    return this.writes.filter((write): write is Write & Required<Pick<Write, 'acknowledged'>> => !!write.acknowledged)
  }

  /** The longest time in which nothing was acknowledged, in milliseconds. */
  get longestPauseMs(): number {
    const times = this.acknowledged.map(({ acknowledged: { at } }) => at).sort((a, b) => a - b)
    return times.reduce((longest, at, index) => Math.max(longest, at - (times[index - 1] ?? at)), 0)
  }

  start(count: number): void {
    this.#running = Promise.all(Array.from({ length: count }, () => this.#write()))
    // The wait for the end reports it.
    this.#running.catch(() => {})
  }

  /** Every write that was begun is tried until it is acknowledged. */
  async end(): Promise<void> {
    this.#isEnding = true
    await this.#running
  }

  async #write(): Promise<void> {
    while (!this.#isEnding) {
      const write = this.#next()
      this.writes.push(write)
      const lastMs = Date.now() + WRITE_DEADLINE_MS
      while (!(await this.#try(write))) {
        if (Date.now() > lastMs) throw new Error(`write ${write.n} was tried for ${WRITE_DEADLINE_MS / 1000} s in vain`)
        await sleep(50 + this.#random.integer(200))
      }
    }
  }

  #next(): Write {
    const n = this.writes.length
    const key = `write-${n}`
    const headers = { 'Idempotency-Key': key }
    if (this.#random.chance(0.3)) {
      return { n, key, path: `/api/put/p${n}`, init: json('PUT', { id: `p${n}`, n }, headers) }
    }
    return { n, key, path: '/api/posted', init: json('POST', { n }, headers) }
  }

  async #try(write: Write): Promise<boolean> {
    const node = this.#random.pick(this.#nodes())
    try {
      const answer = await node.fetch(write.path, { ...write.init, signal: AbortSignal.timeout(TRY_MS) })
      const body = await answer.text()
      this.#count(answer.status)
      if (answer.status !== 201) return false
      const position = Number(answer.headers.get('journal-position'))
      write.acknowledged = { id: (JSON.parse(body) as { id: unknown }).id, position, at: performance.now() }
      return true
    } catch {
      this.#count(0)
      return false
    }
  }

  #count(status: number): void {
    this.answers.set(status, (this.answers.get(status) ?? 0) + 1)
  }
}
