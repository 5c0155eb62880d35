import type { Server as HttpServer, IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'

/** Gets an upgrade to the WebSocket protocol. */
export type Accept = (request: IncomingMessage, socket: Duplex, head: Buffer) => void

/** Knows which requests of a connection are not answered yet. */
export interface Unanswered {
  beforeUpgrade(socket: Socket, go: () => void): void
}

const SOCKET_IO = '/socket.io/'
/** How long clients have to take their leave when the server ends. */
const LEAVE_MS = 1000

/**
 * Sends each upgrade where it belongs. A WebSocket at an unknown path is refused; an offer of any other protocol
 * (curl and Java's client offer h2c with every plain request) is declined by answering the request as if it had
 * not been made, as RFC 9110 §7.8 has it.
 */
export class Upgrades {
  readonly #http: HttpServer
  readonly #open = new Set<Duplex>()

  /** `doors` has who takes the upgrades of a path; Socket.IO has listened for its own. */
  constructor(http: HttpServer, unanswered: Unanswered, doors: Readonly<Record<string, Accept>>) {
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
      const accept = Object.hasOwn(doors, path) ? doors[path] : undefined
      if (accept) accept(request, socket, head)
      else refuse(socket, '404 Not Found')
    }
    http.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
      // Nobody else listens any more, and a client that resets its connection must not end the process.
      socket.on('error', () => socket.destroy())
      unanswered.beforeUpgrade(socket, () => upgrade(request, socket, head))
    })
  }

  /** Waits for the connections to end, and ends those that take too long. */
  async close(): Promise<void> {
    const impatient = setTimeout(() => {
      for (const socket of this.#open) socket.destroy()
    }, LEAVE_MS)
    await Promise.all([...this.#open].map((socket) => new Promise((resolve) => socket.once('close', resolve))))
    clearTimeout(impatient)
  }

  /** Node hands over a request with an Upgrade field unread: it goes back in without that field and what belongs to it. */
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

/** The Connection field's options but for those of the offer; `close` is meant all the same. */
function withoutOffer(options: string): string {
  return options
    .split(',')
    .map((option) => option.trim())
    .filter((option) => !/^(?:upgrade|http2-settings)$/i.test(option))
    .join(', ')
}

/** Answers an upgrade with a status instead. */
export function refuse(socket: Duplex, status: string): void {
  socket.once('finish', () => socket.destroy())
  socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`)
}
