import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { answerClientError, malformation, refuseMalformed } from './client-error.ts'
import type { Taken } from './hot-path.ts'
import { lingerAtEnd } from './lingering-close.ts'

/** Requests of one connection that are answered at once. Those after them wait, and the connection is not read meanwhile. */
const UNANSWERED = 32
/**
 * Requests that wait so on all connections together. Node parses all of what it has read, 64 KiB, before a connection can
 * be paused: up to 2,700 requests, which take 1.5 KB each. When there are more, the connection with the most is destroyed.
 */
const WAITING = 20_000
/** How long a client that has closed its side waits for a response to begin. */
const HALF_CLOSED_MS = 5000
/** A long poll there is given up at once, as its client waits for something that may not come. */
const SOCKET_IO = '/socket.io/'

/** Looks at each request before all that listen for requests so far, and says what came of it. */
export type Front = (request: IncomingMessage, response: ServerResponse) => Taken

interface Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
}

/**
 * What is pending on one connection. Requests that were sent behind others (pipelined) are answered in their order, and
 * in a way that RFC 9112 §9.3.2 allows: a read does not begin before the writes in front of it are answered, nor a
 * write before the reads. Writes go on together, as they share a flush; reads only as far as they are answered at once.
 */
interface Connection {
  readonly socket: Socket
  /** To the last request that was received. */
  latest: ServerResponse | undefined
  /** What came of it, if it was begun. */
  taken: Taken
  /** Whether `latest` is among `unanswered`. A request that found the connection idle is not, unless another follows it. */
  isCounted: boolean
  readonly unanswered: Set<ServerResponse>
  writes: number
  /** A read that takes its time. */
  read: ServerResponse | undefined
  waiting: Exchange[]
  isPaused: boolean
  /** Whether Node's parser has let go of it: it is broken, or to be upgraded. */
  isDetached: boolean
  readonly stayPaused: () => void
}

/** All connections of an HTTP server, and in which order and number their requests are answered. */
export class Connections {
  readonly #http: Server
  readonly #all = new Map<Socket, Connection>()
  #front: Front = () => 'left'
  #others: readonly RequestListener[] = []
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
      // What follows the last response is not taken, so that nothing is written without an answer.
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
    if (this.#waiting > WAITING) this.#destroyLongest()
  }

  #advance(connection: Connection): void {
    const { socket, waiting } = connection
    while (waiting.length > 0 && connection.unanswered.size < UNANSWERED && !connection.read) {
      const { request, response } = waiting[0] as Exchange
      if (isRead(request) && connection.writes > 0) break
      waiting.shift()
      this.#waiting--
      const problem = malformation(request)
      this.#count(connection, response, this.#run(request, response, problem))
    }
    if (connection.isDetached) return
    if (waiting.length > 0) pause(connection)
    else if (connection.isPaused) {
      connection.isPaused = false
      socket.resume()
    }
  }

  /** Follows an unanswered response until it is sent. */
  #count(connection: Connection, response: ServerResponse, taken: Taken): void {
    const isWrite = !isRead(response.req)
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

function isRead({ method }: IncomingMessage): boolean {
  return method === 'GET' || method === 'HEAD' || method === 'OPTIONS'
}

function pause(connection: Connection): void {
  connection.isPaused = true
  connection.socket.pause()
}
