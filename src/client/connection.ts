import { io, type Socket } from 'socket.io-client'
import type { Change, ClientMessages, ServerMessages, Subscribe, Subscribed, Updated } from '../sockets/protocol.ts'
import type { SentCredentials, Session } from './credentials.ts'
import { hasStatus, type Problem, problem, retryDelayMs } from './problem.ts'

/**
 * `idle`: not needed yet. `connecting`: until every live list is up to date. `disconnected`: will reconnect by itself.
 * `refused`: the server rejected the credentials, and there are no others; set them with `login` or `authenticate`.
 */
export type ConnectionState = 'idle' | 'connecting' | 'connected' | 'disconnected' | 'refused' | 'closed'

export interface StateChange {
  readonly state: ConnectionState
  /** After a reconnection: how many changes the lists had missed. */
  readonly caughtUp?: number
  /** Why the state is `refused`. */
  readonly error?: Problem
}

/** A live list, as the connection sees it. */
export interface ListSubscriber {
  /** The subscription to send now. */
  readonly subscribeMessage: Subscribe
  answered(answer: Subscribed): void
  change(change: Change): void
  /** From here on only the latest change of each item is sent. */
  lagging(): void
  /** Everything up to this position was sent. */
  current(position: number): void
  /** All notifications up to this position were sent, and all changes before them. */
  notified(position: number): void
  disconnected(): void
  /** The server rejected the credentials. */
  refused(error: Problem): void
  close(): void
}

/** The first and the longest delay before Socket.IO reconnects. */
const [DELAY_MS, LONGEST_DELAY_MS] = [250, 5000]
/** Subscriptions that wait for a response at a time: the server disconnects a client that queues 256. */
const MOST_UNANSWERED = 64

/** The connection of a client, opened on first use. */
export class Connection {
  readonly #url: URL
  readonly #session: () => Session
  readonly #sendsBrowserCredentials: boolean
  readonly #subscribers = new Set<ListSubscriber>()
  readonly #byId = new Map<string, ListSubscriber>()
  #unanswered = 0
  /** Lists whose subscription is to be sent later. */
  readonly #queued = new Set<ListSubscriber>()
  /** Lists that are not up to date since the reconnection, and the number of changes that the others had missed. */
  readonly #behind = new Set<ListSubscriber>()
  #caughtUp: number | undefined
  #socket: Socket<ServerMessages, ClientMessages> | undefined
  /** Counts the times that the credentials were asked for. */
  #attempts = 0
  #sent: SentCredentials = {}
  /** The credentials were rejected and renewed, and not accepted since. */
  #wasRejected = false
  #retry: ReturnType<typeof setTimeout> | undefined
  #last: StateChange = { state: 'idle' }
  readonly #onState = new Listeners<StateChange>()
  readonly #onUpdated = new Listeners<Updated>()

  /** `sendsBrowserCredentials`: the browser's own credentials are sent to other origins as well. */
  constructor(base: string, session: () => Session, sendsBrowserCredentials = false) {
    this.#url = new URL(base)
    this.#session = session
    this.#sendsBrowserCredentials = sendsBrowserCredentials
  }

