import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { isSafe } from '../access/roles.ts'
import { unavailable } from './client-error.ts'
import { closeLingering } from './lingering-close.ts'

/** Highest number of concurrent requests of one connection, which is not read while it has more. */
const UNANSWERED = 32

/**
 * Whether a request has its response, which is sent within this turn of the event loop, will get it later, or is left
 * to other listeners.
 */
export type Handling = 'answered' | 'pending' | 'left'

/** Sees each request before the existing listeners. */
export type Front = (request: IncomingMessage, response: ServerResponse) => Handling

export interface PendingExchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
}

/**
 * The pending requests of one connection. Pipelined requests are answered in order, and executed as RFC 9112 §9.3.2
 * allows: a read waits for earlier writes, and a write for earlier reads. Consecutive writes run concurrently, as they
 * share a flush; consecutive reads only if they complete synchronously.
 */
export interface HttpConnection {
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

export function mayBegin({ waiting: [next], unanswered, read, writes }: HttpConnection): boolean {
  return (
    next !== undefined && unanswered.size < UNANSWERED && !read && !(isSafe(next.request.method ?? '') && writes > 0)
  )
}

/**
 * Node's function knows which connections are receiving a request. But it destroys also those whose responses are not
 * sent yet, whose `destroy` does nothing meanwhile, and leaves those that have sent nothing.
 */
export function closeIdle(connections: readonly HttpConnection[], closeIdleConnections: () => void): void {
  const all = connections.filter(({ isDetached }) => !isDetached)
  const busy = all.filter(({ latest }) => latest && !isKeptAlive(latest))
  for (const { socket } of busy) socket.destroy = () => socket
  closeIdleConnections()
  for (const { socket } of busy) delete (socket as Partial<Socket>).destroy
  for (const { socket } of all) if (socket.bytesRead === 0) socket.destroy()
}

/** Ends upgraded connections, and those whose last request has not arrived completely, with 503. */
export function endIfIncomplete(connection: HttpConnection): void {
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

export function pause(connection: HttpConnection): void {
  connection.isPaused = true
  connection.socket.pause()
}
