import type { WebSocket } from 'ws'
import { WAITING_BYTES } from './connection.ts'

/**
 * Finds clients that read nothing of a long answer. It is being sent already, so that it is not among what waits for the
 * client; and a client that answers pings, or pretends to, would keep it in memory for ever.
 */
export class Stalls {
  readonly #ms: number
  readonly #seen = new WeakMap<WebSocket, { readonly bytes: number; readonly since: number }>()

  /** A client may read nothing for so long. */
  constructor(ms: number) {
    this.#ms = ms
  }

  /** To be asked again and again. */
  isStalled(client: WebSocket): boolean {
    const bytes = bytesQueued(client)
    const seen = this.#seen.get(client)
    const now = performance.now()
    if (seen?.bytes !== bytes) this.#seen.set(client, { bytes, since: now })
    return bytes > WAITING_BYTES && seen?.bytes === bytes && now - seen.since >= this.#ms
  }
}

/** Bytes written to the socket that the kernel has not accepted; Node's socket timeout uses the same number. */
function bytesQueued(client: WebSocket): number {
  const { _socket: socket } = client as unknown as { _socket?: { _handle?: { writeQueueSize?: number } } }
  return socket?._handle?.writeQueueSize ?? 0
}
