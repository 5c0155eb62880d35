import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { nextTick } from 'node:process'
import { TURN_MS } from '../runtime/turns.ts'
import { allowHalfOpen, correctIdleConnections, intercept, stopParsing } from './node-http-internals.ts'
import {
  answerClientError,
  type BodyAwareResponse,
  closeLingering,
  continueWhenRead,
  lingerAtEnd,
  malformation,
  refuseMalformed,
  unavailable,
} from './unread-requests.ts'

/**
 * The life of an HTTP/1.1 connection:
 *
 * | State | `unanswered` | `waiting` | `reading` | Next state |
 * |---|---|---|---|---|
 * | idle | empty | empty | on | answering with a request; closed after the keep-alive time, or at the end of the server |
 * | answering | 1 to 32 | empty | on | idle when all responses are sent, or closed if one of them was the last; waiting with a request meanwhile |
 * | waiting | 0 to 32 | some | paused | answering when the last of these requests has begun |
 * | detached | any | any | detached | by an upgrade, a malformed request or the end of the server: when all responses are sent, a WebSocket, idle if the offer is declined, or an error response and closed |
 *
 * Pipelined requests are executed and answered in order: each begins when the ones before it have their responses, which
 * may not be sent yet. A client that closes its side gets its responses. A response with `Connection: close` is the last
 * one: requests after it are not executed, so that no write is left without a response.
 */
interface HttpConnection {
  readonly socket: Socket
  /** The response to the last received request; undefined while the connection is idle. */
  latest: ServerResponse | undefined
  /** Responses that are not sent yet, whose requests have begun. */
  readonly unanswered: Map<ServerResponse, Handling>
  /** Responses whose requests have not begun. */
  waiting: ServerResponse[]
  /** Whether Node's parser gets what the client sends. */
  reading: 'on' | 'paused' | 'detached'
  readonly stayPaused: () => void
}

/**
 * Whether a request has its response, which is sent within this iteration of the event loop, will get it later, or is left
 * to other listeners.
 */
type Handling = 'answered' | 'pending' | 'left'

/** Sees each request before the existing listeners. */
export type Front = (request: IncomingMessage, response: ServerResponse) => Handling

/** Highest number of requests of one connection whose responses are not sent yet. */
const MOST_UNANSWERED = 32
/**
 * Highest number of waiting requests on all connections. Node parses a whole chunk of 64 KiB before a connection can be
 * paused: up to 2,700 requests, which take 1.5 KB each. Beyond the limit, the connection with the most requests is
 * destroyed.
 */
const MOST_WAITING = 20_000
/** How long a client that has closed its side waits for a response to begin. */
const HALF_CLOSED_MS = 5000
/** Long polls of Socket.IO are aborted at once, as they may wait for ever. */
const SOCKET_IO = '/socket.io/'

/** How often to check connections. */
const CHECK_MS = 1000
/** How much longer than announced an idle connection stays open: a client may send at the last moment. */
const GRACE_MS = 4500

/** Tracks all connections of an HTTP server, and controls the order and number of their requests. */
export class Connections {
  readonly #http: Server
  readonly #all = new Map<Socket, HttpConnection>()
  #front: Front = () => 'left'
  #others: (request: IncomingMessage, response: ServerResponse) => void = () => {}
  /** Connections with a request to start, in order. */
  readonly #ready = new Set<HttpConnection>()
  #isTurnComing = false
  /** How long starting requests has taken in this iteration of the event loop; after TURN_MS they wait for the next. */
  #spentMs = 0
  #isReadingNothing = false
  #waiting = 0
  #isDraining = false

  constructor(http: Server) {
    this.#http = http
    allowHalfOpen(http)
    correctIdleConnections(http, {
      all: () => this.#sockets(({ reading }) => reading !== 'detached'),
      busy: () => this.#sockets((connection) => connection.reading !== 'detached' && !isIdle(connection)),
    })
    http.on('connection', (socket) => this.#open(socket))
    http.on('clientError', (error, socket) => this.#break(error, socket as Socket))
  }

  /** Begins to dispatch requests: to `front`, and those that it leaves to the existing listeners. */
  serve(front: Front): void {
    this.#front = front
    this.#others = intercept(this.#http, 'request')
    this.#http.on('request', (_request, response) => this.#receive(response))
    this.#http.on('checkContinue', (request, response) => {
      continueWhenRead(request, response as BodyAwareResponse)
      this.#receive(response)
    })
  }

