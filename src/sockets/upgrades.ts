import type { Server as HttpServer, IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'

/** Takes over an upgrade to the WebSocket protocol. */
export type Accept = (request: IncomingMessage, socket: Duplex, head: Buffer) => void

/** Knows the pending requests of a connection. */
export interface Unanswered {
  beforeUpgrade(socket: Socket, go: () => void): void
}

/**
 * Dispatches upgrade requests by path and refuses WebSockets at unknown paths, in place of the listener that Socket.IO
 * has registered. Offers of other protocols are ignored, as RFC 9110 §7.8 allows: curl and Java's client offer h2c with
 * every plain request.
 */
export function dispatchUpgrades(
  http: HttpServer,
  unanswered: Unanswered,
  acceptorOf: (path: string) => Accept | undefined,
): void {
  const upgrade: Accept = (request, socket, head) => {
    if (!offersWebSocket(request)) {
      socket.off('error', destroy)
      socket.unshift(withoutOffer(request, head))
      http.emit('connection', socket)
      return
    }
    const accept = acceptorOf((request.url ?? '').split('?')[0] ?? '')
    if (accept) accept(request, socket, head)
    else refuse(socket, '404 Not Found')
  }
  http.removeAllListeners('upgrade')
  http.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
    // There is no other error listener, and a connection reset must not end the process.
    socket.on('error', destroy)
    unanswered.beforeUpgrade(socket, () => upgrade(request, socket, head))
  })
}

function destroy(this: Duplex): void {
  this.destroy()
}

export function offersWebSocket({ headers }: IncomingMessage): boolean {
  return headers.upgrade?.toLowerCase() === 'websocket'
}

/**
 * The request without its Upgrade header and those that belong to it, and what follows: Node passes on a request with an
 * Upgrade header without parsing its body.
 */
function withoutOffer({ method, url, httpVersion, rawHeaders }: IncomingMessage, head: Buffer): Buffer {
  const lines = [`${method} ${url} HTTP/${httpVersion}`]
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const [name = '', value = ''] = rawHeaders.slice(index, index + 2)
    if (/^connection$/i.test(name)) lines.push(`${name}: ${withoutUpgradeOptions(value)}`)
    else if (!/^(?:upgrade|http2-settings)$/i.test(name)) lines.push(`${name}: ${value}`)
  }
  return Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), head])
}

/** Removes the options of the offer from a Connection header, and keeps others such as `close`. */
function withoutUpgradeOptions(options: string): string {
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
