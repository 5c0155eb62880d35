import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { isSafe } from '../access/roles.ts'
import { answerClientError, malformation, refuseMalformed, unavailable } from './client-error.ts'
import { type BodyAwareResponse, closeLingering, continueWhenRead, lingerAtEnd } from './unread-bodies.ts'

/**
 * Highest number of waiting requests on all connections. Node parses a whole chunk of 64 KiB before a connection can be
 * paused: up to 2,700 requests, which take 1.5 KB each. Beyond the limit, the connection with the most requests is
 * destroyed.
 */
const WAITING = 20_000
/** Waiting requests that are started in one turn of the event loop. */
const BEGUN_PER_TURN = 32
/** How long a client that has closed its side waits for a response to begin. */
const HALF_CLOSED_MS = 5000
/** Long polls of Socket.IO are aborted at once, as they may wait for ever. */
const SOCKET_IO = '/socket.io/'

/** Tracks all connections of an HTTP server, and controls the order and number of their requests. */
export class Connections {
  readonly #http: Server
  readonly #all = new Map<Socket, HttpConnection>()
  #front: Front = () => 'left'
  #others: readonly RequestListener[] = []
  /** Connections with a request to start, in order. */
  readonly #ready: HttpConnection[] = []
  #isTurnComing = false
  #isReadingNothing = false
  #waiting = 0
  #isDraining = false

