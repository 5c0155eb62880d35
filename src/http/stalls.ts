import type { Server } from 'node:http'
import type { Connections } from './connections.ts'

/** How often to check connections. */
const LOOK_MS = 1000

/**
 * Destroys a connection when its client has not read a pending response for so long. Node's socket timeout counts each
 * byte that the kernel accepts, so slow readers stay connected. So do idle connections, such as event streams without
 * events.
 */
export function destroyStalled(http: Server, connections: Connections, seconds: number): void {
  const stallMs = seconds * 1000
  // A timeout for each response would cost a timer each.
  const looking = setInterval(() => {
    for (const socket of connections.answering()) {
      if (socket.writableLength > 0 && socket.timeout !== stallMs) socket.setTimeout(stallMs)
    }
  }, LOOK_MS).unref()
  http.once('close', () => clearInterval(looking))
  http.on('timeout', (socket) => {
    // Node reports a timeout also for connections that are idle between requests.
    if (socket.writableLength > 0 || !connections.isAnswering(socket)) socket.destroy()
  })
}
