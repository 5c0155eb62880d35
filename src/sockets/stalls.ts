import type { WebSocket } from 'ws'
import { WAITING_BYTES } from './connection.ts'

/**
 * Finds clients that do not read a long response. Such a response has left the queue for the socket, so the queue's
 * limit does not apply, and a client that answers pings could keep it in memory for ever.
 */
export class Stalls {
  readonly #ms: number
  readonly #now: () => number
  readonly #seen = new WeakMap<WebSocket, { readonly bytes: number; readonly since: number }>()

  /** How long a client may read nothing. */
  constructor(ms: number, now: () => number = () => performance.now()) {
    this.#ms = ms
    this.#now = now
  }

  /** Must be called repeatedly. */
  isStalled(client: WebSocket): boolean {
    const bytes = bytesQueued(client)
    const seen = this.#seen.get(client)
    const now = this.#now()
    if (seen?.bytes !== bytes) this.#seen.set(client, { bytes, since: now })
    return bytes > WAITING_BYTES && seen?.bytes === bytes && now - seen.since >= this.#ms
  }
}

/** Bytes written to the socket that the kernel has not accepted. Node's socket timeout uses the same number. */
function bytesQueued(client: WebSocket): number {
  const { _socket: socket } = client as unknown as { _socket?: { _handle?: { writeQueueSize?: number } } }
  return socket?._handle?.writeQueueSize ?? 0
}
