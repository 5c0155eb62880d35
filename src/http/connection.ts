import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { isSafe } from '../access/roles.ts'
import { unavailable } from './client-error.ts'

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

/** Ends a connection that has answered every request, or that has sent nothing. */
export function endIfIdle({ socket, latest, isDetached }: HttpConnection): void {
  // Without keep-alive, it is being closed already.
  const isAnswered = latest?.writableFinished && latest.shouldKeepAlive
  if (!isDetached && (isAnswered || socket.bytesRead === 0)) socket.destroy()
}

/** Ends a connection that has nothing to answer but a request that has not arrived completely. */
export function endIfIncomplete({ socket, latest, unanswered, waiting, isDetached }: HttpConnection): void {
  if ([latest, ...unanswered, ...waiting.map(({ response }) => response)].some(isPending)) return
  const reason = 'The request had not arrived completely, and was not executed.'
  if (!isDetached && !latest?.headersSent) socket.write(unavailable('The server is stopping', reason))
  socket.destroy()
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
