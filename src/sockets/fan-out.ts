import type { WebSocket } from 'ws'
import * as ws from 'ws'
import type { Updated } from '../projections/notifications.ts'

/** What is used of a Socket.IO client's connection. */
export interface Tellable {
  write(data: string, options: { readonly wsPreEncodedFrame: readonly Buffer[] }): unknown
}

/** RFC 6455 §5.2. */
const TEXT = { fin: true, opcode: 1, mask: false, readOnly: false, rsv1: false }
/** Between the packets of one payload of Engine.IO's polling; "4" is a message. */
const NEXT_PACKET = '\x1e4'

/**
 * Tells every client of every event. What comes in one turn of the event loop is encoded and framed once for all
 * and goes to each in one write: with many clients the writes are what costs.
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

/** As Socket.IO encodes an event; over WebSocket the frames are sent, over polling the data. */
function packetsOf(texts: readonly string[]) {
  const messages = texts.map((text) => `2["updated",${text}]`)
  return { data: messages.join(NEXT_PACKET), frames: [framesOf(messages.map((message) => `4${message}`))] }
}

function framesOf(texts: readonly string[]): Buffer {
  return Buffer.concat(texts.flatMap((text) => Sender.frame(Buffer.from(text), TEXT)))
}

/** Not in ws's types, and used by Socket.IO's adapter, too. */
const { Sender } = ws as unknown as { Sender: { frame(data: Buffer, options: typeof TEXT): Buffer[] } }

function senderOf(client: WebSocket): { sendFrame(list: readonly Buffer[]): void } {
  return (client as unknown as { _sender: { sendFrame(list: readonly Buffer[]): void } })._sender
}
