import type { Server as HttpServer, IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { Server } from 'socket.io'
import { type WebSocket, WebSocketServer } from 'ws'
import type { Recorded } from '../events/journal.ts'
import { notificationsOf } from '../projections/notifications.ts'
import type { ServerMessages } from './protocol.ts'

/** A client that does not read what it is sent is let go at this many bytes, or messages, waiting. */
const WAITING_BYTES = 1024 * 1024
const WAITING_MESSAGES = 10_000
/** Clients have nothing to send yet. */
const RECEIVED_BYTES = 16 * 1024

/** Tells every connected client of every event: Socket.IO, and plain WebSocket at `/ws`. */
export class Sockets {
  readonly #io: Server<Record<string, never>, ServerMessages>
  readonly #plain = new WebSocketServer({ noServer: true, maxPayload: RECEIVED_BYTES, clientTracking: true })

  constructor(http: HttpServer) {
    this.#io = new Server(http, { serveClient: true, maxHttpBufferSize: RECEIVED_BYTES, destroyUpgrade: false })
    http.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      const path = (request.url ?? '').split('?')[0]
      if (path === '/ws') this.#plain.handleUpgrade(request, socket, head, keepQuiet)
      else if (!path?.startsWith('/socket.io/')) socket.end('HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n')
    })
  }

  notify(recorded: Recorded): void {
    for (const updated of notificationsOf(recorded)) {
      this.#io.emit('updated', updated)
      const text = JSON.stringify(updated)
      for (const client of this.#plain.clients) if (client.readyState === client.OPEN) client.send(text)
    }
    this.#dropWhoDoesNotRead()
  }

  #dropWhoDoesNotRead(): void {
    for (const client of this.#plain.clients) if (client.bufferedAmount > WAITING_BYTES) client.terminate()
    for (const socket of this.#io.sockets.sockets.values()) {
      const { conn } = socket as unknown as { conn: { writeBuffer: readonly unknown[] } }
      if (conn.writeBuffer.length > WAITING_MESSAGES) socket.disconnect(true)
    }
  }

  async close(): Promise<void> {
    for (const client of this.#plain.clients) client.close(1001, 'The server is ending.')
    this.#plain.close()
    await this.#io.close()
  }
}

function keepQuiet(client: WebSocket): void {
  client.on('error', () => client.terminate())
}
