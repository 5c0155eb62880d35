import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { once } from './deadline.ts'
import type { Scope } from './directory.ts'

/** A way to a server that can be cut: then nothing comes through, and neither end is told. */
export interface Proxy {
  readonly port: number
  cut(): void
  /** New connections come through again; what was cut stays cut. */
  heal(): void
  /** How many connections it has accepted. */
  readonly connections: () => number
}

export async function startProxy(t: Scope, targetPort: number): Promise<Proxy> {
  const sockets = new Set<Socket>()
  let isCut = false
  let connections = 0
  const server = createServer((near) => {
    connections++
    sockets.add(near)
    near.on('error', () => near.destroy())
    if (isCut) {
      near.pause()
      return
    }
    const far = connect(targetPort, '127.0.0.1')
    sockets.add(far)
    const end = (): void => {
      if (isCut) return
      near.destroy()
      far.destroy()
    }
    far.on('error', end)
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      one.on('data', (bytes) => {
        if (!isCut) other.write(bytes)
      })
      one.on('close', end)
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(async () => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return {
    port: (server.address() as AddressInfo).port,
    connections: () => connections,
    cut() {
      isCut = true
    },
    heal() {
      isCut = false
      for (const socket of sockets) socket.destroy()
      sockets.clear()
    },
  }
}