  get state(): ConnectionState {
    return this.#last.state
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
    if (this.state === 'closed') {
      subscriber.close()
      return
    }
    this.#open()
    this.#subscribers.add(subscriber)
    if (this.#socket?.connected) this.subscribe(subscriber)
    else if (this.#last.error) subscriber.refused(this.#last.error)
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
    if (this.#unanswered >= MOST_UNANSWERED) return void this.#queued.add(subscriber)
    this.#unanswered++
    // Socket.IO calls back only while the connection lasts.
    socket.emit('subscribe', subscriber.subscribeMessage, (answer) => {
      this.#unanswered--
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
    if (this.#behind.size === 0) this.#onUpToDate()
  }

  /** Reconnects with new credentials. */
  reconnect(): void {
    if (!this.#socket) return
    clearTimeout(this.#retry)
    this.#attempts++
    this.#wasRejected = false
    this.#socket.disconnect()
    this.#become({ state: 'connecting' })
    this.#socket.connect()
  }

  close(): void {
    clearTimeout(this.#retry)
    this.#attempts++
    for (const subscriber of [...this.#subscribers]) subscriber.close()
    this.#become({ state: 'closed' })
    this.#socket?.disconnect()
    this.#socket = undefined
  }

  #open(): void {
    if (this.#socket || this.state === 'closed') return
    const { origin, pathname } = this.#url
    const socket: Socket<ServerMessages, ClientMessages> = io(origin, {
      path: `${pathname.replace(/\/$/, '')}/socket.io/`,
      forceNew: true,
      withCredentials: this.#sendsBrowserCredentials,
      transports: ['websocket', 'polling'],
      tryAllTransports: true,
      reconnectionDelay: DELAY_MS,
      reconnectionDelayMax: LONGEST_DELAY_MS,
      auth: (answer) => void this.#identify(answer),
    })
    this.#socket = socket
    this.#become({ state: 'connecting' })
    socket.on('connect', () => this.#subscribeAll())
    socket.on('disconnect', (reason) => {
      this.#onDisconnected()
      // Who disconnects here says which state follows.
      if (reason !== 'io client disconnect') this.#become({ state: 'disconnected' })
    })
    socket.on('connect_error', ({ message }) => {
      // The server has refused the connection: Socket.IO does not try again.
      if (!socket.active && message === 'Unauthenticated') return void this.#onRejected()
      this.#become({ state: 'disconnected' })
      if (!socket.active) this.#connectLater()
    })
    // The response that names a subscription comes before its changes.
    socket.on('change', (change) => this.#byId.get(change.subscription)?.change(change))
    socket.on('lagging', ({ subscription }) => this.#byId.get(subscription)?.lagging())
    socket.on('current', ({ subscription, position }) => this.#byId.get(subscription)?.current(position))
    socket.on('updated', (updated) => {
      for (const subscriber of this.#byId.values()) subscriber.notified(updated.position)
      this.#onUpdated.call(updated)
    })
  }

  /** Answers with the credentials, unless another connection has begun meanwhile. */
  async #identify(answer: (credentials: SentCredentials) => void): Promise<void> {
    const attempt = ++this.#attempts
    try {
      const sent = await this.#session().forConnection()
      if (attempt !== this.#attempts) return
      this.#sent = sent
      answer(sent)
    } catch (error) {
      if (attempt === this.#attempts) this.#onNoCredentials(error)
    }
  }

  /** Connects with other credentials, if there are any. */
  async #onRejected(): Promise<void> {
    const attempt = this.#attempts
    const isRenewed = !this.#wasRejected && (await this.#session().rejected(this.#sent))
    if (attempt !== this.#attempts) return
    this.#wasRejected = isRenewed
    if (isRenewed) this.#socket?.connect()
    else this.#refuse(problem('Unauthenticated', 401, 'The server rejected the credentials.'))
  }

  #onNoCredentials(error: unknown): void {
    this.#socket?.disconnect()
    if (hasStatus(error, 401)) this.#refuse(error)
    else {
      this.#become({ state: 'disconnected' })
      this.#connectLater(error)
    }
  }

  #refuse(error: Problem): void {
    for (const subscriber of this.#subscribers) subscriber.refused(error)
    this.#become({ state: 'refused', error })
  }

  #subscribeAll(): void {
    this.#clear()
    this.#wasRejected = false
    for (const subscriber of this.#subscribers) this.#behind.add(subscriber)
    for (const subscriber of this.#subscribers) this.subscribe(subscriber)
    if (this.#behind.size === 0) this.#onUpToDate()
    else this.#become({ state: 'connecting' })
  }

  #onDisconnected(): void {
    this.#clear()
    this.#caughtUp ??= 0
    for (const subscriber of this.#subscribers) subscriber.disconnected()
  }

  #clear(): void {
    this.#byId.clear()
    this.#behind.clear()
    this.#queued.clear()
    this.#unanswered = 0
  }

  /** Socket.IO does not connect again after the server has rejected the connection, or without a token. */
  #connectLater(error?: unknown): void {
    clearTimeout(this.#retry)
    this.#retry = setTimeout(() => this.#socket?.connect(), retryDelayMs(error))
  }

  #onUpToDate(): void {
    if (!this.#socket?.connected) return
    const caughtUp = this.#caughtUp
    this.#caughtUp = undefined
    this.#become({ state: 'connected', ...(caughtUp !== undefined && { caughtUp }) })
  }

  #become(next: StateChange): void {
    if (this.state === 'closed' || (this.state === next.state && next.caughtUp === undefined)) return
    this.#last = next
    this.#onState.call(next)
  }
}

export type Listener<T> = (value: T) => void

/** Calls each listener, even if another one throws. */
export class Listeners<T> {
  readonly #listeners = new Set<Listener<T>>()

  /** Returns a function that removes the listener. */
  add(listener: Listener<T>): () => void {
    // A function of its own, since a listener may be added twice.
    const call: Listener<T> = (value) => listener(value)
    this.#listeners.add(call)
    return () => void this.#listeners.delete(call)
  }

  call(value: T): void {
    for (const listener of [...this.#listeners]) {
      try {
        listener(value)
      } catch (error) {
        // Reported as an unhandled error, without effect on other listeners.
        queueMicrotask(() => {
          throw error
        })
      }
    }
  }
}
