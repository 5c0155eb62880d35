import { io, type Socket } from 'socket.io-client'
import type { Change, ClientMessages, ServerMessages, Subscribe, Subscribed } from '../sockets/protocol.ts'
import type { Credentials } from './credentials.ts'
import { type Listener, Listeners } from './listeners.ts'

export type Updated = Parameters<ServerMessages['updated']>[0]

/**
 * `idle` until something needs a connection. `connecting` until every live list is right, also after it was
 * `disconnected`; it tries again by itself. `refused`: the server does not accept the credentials; others may.
 */
export type ConnectionState = 'idle' | 'connecting' | 'connected' | 'disconnected' | 'refused' | 'closed'

export interface StateChange {
  readonly state: ConnectionState
  /** With `connected`, after the connection was lost: the changes that the lists had missed. */
  readonly caughtUp?: number
}

/** Who keeps a list right by what is sent. */
export interface Subscriber {
  /** To be asked for now. */
  readonly wanted: Subscribe
  answered(answer: Subscribed): void
  change(change: Change): void
  /** From here on only the latest change of each item comes, not every change in its order. */
  lagging(): void
  /** Everything up to here was sent. */
  current(position: number): void
  /** All notifications up to here were sent, and so was every change before them. */
  told(position: number): void
  disconnected(): void
  /** The client is closed. */
  ended(): void
}

/** Between what the server has ended by itself and the next attempt. */
const RETRY_MS = 1000
const LONGEST_RETRY_MS = 5000

/** The one connection of a client; opened when somebody needs it first. */
export class Connection {
  readonly #url: URL
  readonly #credentials: () => Credentials
  readonly #withBrowsers: boolean
  readonly #subscribers = new Set<Subscriber>()
  readonly #byId = new Map<string, Subscriber>()
  /** Changes can come before the answer that says whose they are. */
  #early: Change[] = []
  #asking = 0
  /** Those that are not yet right since the connection is back, and what the others had missed. */
  readonly #behind = new Set<Subscriber>()
  #caughtUp: number | undefined
  #socket: Socket<ServerMessages, ClientMessages> | undefined
  /** Answers to what an earlier connection was asked count no more. */
  #generation = 0
  #isRenewing = false
  #retry: ReturnType<typeof setTimeout> | undefined
  #state: ConnectionState = 'idle'
  readonly #onState = new Listeners<StateChange>()
  readonly #onUpdated = new Listeners<Updated>()

  /** `withBrowsers`: a browser sends what it holds itself to another origin, too. */
  constructor(base: string, credentials: () => Credentials, withBrowsers = false) {
    this.#url = new URL(base)
    this.#credentials = credentials
    this.#withBrowsers = withBrowsers
  }

  get state(): ConnectionState {
    return this.#state
  }

  onState(listener: Listener<StateChange>): () => void {
    this.#open()
    return this.#onState.add(listener)
  }

  onUpdated(listener: Listener<Updated>): () => void {
    this.#open()
    return this.#onUpdated.add(listener)
  }

