import type { IncomingMessage } from 'node:http'
import type { WebSocket } from 'ws'

/** A client that does not read what it is sent is disconnected when this much waits for it. */
export const WAITING_BYTES = 1024 * 1024
/** The memory that a waiting packet takes beside its text, about. */
const PACKET_BYTES = 256

/** A transport of Engine.IO; the WebSocket transport has a socket. */
interface Transport {
  readonly socket?: WebSocket
}

/** The part of Engine.IO's sockets that its types leave out, and that is needed to bound what waits for a client. */
export interface Connection {
  readonly request: IncomingMessage
  readonly writeBuffer: readonly { readonly data?: unknown }[]
  readonly transport: Transport
  close(discard: boolean): void
  on(name: 'drain' | 'packet', listener: () => void): void
  on(name: 'upgrading', listener: (transport: Transport) => void): void
  once(name: 'close', listener: () => void): void
}

/** Bytes that wait until the client reads, each packet counted with PACKET_BYTES. */
export function bytesWaiting({ writeBuffer }: Connection): number {
  return writeBuffer.reduce((sum, { data }) => sum + PACKET_BYTES + (typeof data === 'string' ? data.length : 0), 0)
}

/** Ends a connection at once, with all that waits for its client. */
export function terminate(connection: Connection): void {
  connection.close(true)
  connection.transport.socket?.terminate()
}

/** Calls back when more packets wait than may, or when a client probes a transport twice, before it is answered again. */
export function boundAnswers(connection: Connection, exceeded: () => void): void {
  // The number of packets is known without adding up; their bytes are looked at by the timer.
  connection.on('packet', () => {
    if (connection.writeBuffer.length > WAITING_BYTES / PACKET_BYTES) exceeded()
  })
  // A transport that is being upgraded to answers every probe past the connection's buffer. A client sends one.
  const probed = new WeakSet<Transport>()
  connection.on('upgrading', (transport) => {
    if (probed.has(transport)) transport.socket?.terminate()
    probed.add(transport)
  })
}
