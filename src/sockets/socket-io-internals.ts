import type { IncomingMessage } from 'node:http'
import type { Server, Socket } from 'socket.io'
import type { WebSocket } from 'ws'

/**
 * Private parts of Socket.IO 4.8.4: the sockets and transports of Engine.IO 6.6.11, and the encoder of socket.io-parser
 * 4.2.7. test/sockets/internals.test.ts fails if an upgrade changes them.
 */
export interface EngineConnection {
  readonly request: IncomingMessage
  /** Private. */
  readonly writeBuffer: readonly { readonly data?: unknown }[]
  readonly transport: EngineTransport
  /** Private. Called, and emptied, when the packets in `writeBuffer` were sent. */
  readonly packetsFn: (() => void)[]
  /** `options` may have a frame that is sent in place of the data over WebSocket, as Socket.IO's adapter does. */
  write(data: string, options: { readonly wsPreEncodedFrame: readonly Buffer[] }): unknown
  close(discard: boolean): void
  on(name: 'drain' | 'packet', listener: () => void): void
  on(name: 'upgrading', listener: (transport: EngineTransport) => void): void
  once(name: 'close', listener: () => void): void
}

/** Only the WebSocket transport has a socket, which its type leaves out. */
export interface EngineTransport {
  readonly socket?: WebSocket
}

export function engineConnectionOf({ conn }: Pick<Socket, 'conn'>): EngineConnection {
  return conn as unknown as EngineConnection
}

/** Approximate memory of a queued packet besides its text. */
export const PACKET_BYTES = 256

/**
 * Size of the queue for the client, with PACKET_BYTES for each packet. Engine.IO limits it nowhere: a client that stops
 * reading would fill the memory. `bufferedAmount` of its WebSocket is without the packets that wait for the transport.
 */
export function queuedBytes({ writeBuffer }: EngineConnection): number {
  return writeBuffer.reduce((sum, { data }) => sum + PACKET_BYTES + (typeof data === 'string' ? data.length : 0), 0)
}

export function queuedPackets({ writeBuffer }: EngineConnection): number {
  return writeBuffer.length
}

/** Calls back when the kernel has the next packet. The end of the connection may come before. */
export function whenSent({ packetsFn }: EngineConnection, work: () => void): void {
  packetsFn.push(work)
}

/** Closes a connection at once and discards its queue. `close(true)` still waits for the client to close its WebSocket. */
export function terminate(connection: EngineConnection): void {
  connection.close(true)
  connection.transport.socket?.terminate()
}

class JsonText {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

/** JSON text that is inserted unchanged into a message to a Socket.IO client, in place of a value. */
export function jsonText<Value>(text: string): Value {
  return new JsonText(text) as unknown as Value
}

/** A packet of the default namespace, as socket.io-parser defines it. */
interface Packet {
  readonly type: number
  readonly nsp: string
  readonly id?: number
  readonly data?: unknown
}

/**
 * Enables the server to send `jsonText`. Socket.IO would search each value for binary data and stringify it for each
 * client anew: 30 to 40 ms for an item of 0.9 MB, instead of 3 ms.
 */
export function insertJsonText(io: Pick<Server, 'encoder'>): void {
  const encoder = io.encoder as { encode(packet: Packet): unknown[] }
  const encode = encoder.encode.bind(encoder)
  encoder.encode = (packet) => {
    const { type, id = '', data } = packet
    if (!Array.isArray(data) || !data.some((part) => part instanceof JsonText)) return encode(packet)
    const parts = data.map((part) => (part instanceof JsonText ? part.text : JSON.stringify(part)))
    return [`${type}${id}[${parts.join(',')}]`]
  }
}
