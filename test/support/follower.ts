import assert from 'node:assert/strict'
import { io, type Socket } from 'socket.io-client'
import type { Change, Subscribe, Subscribed } from '../../src/sockets/protocol.ts'
import { eventOf, until, within } from './deadline.ts'
import type { Scope } from './directory.ts'

export type Item = Record<string, unknown>

interface Asked {
  fetch(path: string): Promise<Response>
}

/** A list that is kept right by what the server sends: the client of every test. */
export class Follower {
  readonly wanted: Subscribe
  readonly items = new Map<string, Item>()
  position = 0
  journal = ''
  lags = 0
  resets = 0
  readonly faults: string[] = []
  /** Resolves when the connection that was made last has ended. */
  closed: Promise<void> = Promise.resolve()
  #socket: Socket | undefined
  #subscription = ''
  #early: Change[] = []
  /** The list is that of no position: who is cut off now begins anew. */
  #isLagging = false

  constructor(wanted: Subscribe) {
    this.wanted = wanted
  }

  /** Subscribes over a new connection; rejected when it ends before there is an answer. */
  async connect(t: Scope, url: string, resume = true): Promise<Subscribed> {
    this.cut()
    if (!this.#socket) t.after(async () => this.cut())
    const socket = io(url, { transports: ['websocket'], forceNew: true, reconnection: false })
    this.#socket = socket
    this.#subscription = ''
    this.#early = []
    this.closed = Promise.race(['disconnect', 'connect_error'].map((end) => eventOf(socket, end))).then(() => {})
    socket.on('change', (change: Change) => this.#take(change))
    socket.on('lagging', () => {
      this.lags++
      this.#isLagging = true
    })
    socket.on('current', ({ position }) => {
      this.position = Math.max(this.position, position)
      this.#isLagging = false
    })
    const resumes = resume && this.journal !== '' && !this.#isLagging
    const again = resumes ? { after: this.position, journal: this.journal } : {}
    const answered: Subscribed | undefined = await within(
      `the response to a subscription to ${this.wanted.collection}`,
      Promise.race([socket.emitWithAck('subscribe', { ...this.wanted, ...again }), this.closed.then(() => undefined)]),
    )
    if (!answered) throw new Error('the connection ended')
    if ('error' in answered) return answered
    this.#isLagging = false
    if (answered.reset) this.resets++
    if (answered.items) {
      this.items.clear()
      for (const item of answered.items) this.items.set(String(item.id), item as Item)
    }
    this.position = answered.position
    this.journal = answered.journal
    this.#subscription = answered.subscription
    for (const change of this.#early) this.#apply(change)
    return answered
  }

  #take(change: Change): void {
    if (this.#subscription === '') this.#early.push(change)
    else this.#apply(change)
  }

  #apply({ subscription, position, kind, id, item }: Change): void {
    if (subscription !== this.#subscription) return
    const key = String(id)
    // Items that expire together have the position before, but for the last one.
    if (position < this.position || (position === this.position && kind !== 'leave'))
      this.faults.push(`position ${position} after ${this.position}`)
    if ((kind === 'enter') === this.items.has(key)) this.faults.push(`${kind} of ${key} at ${position}`)
    this.position = position
    if (kind === 'leave') this.items.delete(key)
    else this.items.set(key, item as Item)
  }

  cut(): void {
    this.#socket?.close()
  }

  /** The socket, as it is under Socket.IO, stops or goes on reading. */
  get raw(): { pause(): void; resume(): void } {
    const transport = this.#socket?.io.engine.transport as unknown as {
      ws: { _socket: { pause(): void; resume(): void } }
    }
    return transport.ws._socket
  }

  emit(name: string, ...args: unknown[]): Promise<unknown> {
    const answer = this.#socket?.emitWithAck(name, ...args) as Promise<unknown>
    return within(`the response to the message ${name}`, answer)
  }
}

async function expected(server: Asked, { collection, query = '' }: Subscribe): Promise<Item[]> {
  const answer = await server.fetch(`/api/${collection}?pageSize=10000&${query}`)
  return answer.status === 404 ? [] : ((await answer.json()) as Item[])
}

/** Waits until the list is what a GET answers, and says how they differ if it never is. */
export async function agree(server: Asked, follower: Follower, context: string): Promise<void> {
  const byId = (items: Iterable<Item>): string =>
    JSON.stringify([...items].sort((a, b) => (String(a.id) < String(b.id) ? -1 : 1)))
  let [left, right] = ['', '']
  await until(`${context}: ${JSON.stringify(follower.wanted)}`, async () => {
    left = byId(follower.items.values())
    right = byId(await expected(server, follower.wanted))
    return left === right
  })
  assert.equal(left, right)
  assert.deepEqual(follower.faults, [], context)
}
