import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import type { Connections } from './connections.ts'

/** How often to check connections. */
const LOOK_MS = 1000
/** How much longer than announced an idle connection stays open: a client may send at the last moment. */
const GRACE_MS = 4500

/**
 * Destroys a connection when its client has not read a pending response for so long, or when it is idle for longer than
 * `keepAliveTimeout`, which `Keep-Alive` announces. Node's socket timeout counts each byte that the kernel accepts, so
 * slow readers stay connected. So do event streams without events.
 */
export function limitIdleTime(http: Server, connections: Connections, stallSeconds: number): void {
  const stallMs = stallSeconds * 1000
  // A timeout for each response would cost a timer each.
  const looking = setInterval(() => {
    for (const socket of connections.answering()) {
      if (socket.writableLength > 0 && socket.timeout !== stallMs) socket.setTimeout(stallMs)
    }
  }, LOOK_MS).unref()
  http.once('close', () => clearInterval(looking))

  /** Connections in their grace time, with the number of bytes received before it. */
  const inGrace = new WeakMap<Socket, number>()
  http.on('timeout', (socket) => {
    if (connections.isAnswering(socket)) {
      if (socket.writableLength > 0) socket.destroy()
    } else if (inGrace.get(socket) === socket.bytesRead) socket.destroy()
    else {
      inGrace.set(socket, socket.bytesRead)
      socket.setTimeout(GRACE_MS)
    }
  })
}
