import type { WebSocket } from 'ws'
import * as ws from 'ws'
import type { Updated } from '../projections/notifications.ts'

/** The part of a Socket.IO connection that FanOut needs. */
export interface Tellable {
  write(data: string, options: { readonly wsPreEncodedFrame: readonly Buffer[] }): unknown
}

/** RFC 6455 §5.2. */
const TEXT = { fin: true, opcode: 1, mask: false, readOnly: false, rsv1: false }
/** Separates the packets of a polling payload of Engine.IO; "4" means message. */
const NEXT_PACKET = '\x1e4'

/**
 * Broadcasts events to all clients. The events of one turn of the event loop are encoded and framed once, and sent to
 * each client in one write: with many clients the writes dominate the cost.
 */
export class FanOut {
  readonly #socketIo: () => Iterable<Tellable>
  readonly #plain: () => Iterable<WebSocket>
  #texts: string[] = []

  constructor(socketIo: () => Iterable<Tellable>, plain: () => Iterable<WebSocket>) {
    this.#socketIo = socketIo
    this.#plain = plain
  }

  tell(updated: Updated): void {
    if (this.#texts.push(JSON.stringify(updated)) === 1) setImmediate(() => this.#send())
  }

  #send(): void {
    const texts = this.#texts
    this.#texts = []
    let frames: Buffer | undefined
    for (const client of this.#plain()) {
      if (client.readyState !== client.OPEN) continue
      frames ??= framesOf(texts)
      senderOf(client).sendFrame([frames])
    }
    let packets: { readonly data: string; readonly frames: readonly Buffer[] } | undefined
    for (const connection of this.#socketIo()) {
      packets ??= packetsOf(texts)
      connection.write(packets.data, { wsPreEncodedFrame: packets.frames })
    }
  }
}

/** Encoded as Socket.IO does: `frames` for WebSocket, `data` for polling. */
function packetsOf(texts: readonly string[]) {
  const messages = texts.map((text) => `2["updated",${text}]`)
  return { data: messages.join(NEXT_PACKET), frames: [framesOf(messages.map((message) => `4${message}`))] }
}

function framesOf(texts: readonly string[]): Buffer {
  return Buffer.concat(texts.flatMap((text) => Sender.frame(Buffer.from(text), TEXT)))
}

/** Missing in the types of ws; the adapter of Socket.IO uses it as well. */
const { Sender } = ws as unknown as { Sender: { frame(data: Buffer, options: typeof TEXT): Buffer[] } }

function senderOf(client: WebSocket): { sendFrame(list: readonly Buffer[]): void } {
  return (client as unknown as { _sender: { sendFrame(list: readonly Buffer[]): void } })._sender
}
