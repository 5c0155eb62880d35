import type { Server as HttpServer } from 'node:http'
import { Server } from 'socket.io'
import { type WebSocket, WebSocketServer } from 'ws'
import type { Recorded } from '../events/journal.ts'
import { notificationsOf } from '../projections/notifications.ts'
import type { ServerMessages } from './protocol.ts'
import { Upgrades } from './upgrades.ts'

/** A client that does not read what it is sent is let go when this much waits for it. */
const WAITING_BYTES = 1024 * 1024
/** Clients have nothing to send yet. */
const RECEIVED_BYTES = 16 * 1024

/** Tells every connected client of every event: Socket.IO, and plain WebSocket at `/ws`. */
export class Sockets {
  readonly #io: Server<Record<string, never>, ServerMessages>
  readonly #plain = new WebSocketServer({ noServer: true, maxPayload: RECEIVED_BYTES, clientTracking: true })
  readonly #upgrades: Upgrades
  #hasLooked = false

  constructor(http: HttpServer) {
    this.#io = new Server(http, { serveClient: true, maxHttpBufferSize: RECEIVED_BYTES, destroyUpgrade: false })
    this.#upgrades = new Upgrades(http, {
      '/ws': (request, socket, head) => this.#plain.handleUpgrade(request, socket, head, keepQuiet),
    })
  }

  notify(recorded: Recorded): void {
    this.#dropWhoDoesNotRead()
    for (const updated of notificationsOf(recorded)) {
      this.#io.emit('updated', updated)
      const text = JSON.stringify(updated)
      for (const client of this.#plain.clients) if (client.readyState === client.OPEN) client.send(text)
    }
  }

  /** Once a turn of the event loop, before more is sent: all that waits then has had its chance to go out. */
  #dropWhoDoesNotRead(): void {
    if (this.#hasLooked) return
    this.#hasLooked = true
    setImmediate(() => {
      this.#hasLooked = false
    })
    for (const client of this.#plain.clients) if (client.bufferedAmount > WAITING_BYTES) client.terminate()
    for (const socket of this.#io.sockets.sockets.values()) {
      const conn = socket.conn as unknown as Connection
      if (bytesWaiting(conn) <= WAITING_BYTES) continue
      conn.close(true)
      conn.transport.socket?.terminate()
    }
  }

  async close(): Promise<void> {
    for (const client of this.#plain.clients) client.close(1001, 'The server is ending.')
    this.#plain.close()
    const left = this.#upgrades.close()
    await this.#io.close()
    await left
  }
}

/** What Socket.IO does not tell of its connections, and what is needed to bound them. */
interface Connection {
  readonly writeBuffer: readonly { readonly data?: unknown }[]
  /** The socket is there with the WebSocket transport. */
  readonly transport: { readonly socket?: WebSocket }
  close(discard: boolean): void
}

function bytesWaiting({ writeBuffer }: Connection): number {
  return writeBuffer.reduce((sum, { data }) => sum + (typeof data === 'string' ? data.length : 0), 0)
}

function keepQuiet(client: WebSocket): void {
  client.on('error', () => client.terminate())
}