  add(subscriber: Subscriber): void {
    if (this.#state === 'closed') {
      subscriber.ended()
      return
    }
    this.#open()
    this.#subscribers.add(subscriber)
    if (this.#socket?.connected) this.subscribe(subscriber)
  }

  remove(subscriber: Subscriber): void {
    this.#subscribers.delete(subscriber)
    for (const [id, one] of this.#byId) {
      if (one !== subscriber) continue
      this.#byId.delete(id)
      if (this.#socket?.connected) this.#socket.emit('unsubscribe', { subscription: id })
    }
    this.settled(subscriber, 0)
  }

  /** Asks for what the subscriber wants now; a no-op without a connection, as it is asked for when there is one. */
  subscribe(subscriber: Subscriber): void {
    const socket = this.#socket
    if (!socket?.connected) return
    const generation = this.#generation
    this.#asking++
    socket.emit('subscribe', subscriber.wanted, (answer) => {
      if (generation !== this.#generation) return
      this.#asking--
      if ('subscription' in answer) {
        if (!this.#subscribers.has(subscriber)) socket.emit('unsubscribe', { subscription: answer.subscription })
        else this.#byId.set(answer.subscription, subscriber)
      }
      if (this.#subscribers.has(subscriber)) subscriber.answered(answer)
      const early = this.#early
      this.#early = []
      for (const change of early) this.#take(change)
    })
  }

  /** The subscriber is right, having missed so many changes, or will never be. */
  settled(subscriber: Subscriber, missed: number): void {
    if (!this.#behind.delete(subscriber)) return
    if (this.#caughtUp !== undefined) this.#caughtUp += missed
    if (this.#behind.size === 0) this.#connected()
  }

  /** Begins anew, as somebody else. */
  renew(): void {
    if (!this.#socket) return
    clearTimeout(this.#retry)
    this.#isRenewing = true
    this.#socket.disconnect()
    this.#isRenewing = false
    this.#say('connecting')
    this.#socket.connect()
  }

  close(): void {
    clearTimeout(this.#retry)
    for (const subscriber of [...this.#subscribers]) subscriber.ended()
    this.#say('closed')
    this.#socket?.disconnect()
    this.#socket = undefined
  }

  #open(): void {
    if (this.#socket || this.#state === 'closed') return
    const { origin, pathname } = this.#url
    const socket: Socket<ServerMessages, ClientMessages> = io(origin, {
      path: `${pathname.replace(/\/$/, '')}/socket.io/`,
      forceNew: true,
      withCredentials: this.#withBrowsers,
      transports: ['websocket', 'polling'],
      tryAllTransports: true,
      reconnectionDelay: RETRY_MS / 4,
      reconnectionDelayMax: LONGEST_RETRY_MS,
      auth: (answer) => answer(this.#credentials()),
    })
    this.#socket = socket
    this.#say('connecting')
    socket.on('connect', () => this.#begin())
    socket.on('disconnect', (reason) => {
      this.#lose()
      if (this.#socket && reason === 'io server disconnect') this.#connectLater()
    })
    socket.on('connect_error', ({ message }) => {
      // Refused by the server itself: Socket.IO does not try again.
      if (!socket.active && message === 'Unauthenticated') return this.#say('refused')
      this.#say('disconnected')
      if (!socket.active) this.#connectLater()
    })
    socket.on('change', (change) => this.#take(change))
    socket.on('lagging', ({ subscription }) => this.#byId.get(subscription)?.lagging())
    socket.on('current', ({ subscription, position }) => this.#byId.get(subscription)?.current(position))
    socket.on('updated', (updated) => {
      for (const subscriber of this.#byId.values()) subscriber.told(updated.position)
      this.#onUpdated.tell(updated)
    })
  }

  #begin(): void {
    this.#forget()
    for (const subscriber of this.#subscribers) this.#behind.add(subscriber)
    for (const subscriber of this.#subscribers) this.subscribe(subscriber)
    if (this.#behind.size === 0) this.#connected()
    else this.#say('connecting')
  }

  #lose(): void {
    this.#forget()
    this.#caughtUp ??= 0
    for (const subscriber of this.#subscribers) subscriber.disconnected()
    if (!this.#isRenewing) this.#say('disconnected')
  }

  #forget(): void {
    this.#generation++
    this.#byId.clear()
    this.#behind.clear()
    this.#early = []
    this.#asking = 0
  }

  #connectLater(): void {
    clearTimeout(this.#retry)
    this.#retry = setTimeout(() => this.#socket?.connect(), RETRY_MS)
  }

  #connected(): void {
    if (!this.#socket?.connected) return
    const caughtUp = this.#caughtUp
    this.#caughtUp = undefined
    this.#say('connected', caughtUp)
  }

  #take(change: Change): void {
    const subscriber = this.#byId.get(change.subscription)
    if (subscriber) subscriber.change(change)
    else if (this.#asking > 0) this.#early.push(change)
  }

  #say(state: ConnectionState, caughtUp?: number): void {
    if (this.#state === 'closed' || (this.#state === state && caughtUp === undefined)) return
    this.#state = state
    this.#onState.tell({ state, ...(caughtUp !== undefined && { caughtUp }) })
  }
}
