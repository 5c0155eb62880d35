import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { isSafe } from '../access/roles.ts'
import { answerClientError, malformation, refuseMalformed } from './client-error.ts'
import { type Connection, type Exchange, type Front, mayBegin, pause, type Taken } from './connection.ts'
import { lingerAtEnd } from './lingering-close.ts'

/**
 * Requests that wait so on all connections together. Node parses all of what it has read, 64 KiB, before a connection can
 * be paused: up to 2,700 requests, which take 1.5 KB each. When there are more, the connection with the most is destroyed.
 */
const WAITING = 20_000
/** Requests from behind others that are begun in one turn of the event loop. */
const BEGUN_PER_TURN = 32
/** How long a client that has closed its side waits for a response to begin. */
const HALF_CLOSED_MS = 5000
/** A long poll there is given up at once, as its client waits for something that may not come. */
const SOCKET_IO = '/socket.io/'

/** All connections of an HTTP server, and in which order and number their requests are answered. */
export class Connections {
  readonly #http: Server
  readonly #all = new Map<Socket, Connection>()
  #front: Front = () => 'left'
  #others: readonly RequestListener[] = []
  /** In whose turn the next request is begun. */
  readonly #ready: Connection[] = []
  #isTurnComing = false
  #isReadingNothing = false
  #waiting = 0
  #isDraining = false

  constructor(http: Server) {
    this.#http = http
    // Undocumented, but there since Node 0.5: a client that closes its side after its request still gets the response.
    ;(http as { httpAllowHalfOpen?: boolean }).httpAllowHalfOpen = true
    http.on('connection', (socket) => this.#open(socket))
    http.on('clientError', (error, socket) => this.#break(error, socket as Socket))
  }

  /** Begins to hand requests on: to `front`, and what that leaves to all that have listened for requests so far. */
  serve(front: Front): void {
    this.#front = front
    this.#others = this.#http.listeners('request') as RequestListener[]
    this.#http.removeAllListeners('request')
    this.#http.on('request', (request, response) => this.#receive(request, response))
  }

  /** From now on every response, also to a request that is here already, is its connection's last. */
  drain(): void {
    this.#isDraining = true
    for (const { latest } of this.#all.values()) if (latest && !latest.headersSent) latest.shouldKeepAlive = false
  }

  /** Calls back when all that came before on a connection, which is read no further, is answered; at once when it is. */
  afterAnswers(socket: Socket, go: () => void): void {
    const connection = this.#all.get(socket)
    const latest = connection?.latest
    if (connection) {
      connection.isDetached = true
      connection.isPaused = false
    }
    if (!latest || latest.writableFinished) go()
    else if (latest.req.complete || latest.headersSent) latest.once('close', go)
    // The rest of this request will not come. Its own response may not either.
    else if (latest.socket) go()
    else latest.once('socket', go)
  }

  /** The same for a connection that Node's HTTP server has let go of, so that nobody else tells the responses that they can go on. */
  beforeUpgrade(socket: Socket, go: () => void): void {
    const connection = this.#all.get(socket)
    const drained = (): void => {
      for (const response of [...(connection?.unanswered ?? []), connection?.latest]) {
        if (response?.socket === socket) response.emit('drain')
      }
    }
    const stalled = (): void => void socket.destroy()
    socket.on('drain', drained).on('timeout', stalled)
    this.afterAnswers(socket, () => {
      socket.off('drain', drained).off('timeout', stalled)
      go()
    })
  }

  /** Whether a response to the connection's last request is still to be sent, or being sent. */
  isAnswering(socket: Socket): boolean {
    const latest = this.#all.get(socket)?.latest
    return latest !== undefined && !latest.writableFinished
  }

  /** Those that have a response to send. */
  *answering(): Generator<Socket> {
    for (const socket of this.#all.keys()) if (this.isAnswering(socket)) yield socket
  }

  #open(socket: Socket): void {
    const known = this.#all.get(socket)
    if (known) {
      // Its offer of another protocol was declined. Node's own listener, which resumes, must come first.
      known.isDetached = false
      socket.off('resume', known.stayPaused).on('resume', known.stayPaused)
      return
    }
    const connection: Connection = {
      socket,
      latest: undefined,
      taken: 'answered',
      isCounted: false,
      unanswered: new Set(),
      writes: 0,
      read: undefined,
      waiting: [],
      isReady: false,
      isPaused: false,
      isDetached: false,
      // Whoever reads a request's body resumes its connection.
      stayPaused: () => void (connection.isPaused && socket.pause()),
    }
    this.#all.set(socket, connection)
    socket.on('resume', connection.stayPaused)
    socket.once('close', () => {
      this.#all.delete(socket)
      this.#keepWaiting(connection, () => false)
    })
    socket.once('end', () => this.#halfClosed(connection))
  }

  #halfClosed({ socket, latest }: Connection): void {
    if (!latest || latest.writableFinished) return
    const isPoll = latest.req.url?.startsWith(SOCKET_IO) === true
    const giveUp = setTimeout(() => !latest.headersSent && socket.destroy(), isPoll ? 0 : HALF_CLOSED_MS).unref()
    socket.once('close', () => clearTimeout(giveUp))
  }

  /** The rest of the connection is not to be read. What came whole before it is still answered. */
  #break(error: NodeJS.ErrnoException, socket: Socket): void {
    const connection = this.#all.get(socket)
    if (!connection || connection.isDetached) return
    socket.pause()
    this.#keepWaiting(connection, ({ request }) => request.complete)
    this.afterAnswers(socket, () => answerClientError(error, socket))
  }

  #receive(request: IncomingMessage, response: ServerResponse): void {
    const connection = this.#all.get(request.socket)
    if (!connection) return
    const before = connection.latest
    if (before && !before.shouldKeepAlive) {
      // Requests behind the last response are not executed, so that no write is left without a response.
      pause(connection)
      lingerAtEnd(request.socket)
      return
    }
    if (this.#isDraining) response.shouldKeepAlive = false
    const problem = malformation(request)
    if (problem !== undefined) response.shouldKeepAlive = false
    // Node gives a response its socket when those before it are sent.
    if (response.socket !== null) {
      connection.latest = response
      connection.isCounted = false
      connection.taken = this.#run(request, response, problem)
      return
    }
    if (before && !connection.isCounted) this.#count(connection, before, connection.taken)
    connection.latest = response
    connection.isCounted = true
    connection.waiting.push({ request, response })
    this.#waiting++
    this.#advance(connection)
    if (this.#waiting > WAITING) {
      this.#destroyLongest()
      this.#readNothing()
    }
  }

  /** Sees to it that the connection's next request is begun when it may be. */
  #advance(connection: Connection): void {
    if (mayBegin(connection) && !connection.isReady) {
      connection.isReady = true
      this.#ready.push(connection)
      if (!this.#isTurnComing) setImmediate(() => this.#turn())
      this.#isTurnComing = true
    }
    if (connection.isDetached) return
    if (connection.waiting.length > 0) pause(connection)
    else if (connection.isPaused) {
      connection.isPaused = false
      connection.socket.resume()
    }
  }

  /** Connections take turns, so that none keeps the others, or those whose requests come one by one, from being answered. */
  #turn(): void {
    for (let begun = 0; begun < BEGUN_PER_TURN && this.#ready.length > 0; begun++) {
      const connection = this.#ready.shift() as Connection
      connection.isReady = false
      if (mayBegin(connection)) this.#beginNext(connection)
      this.#advance(connection)
    }
    this.#isTurnComing = this.#ready.length > 0
    if (this.#isTurnComing) setImmediate(() => this.#turn())
  }

  #beginNext(connection: Connection): void {
    const { request, response } = connection.waiting.shift() as Exchange
    this.#waiting--
    this.#count(connection, response, this.#run(request, response, malformation(request)))
  }

  /** Follows an unanswered response until it is sent. */
  #count(connection: Connection, response: ServerResponse, taken: Taken): void {
    const isWrite = !isSafe(response.req.method ?? '')
    connection.unanswered.add(response)
    if (isWrite) connection.writes++
    else if (taken !== 'answered') connection.read = response
    response.once('close', () => {
      connection.unanswered.delete(response)
      if (isWrite) connection.writes--
      if (connection.read === response) connection.read = undefined
      this.#advance(connection)
    })
  }

