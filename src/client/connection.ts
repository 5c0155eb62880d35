import { io, type Socket } from 'socket.io-client'
import type { Change, ClientMessages, ServerMessages, Subscribe, Subscribed, Updated } from '../sockets/protocol.ts'
import type { Credentials } from './requests.ts'

/**
 * `idle`: not needed yet. `connecting`: until every live list is up to date. `disconnected`: will reconnect by itself.
 * `refused`: the server rejected the credentials; set others with `authenticate`.
 */
export type ConnectionState = 'idle' | 'connecting' | 'connected' | 'disconnected' | 'refused' | 'closed'

export interface StateChange {
  readonly state: ConnectionState
  /** After a reconnection: how many changes the lists had missed. */
  readonly caughtUp?: number
}

/** A live list, as the connection sees it. */
export interface ListSubscriber {
  /** The subscription to send now. */
  readonly wanted: Subscribe
  answered(answer: Subscribed): void
  change(change: Change): void
  /** From here on only the latest change of each item is sent. */
  lagging(): void
  /** Everything up to this position was sent. */
  current(position: number): void
  /** All notifications up to this position were sent, and all changes before them. */
  told(position: number): void
  disconnected(): void
  close(): void
}

/** Delay before reconnecting after the server has closed the connection. */
const RETRY_MS = 1000
const LONGEST_RETRY_MS = 5000
/** Subscriptions that wait for a response at a time: the server disconnects a client that queues 256. */
const MOST_ASKING = 64

/** The connection of a client, opened on first use. */
export class Connection {
  readonly #url: URL
  readonly #credentials: () => Credentials
  readonly #withBrowsers: boolean
  readonly #subscribers = new Set<ListSubscriber>()
  readonly #byId = new Map<string, ListSubscriber>()
  #asking = 0
  /** Lists whose subscription is to be sent later. */
  readonly #queued = new Set<ListSubscriber>()
  /** Lists that are not up to date since the reconnection, and the number of changes that the others had missed. */
  readonly #behind = new Set<ListSubscriber>()
  #caughtUp: number | undefined
  #socket: Socket<ServerMessages, ClientMessages> | undefined
  #isRenewing = false
  #retry: ReturnType<typeof setTimeout> | undefined
  #state: ConnectionState = 'idle'
  readonly #onState = new Listeners<StateChange>()
  readonly #onUpdated = new Listeners<Updated>()

  /** `withBrowsers`: send the browser's own credentials to other origins as well. */
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

  add(subscriber: ListSubscriber): void {
    if (this.#state === 'closed') {
      subscriber.close()
      return
    }
    this.#open()
    this.#subscribers.add(subscriber)
    if (this.#socket?.connected) this.subscribe(subscriber)
  }

  remove(subscriber: ListSubscriber): void {
    this.#subscribers.delete(subscriber)
    this.#queued.delete(subscriber)
    for (const [id, one] of this.#byId) {
      if (one !== subscriber) continue
      this.#byId.delete(id)
      if (this.#socket?.connected) this.#socket.emit('unsubscribe', { subscription: id })
    }
    this.settled(subscriber, 0)
  }

  /** Sends the subscription of a list. Does nothing while disconnected; connecting sends it. */
  subscribe(subscriber: ListSubscriber): void {
    const socket = this.#socket
    if (!socket?.connected) return
    if (this.#asking >= MOST_ASKING) {
      this.#queued.add(subscriber)
      return
    }
    this.#asking++
    // Socket.IO calls back only while the connection lasts.
    socket.emit('subscribe', subscriber.wanted, (answer) => {
      this.#asking--
      if ('subscription' in answer) {
        if (!this.#subscribers.has(subscriber)) socket.emit('unsubscribe', { subscription: answer.subscription })
        else this.#byId.set(answer.subscription, subscriber)
      }
      if (this.#subscribers.has(subscriber)) subscriber.answered(answer)
      const [next] = this.#queued
      if (!next) return
      this.#queued.delete(next)
      this.subscribe(next)
    })
  }

  /** The list is up to date after missing `missed` changes, or was ended. */
  settled(subscriber: ListSubscriber, missed: number): void {
    if (!this.#behind.delete(subscriber)) return
    if (this.#caughtUp !== undefined) this.#caughtUp += missed
    if (this.#behind.size === 0) this.#connected()
  }

  /** Reconnects with new credentials. */
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
    for (const subscriber of [...this.#subscribers]) subscriber.close()
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
      // The server has refused the connection: Socket.IO does not try again.
      if (!socket.active && message === 'Unauthenticated') return this.#say('refused')
      this.#say('disconnected')
      if (!socket.active) this.#connectLater()
    })
    // The response that names a subscription comes before its changes.
    socket.on('change', (change) => this.#byId.get(change.subscription)?.change(change))
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
    this.#byId.clear()
    this.#behind.clear()
    this.#queued.clear()
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

  #say(state: ConnectionState, caughtUp?: number): void {
    if (this.#state === 'closed' || (this.#state === state && caughtUp === undefined)) return
    this.#state = state
    this.#onState.tell({ state, ...(caughtUp !== undefined && { caughtUp }) })
  }
}

export type Listener<T> = (told: T) => void

/** Calls each listener, even if another one throws. */
export class Listeners<T> {
  readonly #listeners = new Set<{ readonly tell: Listener<T> }>()

  /** Returns a function that removes the listener. */
  add(tell: Listener<T>): () => void {
    const entry = { tell }
    this.#listeners.add(entry)
    return () => void this.#listeners.delete(entry)
  }

  clear(): void {
    this.#listeners.clear()
  }

  tell(told: T): void {
    for (const { tell } of [...this.#listeners]) {
      try {
        tell(told)
      } catch (error) {
        // Reported as an unhandled error, without effect on other listeners.
        queueMicrotask(() => {
          throw error
        })
      }
    }
  }
}