  #open(socket: Socket): void {
    const known = this.#all.get(socket)
    if (known) {
      // Its upgrade offer was declined. Node's own listener, which resumes, must come first.
      known.reading = 'on'
      socket.off('resume', known.stayPaused).on('resume', known.stayPaused)
      return
    }
    const connection: HttpConnection = {
      socket,
      latest: undefined,
      unanswered: new Map(),
      waiting: [],
      reading: 'on',
      // Reading a request's body resumes its connection.
      stayPaused: () => void (connection.reading === 'paused' && socket.pause()),
    }
    this.#all.set(socket, connection)
    socket.on('resume', connection.stayPaused)
    socket.once('close', () => {
      this.#all.delete(socket)
      this.#keepWaiting(connection, () => false)
      // Node closes the response that has the socket only. Others would keep what they hold.
      for (const response of connection.unanswered.keys()) if (!response.closed) response.emit('close')
    })
    socket.once('end', () => halfClosed(connection))
  }

  #receive(response: ServerResponse): void {
    const connection = this.#all.get(response.req.socket)
    if (!connection) return
    const { latest } = connection
    if (latest && !latest.shouldKeepAlive) {
      pause(connection)
      lingerAtEnd(connection.socket)
      return
    }
    if (this.#isDraining || malformation(response.req) !== undefined) response.shouldKeepAlive = false
    connection.latest = response
    // Node assigns a response its socket when the previous ones are sent.
    if (response.socket !== null && this.#spentMs < TURN_MS) {
      this.#begin(connection, response)
      return
    }
    connection.waiting.push(response)
    this.#waiting++
    this.#advance(connection)
    if (this.#waiting > MOST_WAITING) {
      this.#destroyLongest()
      this.#readNothing()
    }
  }

  #begin(connection: HttpConnection, response: ServerResponse): void {
    const { unanswered } = connection
    const began = performance.now()
    unanswered.set(response, this.#handle(response))
    this.#spentMs += performance.now() - began
    this.#scheduleTurn()
    response.on('close', () => {
      unanswered.delete(response)
      // The listeners of a response refer to what it was made from, which an idle connection is not to keep.
      if (connection.latest === response && isIdle(connection)) connection.latest = undefined
      this.#advance(connection)
    })
  }

  #handle(response: ServerResponse): Handling {
    // Malformed requests are the last of their connection.
    const problem = response.shouldKeepAlive ? undefined : malformation(response.req)
    if (problem !== undefined) {
      refuseMalformed(response, problem)
      return 'answered'
    }
    const handling = this.#front(response.req, response)
    if (handling === 'left') this.#others(response.req, response)
    return handling
  }

  /** Schedules the connection's next request as soon as it may start. */
  #advance(connection: HttpConnection): void {
    if (mayBegin(connection)) {
      this.#ready.add(connection)
      this.#scheduleTurn()
    }
    if (connection.waiting.length > 0) pause(connection)
    else if (connection.reading === 'paused') {
      connection.reading = 'on'
      connection.socket.resume()
    }
  }

  #scheduleTurn(): void {
    if (this.#isTurnComing) return
    this.#isTurnComing = true
    setImmediate(() => {
      this.#isTurnComing = false
      this.#spentMs = 0
      this.#turn()
    })
  }

  /**
   * Connections take turns, so that one with many pipelined requests does not delay others. A request begins when the
   * promises of the one before have run, as when it comes by itself: what that one takes, such as a slot, is counted.
   */
  #turn(): void {
    const [connection] = this.#ready
    if (!connection) return
    if (this.#spentMs >= TURN_MS) {
      this.#scheduleTurn()
      return
    }
    this.#ready.delete(connection)
    if (mayBegin(connection)) {
      this.#waiting--
      this.#begin(connection, connection.waiting.shift() as ServerResponse)
    }
    // Adds the connection again, behind the others.
    this.#advance(connection)
    afterPromises(() => this.#turn())
  }

  #keepWaiting(connection: HttpConnection, isKept: (response: ServerResponse) => boolean): void {
    const kept = connection.waiting.filter(isKept)
    this.#waiting -= connection.waiting.length - kept.length
    connection.waiting = kept
  }

  #destroyLongest(): void {
    const longest = [...this.#all.values()].reduce((a, b) => (b.waiting.length > a.waiting.length ? b : a))
    this.#keepWaiting(longest, () => false)
    longest.socket.destroy()
  }

  /** Pauses all connections until destroyed ones have released their memory, which others would fill first. */
  #readNothing(): void {
    if (this.#isReadingNothing) return
    this.#isReadingNothing = true
    for (const socket of this.#sockets(({ reading }) => reading === 'on')) socket.pause()
    setTimeout(() => {
      this.#isReadingNothing = false
      for (const socket of this.#sockets(({ reading }) => reading === 'on')) socket.resume()
    }, 1)
  }

  *#sockets(isMeant: (connection: HttpConnection) => boolean): Generator<Socket> {
    for (const connection of this.#all.values()) if (isMeant(connection)) yield connection.socket
  }

  /** Stops reading the connection. Complete requests before the error are still answered. */
  #break(error: NodeJS.ErrnoException, socket: Socket): void {
    const connection = this.#all.get(socket)
    if (!connection || connection.reading === 'detached') return
    socket.pause()
    this.#keepWaiting(connection, ({ req }) => req.complete)
    detach(connection, () => answerClientError(error, socket))
  }

  /**
   * Calls back when a connection's earlier requests are answered. Node's server has released the connection, so that its
   * responses are resumed here.
   */
  beforeUpgrade(socket: Socket, go: () => void): void {
    const connection = this.#all.get(socket)
    if (!connection) {
      go()
      return
    }
    const drained = (): void => {
      for (const response of connection.unanswered.keys()) if (response.socket === socket) response.emit('drain')
    }
    const stalled = (): void => void socket.destroy()
    socket.on('drain', drained).on('timeout', stalled)
    detach(connection, () => {
      socket.off('drain', drained).off('timeout', stalled)
      go()
    })
  }

  /**
   * Destroys a connection when its client has not read a pending response for so long, or when it is idle for longer than
   * `keepAliveTimeout`, which `Keep-Alive` announces. Node's socket timeout counts each byte that the kernel accepts, so
   * slow readers stay connected. So do event streams without events.
   */
  limitIdleTime(stallSeconds: number): void {
    const stallMs = stallSeconds * 1000
    // A timeout for each response would cost a timer each.
    const checking = setInterval(() => {
      for (const socket of this.#sockets(isAnswering)) {
        if (socket.writableLength > 0 && socket.timeout !== stallMs) socket.setTimeout(stallMs)
      }
    }, CHECK_MS).unref()
    this.#http.once('close', () => clearInterval(checking))

    /** Connections in their grace time, with the number of bytes received before it. */
    const inGrace = new WeakMap<Socket, number>()
    this.#http.on('timeout', (socket) => {
      const connection = this.#all.get(socket)
      if (connection && isAnswering(connection)) {
        if (socket.writableLength > 0) socket.destroy()
      } else if (inGrace.get(socket) === socket.bytesRead) socket.destroy()
      else {
        inGrace.set(socket, socket.bytesRead)
        socket.setTimeout(GRACE_MS)
      }
    })
  }

  /** From now on every response, also to pending requests, closes its connection. */
  drain(): void {
    this.#isDraining = true
    for (const { latest } of this.#all.values()) if (latest && !latest.headersSent) latest.shouldKeepAlive = false
  }

  /** Ends connections that have nothing to answer but requests whose bodies have not arrived, and are not executed. */
  endIncomplete(): void {
    for (const connection of this.#all.values()) endIfIncomplete(connection)
  }

  destroyAll(): void {
    for (const socket of this.#all.keys()) socket.destroy()
  }
}

/** Calls back when all promises that are settled by then have run. */
function afterPromises(work: () => void): void {
  // A tick that a microtask schedules comes after all other microtasks.
  queueMicrotask(() => nextTick(work))
}

function mayBegin({ waiting: [next], unanswered }: HttpConnection): boolean {
  if (!next || unanswered.size >= MOST_UNANSWERED) return false
  for (const handling of unanswered.values()) if (handling !== 'answered') return false
  return true
}

function pause(connection: HttpConnection): void {
  if (connection.reading === 'detached') return
  connection.reading = 'paused'
  connection.socket.pause()
}

/** Leaves the reading of the connection to others, and calls back when its earlier requests are answered. */
function detach(connection: HttpConnection, go: () => void): void {
  const { latest } = connection
  connection.reading = 'detached'
  if (!latest || latest.writableFinished) go()
  else if (latest.req.complete || latest.headersSent) latest.once('close', go)
  // The rest of this request will not arrive, and maybe no response is sent.
  else if (latest.socket) go()
  else latest.once('socket', go)
}

function halfClosed({ socket, latest }: HttpConnection): void {
  if (!latest || latest.writableFinished) return
  const isPoll = latest.req.url?.startsWith(SOCKET_IO) === true
  const giveUp = setTimeout(() => !latest.headersSent && socket.destroy(), isPoll ? 0 : HALF_CLOSED_MS).unref()
  socket.once('close', () => clearTimeout(giveUp))
}

/** Ends upgraded connections, and those whose last request has not arrived completely, with 503. */
function endIfIncomplete(connection: HttpConnection): void {
  const { socket, latest, unanswered, waiting, reading } = connection
  // Otherwise it is being closed already.
  if (!socket.writable) return
  if ([...unanswered.keys(), ...waiting].some(isPending)) return
  if (reading === 'detached' || (latest?.headersSent && !isIdle(connection))) {
    socket.destroy()
    return
  }
  connection.reading = 'detached'
  const reason = 'The request had not arrived completely, and was not executed.'
  socket.write(unavailable('The server is stopping', reason))
  // Node would parse the rest, and the request would be executed.
  stopParsing(socket)
  closeLingering(socket)
}

/** Whether all responses are completely sent, and another request may follow. */
function isIdle({ latest }: HttpConnection): boolean {
  return !latest || (latest.writableFinished && latest.shouldKeepAlive)
}

/** Whether the response to the last request is not completely sent. */
function isAnswering({ latest }: HttpConnection): boolean {
  return latest !== undefined && !latest.writableFinished
}

/** Whether a response is still to be sent. A request whose body is read is not executed before that is complete. */
function isPending({ writableFinished, req }: ServerResponse): boolean {
  return !writableFinished && (req.complete || req.readableFlowing === null)
}
