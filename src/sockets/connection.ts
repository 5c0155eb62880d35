import type { IncomingMessage } from 'node:http'
import type { WebSocket } from 'ws'

/** A slow client is disconnected when its queue exceeds this size. */
export const WAITING_BYTES = 1024 * 1024
/** Approximate memory of a queued packet besides its text. */
const PACKET_BYTES = 256

/** A transport of Engine.IO; only the WebSocket transport has a socket. */
interface Transport {
  readonly socket?: WebSocket
}

/** The members of Engine.IO's sockets that are needed to bound a client's queue. Its types leave them out. */
export interface EngineConnection {
  readonly request: IncomingMessage
  readonly writeBuffer: readonly { readonly data?: unknown }[]
  readonly transport: Transport
  close(discard: boolean): void
  on(name: 'drain' | 'packet', listener: () => void): void
  on(name: 'upgrading', listener: (transport: Transport) => void): void
  once(name: 'close', listener: () => void): void
}

/** Size of the queue for the client, with PACKET_BYTES for each packet. */
export function bytesWaiting({ writeBuffer }: EngineConnection): number {
  return writeBuffer.reduce((sum, { data }) => sum + PACKET_BYTES + (typeof data === 'string' ? data.length : 0), 0)
}

/** Closes a connection at once and discards its queue. */
export function terminate(connection: EngineConnection): void {
  connection.close(true)
  connection.transport.socket?.terminate()
}

/** Calls back when the queue has too many packets. Ends a transport that is probed twice. */
export function boundAnswers(connection: EngineConnection, exceeded: () => void): void {
  // Counting packets is cheap; a timer adds up their bytes.
  connection.on('packet', () => {
    if (connection.writeBuffer.length > WAITING_BYTES / PACKET_BYTES) exceeded()
  })
  // During an upgrade, answers to probes bypass the connection's queue. A correct client sends one probe.
  const probed = new WeakSet<Transport>()
  connection.on('upgrading', (transport) => {
    if (probed.has(transport)) transport.socket?.terminate()
    probed.add(transport)
  })
}

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
