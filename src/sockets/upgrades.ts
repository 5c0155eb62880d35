import type { Server as HttpServer, IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'

/** Takes over an upgrade to the WebSocket protocol. */
export type Accept = (request: IncomingMessage, socket: Duplex, head: Buffer) => void

/** Knows the pending requests of a connection. */
export interface Unanswered {
  beforeUpgrade(socket: Socket, go: () => void): void
}

const SOCKET_IO = '/socket.io/'
/** How long clients have to close when the server ends. */
const LEAVE_MS = 1000

/**
 * Dispatches upgrade requests by path and refuses WebSockets at unknown paths. Offers of other protocols are ignored,
 * as RFC 9110 §7.8 allows: curl and Java's client offer h2c with every plain request.
 */
export class Upgrades {
  readonly #http: HttpServer
  readonly #open = new Set<Duplex>()

  /** `handlers` maps paths to functions; Socket.IO has already registered its own. */
  constructor(http: HttpServer, unanswered: Unanswered, handlers: Readonly<Record<string, Accept>>) {
    this.#http = http
    const socketIo = http.listeners('upgrade') as Accept[]
    http.removeAllListeners('upgrade')
    const upgrade: Accept = (request, socket, head) => {
      const path = (request.url ?? '').split('?')[0] ?? ''
      const isSocketIo = path.startsWith(SOCKET_IO)
      if (!isSocketIo && request.headers.upgrade?.toLowerCase() !== 'websocket') {
        this.#answerWithout(request, socket, head)
        return
      }
      this.#open.add(socket)
      socket.once('close', () => this.#open.delete(socket))
      if (isSocketIo) {
        for (const listener of socketIo) listener.call(http, request, socket, head)
        return
      }
      const accept = Object.hasOwn(handlers, path) ? handlers[path] : undefined
      if (accept) accept(request, socket, head)
      else refuse(socket, '404 Not Found')
    }
    http.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
      // There is no other error listener, and a connection reset must not end the process.
      socket.on('error', () => socket.destroy())
      unanswered.beforeUpgrade(socket, () => upgrade(request, socket, head))
    })
  }

  /** Waits for the connections to end, and destroys those that take too long. */
  async close(): Promise<void> {
    const impatient = setTimeout(() => {
      for (const socket of this.#open) socket.destroy()
    }, LEAVE_MS)
    await Promise.all([...this.#open].map((socket) => new Promise((resolve) => socket.once('close', resolve))))
    clearTimeout(impatient)
  }

  /**
   * Node passes on a request with an Upgrade header without parsing its body. Puts the request back without that header
   * and those that belong to it.
   */
  #answerWithout({ method, url, httpVersion, rawHeaders }: IncomingMessage, socket: Duplex, head: Buffer): void {
    const lines = [`${method} ${url} HTTP/${httpVersion}`]
    for (let index = 0; index < rawHeaders.length; index += 2) {
      const [name = '', value = ''] = rawHeaders.slice(index, index + 2)
      if (/^connection$/i.test(name)) lines.push(`${name}: ${withoutOffer(value)}`)
      else if (!/^(?:upgrade|http2-settings)$/i.test(name)) lines.push(`${name}: ${value}`)
    }
    socket.unshift(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), head]))
    this.#http.emit('connection', socket)
  }
}

/** Removes the options of the offer from a Connection header, and keeps others such as `close`. */
function withoutOffer(options: string): string {
  return options
    .split(',')
    .map((option) => option.trim())
    .filter((option) => !/^(?:upgrade|http2-settings)$/i.test(option))
    .join(', ')
}

/** Responds to an upgrade with an error status. */
export function refuse(socket: Duplex, status: string): void {
  socket.once('finish', () => socket.destroy())
  socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`)
}