  #keepWaiting(connection: Connection, isKept: (exchange: Exchange) => boolean): void {
    const kept = connection.waiting.filter(isKept)
    this.#waiting -= connection.waiting.length - kept.length
    connection.waiting = kept
  }

  #destroyLongest(): void {
    let longest: Connection | undefined
    for (const one of this.#all.values()) if (one.waiting.length > (longest?.waiting.length ?? 0)) longest = one
    if (!longest) return
    this.#keepWaiting(longest, () => false)
    longest.socket.destroy()
  }

  /** Until what was destroyed has let go of its memory: the event loop would read all connections that have something first. */
  #readNothing(): void {
    if (this.#isReadingNothing) return
    this.#isReadingNothing = true
    const forEach = (change: (socket: Socket) => void): void => {
      for (const { socket, isPaused, isDetached } of this.#all.values()) if (!isPaused && !isDetached) change(socket)
    }
    forEach((socket) => void socket.pause())
    setTimeout(() => {
      this.#isReadingNothing = false
      forEach((socket) => void socket.resume())
    }, 1)
  }

  #run(request: IncomingMessage, response: ServerResponse, problem: string | undefined): Taken {
    if (problem !== undefined) {
      refuseMalformed(response, problem)
      return 'answered'
    }
    const taken = this.#front(request, response)
    if (taken === 'left') for (const listener of this.#others) listener.call(this.#http, request, response)
    return taken
  }
}
