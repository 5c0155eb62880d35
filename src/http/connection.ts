import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { isSafe } from '../access/roles.ts'

/** Requests of one connection that are answered at once. Those after them wait, and the connection is not read meanwhile. */
const UNANSWERED = 32

/** Whether a request has its response, which is sent within this turn of the event loop, will have it, or is left to others. */
export type Taken = 'answered' | 'pending' | 'left'

/** Looks at each request before all that listen for requests so far, and says what came of it. */
export type Front = (request: IncomingMessage, response: ServerResponse) => Taken

export interface Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
}

/**
 * What is pending on one connection. Requests that were sent behind others (pipelined) are answered in their order, and
 * in a way that RFC 9112 §9.3.2 allows: a read does not begin before the writes in front of it are answered, nor a
 * write before the reads. Writes go on together, as they share a flush; reads only as far as they are answered at once.
 */
export interface Connection {
  readonly socket: Socket
  /** To the last request that was received. */
  latest: ServerResponse | undefined
  /** Whether the latest request has been answered, if its handling has begun. */
  taken: Taken
  /** Whether `latest` is among `unanswered`. A request that found the connection idle is not, unless another follows it. */
  isCounted: boolean
  readonly unanswered: Set<ServerResponse>
  writes: number
  /** A read that takes its time. */
  read: ServerResponse | undefined
  waiting: Exchange[]
  /** Whether it waits for its turn. */
  isReady: boolean
  isPaused: boolean
  /** Whether Node's parser no longer reads it, because of a parse error or an upgrade. */
  isDetached: boolean
  readonly stayPaused: () => void
}

export function mayBegin({ waiting: [next], unanswered, read, writes }: Connection): boolean {
  return (
    next !== undefined && unanswered.size < UNANSWERED && !read && !(isSafe(next.request.method ?? '') && writes > 0)
  )
}

export function pause(connection: Connection): void {
  connection.isPaused = true
  connection.socket.pause()
}