  constructor(http: Server) {
    this.#http = http
    // Undocumented, but present since Node 0.5: a client that closes its side after its request still gets the
    // response.
    ;(http as { httpAllowHalfOpen?: boolean }).httpAllowHalfOpen = true
    const closeIdleConnections = http.closeIdleConnections.bind(http)
    http.closeIdleConnections = () => closeIdle([...this.#all.values()], closeIdleConnections)
    http.on('connection', (socket) => this.#open(socket))
    http.on('clientError', (error, socket) => this.#break(error, socket as Socket))
  }

  /** Begins to dispatch requests: to `front`, and those that it leaves to the existing listeners. */
  serve(front: Front): void {
    this.#front = front
    this.#others = this.#http.listeners('request') as RequestListener[]
    this.#http.removeAllListeners('request')
    this.#http.on('request', (request, response) => this.#receive(request, response))
    this.#http.on('checkContinue', (request, response) => {
      continueWhenRead(request, response as BodyAwareResponse)
      this.#receive(request, response)
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

  /** Stops reading a connection, and calls back when its earlier requests are answered. */
  afterAnswers(socket: Socket, go: () => void): void {
    const connection = this.#all.get(socket)
    const latest = connection?.latest
    if (connection) {
      connection.isDetached = true
      connection.isPaused = false
    }
    if (!latest || latest.writableFinished) go()
    else if (latest.req.complete || latest.headersSent) latest.once('close', go)
    // The rest of this request will not arrive, and maybe no response is sent.
    else if (latest.socket) go()
    else latest.once('socket', go)
  }

  /** `afterAnswers` for a connection that Node's server has released, so that its responses are resumed here. */
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

  /** Whether the response to the connection's last request is not completely sent. */
  isAnswering(socket: Socket): boolean {
    const latest = this.#all.get(socket)?.latest
    return latest !== undefined && !latest.writableFinished
  }

  /** Connections with a response to send. */
  *answering(): Generator<Socket> {
    for (const socket of this.#all.keys()) if (this.isAnswering(socket)) yield socket
  }

  #open(socket: Socket): void {
    const known = this.#all.get(socket)
    if (known) {
      // Its upgrade offer was declined. Node's own listener, which resumes, must come first.
      known.isDetached = false
      socket.off('resume', known.stayPaused).on('resume', known.stayPaused)
      return
    }
    const connection: HttpConnection = {
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
      // Reading a request's body resumes its connection.
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

  #halfClosed({ socket, latest }: HttpConnection): void {
    if (!latest || latest.writableFinished) return
    const isPoll = latest.req.url?.startsWith(SOCKET_IO) === true
    const giveUp = setTimeout(() => !latest.headersSent && socket.destroy(), isPoll ? 0 : HALF_CLOSED_MS).unref()
    socket.once('close', () => clearTimeout(giveUp))
  }

  /** Stops reading the connection. Complete requests before the error are still answered. */
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
      // Requests after the last response are not executed, so that no write is left without a response.
      pause(connection)
      lingerAtEnd(request.socket)
      return
    }
    if (this.#isDraining) response.shouldKeepAlive = false
    const problem = malformation(request)
    if (problem !== undefined) response.shouldKeepAlive = false
    // Node assigns a response its socket when the previous ones are sent.
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

  /** Schedules the connection's next request as soon as it may start. */
  #advance(connection: HttpConnection): void {
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

  /** Connections take turns, so that one with many pipelined requests does not delay others. */
  #turn(): void {
    for (let begun = 0; begun < BEGUN_PER_TURN && this.#ready.length > 0; begun++) {
      const connection = this.#ready.shift() as HttpConnection
      connection.isReady = false
      if (mayBegin(connection)) this.#beginNext(connection)
      this.#advance(connection)
    }
    this.#isTurnComing = this.#ready.length > 0
    if (this.#isTurnComing) setImmediate(() => this.#turn())
  }

  #beginNext(connection: HttpConnection): void {
    const { request, response } = connection.waiting.shift() as PendingExchange
    this.#waiting--
    this.#count(connection, response, this.#run(request, response, malformation(request)))
  }

  /** Tracks an unanswered response until it is sent. */
  #count(connection: HttpConnection, response: ServerResponse, taken: Handling): void {
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

  #keepWaiting(connection: HttpConnection, isKept: (exchange: PendingExchange) => boolean): void {
    const kept = connection.waiting.filter(isKept)
    this.#waiting -= connection.waiting.length - kept.length
    connection.waiting = kept
  }

  #destroyLongest(): void {
    let longest: HttpConnection | undefined
    for (const one of this.#all.values()) if (one.waiting.length > (longest?.waiting.length ?? 0)) longest = one
    if (!longest) return
    this.#keepWaiting(longest, () => false)
    longest.socket.destroy()
  }

  /** Pauses all connections until destroyed ones have released their memory, which others would fill first. */
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

  #run(request: IncomingMessage, response: ServerResponse, problem: string | undefined): Handling {
    if (problem !== undefined) {
      refuseMalformed(response, problem)
      return 'answered'
    }
    const taken = this.#front(request, response)
    if (taken === 'left') for (const listener of this.#others) listener.call(this.#http, request, response)
    return taken
  }
}

/** Highest number of concurrent requests of one connection, which is not read while it has more. */
const UNANSWERED = 32

/**
 * Whether a request has its response, which is sent within this turn of the event loop, will get it later, or is left
 * to other listeners.
 */
type Handling = 'answered' | 'pending' | 'left'

/** Sees each request before the existing listeners. */
export type Front = (request: IncomingMessage, response: ServerResponse) => Handling

interface PendingExchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
}

/**
 * The pending requests of one connection. Pipelined requests are answered in order, and executed as RFC 9112 §9.3.2
 * allows: a read waits for earlier writes, and a write for earlier reads. Consecutive writes run concurrently, as they
 * share a flush; consecutive reads only if they complete synchronously.
 */
interface HttpConnection {
  readonly socket: Socket
  /** The response to the last received request. */
  latest: ServerResponse | undefined
  /** Whether the latest request is answered, if its handling has begun. */
  taken: Handling
  /** Whether `latest` is in `unanswered`. A request on an idle connection is not, unless another one follows. */
  isCounted: boolean
  readonly unanswered: Set<ServerResponse>
  writes: number
  /** An asynchronous read. */
  read: ServerResponse | undefined
  waiting: PendingExchange[]
  /** Whether the connection is queued for a turn. */
  isReady: boolean
  isPaused: boolean
  /** Whether Node's parser has stopped reading it, because of a parse error or an upgrade. */
  isDetached: boolean
  readonly stayPaused: () => void
}

function mayBegin({ waiting: [next], unanswered, read, writes }: HttpConnection): boolean {
  return (
    next !== undefined && unanswered.size < UNANSWERED && !read && !(isSafe(next.request.method ?? '') && writes > 0)
  )
}

/**
 * Node's function knows which connections are receiving a request. But it destroys also those whose responses are not
 * sent yet, whose `destroy` does nothing meanwhile, and leaves those that have sent nothing.
 */
function closeIdle(connections: readonly HttpConnection[], closeIdleConnections: () => void): void {
  const all = connections.filter(({ isDetached }) => !isDetached)
  const busy = all.filter(({ latest }) => latest && !isKeptAlive(latest))
  for (const { socket } of busy) socket.destroy = () => socket
  closeIdleConnections()
  for (const { socket } of busy) delete (socket as Partial<Socket>).destroy
  for (const { socket } of all) if (socket.bytesRead === 0) socket.destroy()
}

/** Ends upgraded connections, and those whose last request has not arrived completely, with 503. */
function endIfIncomplete(connection: HttpConnection): void {
  const { socket, latest, unanswered, waiting } = connection
  // Otherwise it is being closed already.
  if (!socket.writable) return
  if ([latest, ...unanswered, ...waiting.map(({ response }) => response)].some(isPending)) return
  if (connection.isDetached || (latest?.headersSent && !isKeptAlive(latest))) {
    socket.destroy()
    return
  }
  connection.isDetached = true
  const reason = 'The request had not arrived completely, and was not executed.'
  socket.write(unavailable('The server is stopping', reason))
  // Node would parse the rest, and the request would be executed.
  socket.removeAllListeners('data').on('data', () => {})
  closeLingering(socket)
}

/** Whether a response is completely sent, and another request may follow on its connection. */
function isKeptAlive(response: ServerResponse | undefined): boolean {
  return response?.writableFinished === true && response.shouldKeepAlive
}

/** Whether a response is still to be sent. A request whose body is read is not executed before that is complete. */
function isPending(response: ServerResponse | undefined): boolean {
  if (!response || response.writableFinished) return false
  return response.req.complete || response.req.readableFlowing === null
}

function pause(connection: HttpConnection): void {
  connection.isPaused = true
  connection.socket.pause()
}

/** How often to check connections. */
const LOOK_MS = 1000
/** How much longer than announced an idle connection stays open: a client may send at the last moment. */
const GRACE_MS = 4500

/**
 * Destroys a connection when its client has not read a pending response for so long, or when it is idle for longer than
 * `keepAliveTimeout`, which `Keep-Alive` announces. Node's socket timeout counts each byte that the kernel accepts, so
 * slow readers stay connected. So do event streams without events.
 */
export function limitIdleTime(http: Server, connections: Connections, stallSeconds: number): void {
  const stallMs = stallSeconds * 1000
  // A timeout for each response would cost a timer each.
  const looking = setInterval(() => {
    for (const socket of connections.answering()) {
      if (socket.writableLength > 0 && socket.timeout !== stallMs) socket.setTimeout(stallMs)
    }
  }, LOOK_MS).unref()
  http.once('close', () => clearInterval(looking))

  /** Connections in their grace time, with the number of bytes received before it. */
  const inGrace = new WeakMap<Socket, number>()
  http.on('timeout', (socket) => {
    if (connections.isAnswering(socket)) {
      if (socket.writableLength > 0) socket.destroy()
    } else if (inGrace.get(socket) === socket.bytesRead) socket.destroy()
    else {
      inGrace.set(socket, socket.bytesRead)
      socket.setTimeout(GRACE_MS)
    }
  })
}
