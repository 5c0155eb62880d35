import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { type ServerOptions, type WebSocket, WebSocketServer } from 'ws'

/** A WebSocket server that does not queue pongs. Engine.IO uses it as its `wsEngine`. */
export class BoundedWebSocketServer extends WebSocketServer {
  constructor(options: ServerOptions) {
    super({ ...options, autoPong: false })
  }

  override handleUpgrade(
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    accept: (client: WebSocket, request: IncomingMessage) => void,
  ): void {
    super.handleUpgrade(request, socket, head, (client) => {
      answerPings(client)
      accept(client, request)
    })
  }
}

/**
 * Answers pings, one pong at a time. While a pong waits for a slow client, only the payload of the latest ping is
 * stored (RFC 6455 §5.5.3); ws would queue a pong for every ping.
 */
function answerPings(client: WebSocket): void {
  let isSending = false
  let latest: Buffer | undefined
  const send = (): void => {
    const payload = latest
    if (!payload || client.readyState !== client.OPEN) return
    latest = undefined
    isSending = true
    client.pong(payload, false, () => {
      isSending = false
      send()
    })
  }
  client.on('ping', (payload: Buffer) => {
    // Copied, since the payload is a slice of a larger receive buffer.
    latest = Buffer.from(payload)
    if (!isSending) send()
  })
}
