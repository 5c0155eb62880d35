import { Agent, type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import { DEADLINE_MS, sleep, within } from '../support/deadline.ts'
import type { CostlyRequest } from './costly-requests.ts'
import type { Target } from './memory-server.ts'

/** All clients of an attack are served within this time, also beside other tests on a slow machine. */
export const ATTACK_DEADLINE_MS = 3 * DEADLINE_MS

/** How a client reads a successful response: all of it, nothing of its body, or a piece now and then. */
export type Reading = 'all' | 'nothing' | 'slowly'

const SLOW_MS = 100
/** A client that sends slowly sends this part of the body at once, and the rest in pieces. */
const SENT_AT_ONCE = 0.95
const PIECES = 20

/** The server discards the rest of a refused body up to this length; a client that sends more may find its connection closed. */
const DISCARDED_BYTES = 2 ** 20

interface Manner {
  readonly reading?: Reading
  readonly sendsSlowly?: boolean
}

/** The clients of one attack, each request on a connection of its own. */
export class Attackers {
  readonly target: Target
  /** Responses that the server must not have sent, and connections that ended without one. */
  readonly failures = new Set<string>()
  readonly #agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY })
  readonly #ends: (() => void)[] = []
  readonly #counts = new Map<string, number>()
  #isOver = false

  constructor(target: Target) {
    this.target = target
  }

  get isOver(): boolean {
    return this.#isOver
  }

  note(status: string): void {
    this.#counts.set(status, (this.#counts.get(status) ?? 0) + 1)
  }

  fail(why: unknown): void {
    this.failures.add(String(why).slice(0, 500))
  }

  /** How often each status came. */
  statuses(): string {
    return Array.from(this.#counts, ([status, count]) => `${count} × ${status}`).join(', ')
  }

  /** Ends what belongs to a client, such as a socket, together with the attack. */
  atEnd(end: () => void): void {
    if (this.#isOver) end()
    else this.#ends.push(end)
  }

  /** Disconnects all clients. */
  end(): void {
    this.#isOver = true
    this.#agent.destroy()
    for (const end of this.#ends) end()
  }

  /** Sends a request. Resolves when its response has ended, or is not read any further. */
  async ask(request: CostlyRequest, { reading = 'all', sendsSlowly = false }: Manner = {}): Promise<void> {
    const { method, path, headers = {}, body } = request
    const { hostname, port } = new URL(this.target.url)
    const bytes = body === undefined ? 0 : Buffer.byteLength(body)
    const length = body === undefined ? {} : { 'Content-Length': bytes }
    const options = { agent: this.#agent, hostname, port, method, path, headers: { ...length, ...headers } }
    const what = `${method} ${path.slice(0, 100)}`
    const status = await within(
      `the response to ${what}`,
      new Promise<string>((resolve) => {
        const sent = httpRequest(options, (response) => resolve(this.#read(what, response, reading)))
        sent.on('error', (error) => {
          if (!this.#isOver && bytes <= DISCARDED_BYTES) this.fail(`${what}: no response, ${error.message}`)
          resolve('unanswered')
        })
        if (sendsSlowly && body !== undefined) sendSlowly(sent, Buffer.from(body))
        else sent.end(body)
      }),
      ATTACK_DEADLINE_MS,
    )
    this.note(status)
  }

  async #read(what: string, response: IncomingMessage, reading: Reading): Promise<string> {
    const { statusCode: status = 0, headers } = response
    response.on('error', () => {})
    if ((status === 503 || status === 429) && headers['retry-after'] === undefined)
      this.fail(`${what}: ${status} without Retry-After`)
    if (status >= 500 && status !== 503) {
      this.fail(`${what}: ${status} ${(await textOf(response)).slice(0, 300)}`)
    } else if (status === 200 && reading !== 'all') {
      if (reading === 'slowly') this.#readSlowly(response)
    } else if (!(await isComplete(response)) && !this.#isOver) {
      this.fail(`${what}: ${status}, and the response ended early`)
    }
    return String(status)
  }

  async #readSlowly(response: IncomingMessage): Promise<void> {
    while (!response.destroyed && !this.#isOver) {
      response.read()
      await sleep(SLOW_MS)
    }
  }
}

async function sendSlowly(sent: ClientRequest, body: Buffer): Promise<void> {
  const first = Math.floor(body.length * SENT_AT_ONCE)
  const step = Math.ceil((body.length - first) / PIECES)
  sent.write(body.subarray(0, first))
  for (let at = first; at < body.length && !sent.destroyed; at += step) {
    await sleep(SLOW_MS)
    sent.write(body.subarray(at, at + step))
  }
  sent.end()
}

/** Reads a response, and keeps nothing of it. */
async function isComplete(response: IncomingMessage): Promise<boolean> {
  try {
    for await (const _ of response) {
    }
  } catch {
    // It ended early.
  }
  return response.complete
}

async function textOf(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  try {
    for await (const chunk of response) chunks.push(chunk as Buffer)
  } catch {
    // A part tells enough.
  }
  return Buffer.concat(chunks).toString()
}
