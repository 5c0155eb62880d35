import { createServer } from 'node:net'
import { once } from './deadline.ts'

/**
 * Kernels give ports above these to outgoing connections: 32768 and up on Linux. A port within the range stays free
 * while the server that has it is stopped.
 */
const [FIRST, LAST] = [10_000, 31_999]
/** Processes that run at the same time begin at different ports. */
const PER_PROCESS = 16

let next = FIRST + ((process.pid * PER_PROCESS) % (LAST - FIRST + 1))

/** A port that a server can have, stop, and have again. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = next
    next = port === LAST ? FIRST : port + 1
    if (await isFree(port)) return port
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer()
  try {
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
  } catch {
    return false
  }
  server.close()
  await once(server, 'close')
  return true
}
