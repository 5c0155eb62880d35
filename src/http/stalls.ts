import type { Server } from 'node:http'
import type { Connections } from './connections.ts'

/** How often connections are looked at. */
const LOOK_MS = 1000

/**
 * Destroys a connection when its client has read nothing for so long of a response that waits to be sent. Node's socket
 * timeout counts each byte that the kernel takes as progress, so a slow reader stays. A connection that has nothing to send,
 * such as a stream of events without events, stays as well.
 */
export function destroyStalled(http: Server, connections: Connections, seconds: number): void {
  const stallMs = seconds * 1000
  // A timeout for every response would cost each one a timer.
  const looking = setInterval(() => {
    for (const socket of connections.answering()) {
      if (socket.writableLength > 0 && socket.timeout !== stallMs) socket.setTimeout(stallMs)
    }
  }, LOOK_MS).unref()
  http.once('close', () => clearInterval(looking))
  http.on('timeout', (socket) => {
    // Node says so of connections that are idle between two requests, too.
    if (socket.writableLength > 0 || !connections.isAnswering(socket)) socket.destroy()
  })
}
