import { Agent, request } from 'node:http'
import type { JsonObject } from '../../src/json/value.ts'
import { until, within } from '../support/deadline.ts'
import type { Random } from '../support/random.ts'

export const COLLECTIONS = ['a', 'b', 'c'] as const

/** A write that a client has sent. */
export interface Sent {
  readonly method: 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly collection: string
  /** Undefined for POST. */
  readonly key: string | undefined
  readonly body: JsonObject | undefined
  /** The fields of a 2xx response: the position of the event, and the id that POST assigned. */
  acknowledged?: { readonly position: number; readonly id: unknown }
  /** An answer other than 2xx. */
  refused?: number
}

/**
 * Writers over HTTP with kept-alive connections, each waiting for its answer before its next request. What they
 * have sent and what was answered stays noted when the server ends in the middle.
 */
export class Load {
  /** By request id. */
  readonly sent = new Map<string, Sent>()
  /** How many answers there were, by status. */
  readonly answers = new Map<number, number>()
  /** Requests that got no answer. */
  unanswered = 0
  /** The highest position that any answer spoke of: whoever saw it may rely on it. */
  seen = 0
  readonly name: string
  readonly #random: Random
  #count = 0
  #ending = false

  constructor(random: Random, name: string) {
    this.#random = random
    this.name = name
  }

  get acknowledged(): number {
    return [...this.answers].reduce((sum, [status, count]) => sum + (status < 300 ? count : 0), 0)
  }

  /** Writes until it is ended, or nobody listens any more. */
  async run(url: string, writers: number): Promise<void> {
    this.#ending = false
    const agent = new Agent({ keepAlive: true, maxSockets: writers })
    await Promise.all(Array.from({ length: writers }, () => this.#writer(url, agent)))
    agent.destroy()
  }

  /** Resolves when so many writes have been acknowledged. */
  async reached(acknowledged: number): Promise<void> {
    await until(`${acknowledged} acknowledgements`, () => this.acknowledged >= acknowledged)
  }

  end(): void {
    this.#ending = true
  }

  async #writer(url: string, agent: Agent): Promise<void> {
    const own: unknown[] = []
    while (!this.#ending) {
      const sent = this.#next(own)
      const id = `${this.name}-${this.#count++}`
      this.sent.set(id, sent)
      try {
        await this.#send(url, agent, id, sent)
      } catch (error) {
        this.unanswered++
        if ((error as NodeJS.ErrnoException).code === 'ECONNREFUSED') return
        continue
      }
      if (sent.method === 'POST' && sent.acknowledged) own.push(sent.acknowledged.id)
    }
  }

  /** Shared items, and the writer's own that POST made; of those it deletes again, so that the state stays small. */
  #next(own: unknown[]): Sent {
    const random = this.#random
    const body = { n: random.integer(1e9), text: 'x'.repeat(random.integer(random.chance(0.05) ? 3000 : 80)) }
    if (own.length > 3) {
      return { method: 'DELETE', collection: 'a', key: String(own.shift()), body: undefined }
    }
    const collection = random.pick(COLLECTIONS)
    const key = `k${random.integer(40)}`
    switch (random.integer(8)) {
      case 0:
      case 1:
        return { method: 'POST', collection: 'a', key: undefined, body }
      case 2:
        return { method: 'DELETE', collection, key, body: undefined }
      case 3:
      case 4:
        return { method: 'PATCH', collection, key, body: { [`m${random.integer(4)}`]: random.integer(1e9) } }
      default:
        return { method: 'PUT', collection, key, body }
    }
  }

  #send(url: string, agent: Agent, id: string, sent: Sent): Promise<void> {
    const { method, collection, key, body } = sent
    const { hostname, port } = new URL(url)
    const path = `/api/${collection}${key === undefined ? '' : `/${key}`}`
    const headers = { 'X-Request-Id': id, ...(body && { 'Content-Type': 'application/json' }) }
    return within(
      `the response to ${method} ${path}`,
      new Promise((resolve, reject) => {
        const sending = request({ agent, hostname, port, method, path, headers }, (answer) => {
          let text = ''
          answer.setEncoding('utf8')
          answer.on('data', (part) => {
            text += part
          })
          answer.on('error', reject)
          answer.on('end', () => {
            const status = answer.statusCode ?? 0
            const position = Number(answer.headers['journal-position'])
            this.answers.set(status, (this.answers.get(status) ?? 0) + 1)
            this.seen = Math.max(this.seen, position)
            if (status < 300) sent.acknowledged = { position, id: text && (JSON.parse(text) as JsonObject).id }
            // A change that did not fit into the data file has happened all the same.
            else if (status !== 504) sent.refused = status
            resolve()
          })
        })
        sending.on('error', reject)
        sending.end(body && JSON.stringify(body))
      }),
    )
  }
}
