import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import { type AddressInfo, createServer as createNetServer, type Server as NetServer, type Socket } from 'node:net'
import type { Taken } from './http/hot-path.ts'
import type { Address } from './settings/urls.ts'

export interface Listening {
  readonly urls: readonly string[]
  /** Takes nothing new, answers what was accepted; `letGo` ends the connections that are no requests. */
  close(letGo: () => Promise<void>): Promise<void>
}

/** So long are connections still served that were being opened when the end was asked for. */
const GRACE_MS = 100
/** Requests that are not answered by then are cut off. */
const DRAIN_MS = 8000

/**
 * One HTTP server for all addresses: it listens on the first itself (its time-outs need that) and gets the
 * connections of the others. `front` looks at each request before all that listen for requests so far.
 */
export async function listen(http: Server, addresses: readonly Address[], front: Front): Promise<Listening> {
  const { servers, urls } = await bind(addresses, (index) =>
    index === 0 ? http : createNetServer((socket) => http.emit('connection', socket)),
  )
  const drain = dispatch(http, front)
  return {
    urls,
    async close(letGo) {
      drain()
      await new Promise((resolve) => setTimeout(resolve, GRACE_MS))
      const closed = servers.map((server) => new Promise((resolve) => server.close(resolve)))
      http.closeIdleConnections()
      const cutOff = setTimeout(() => http.closeAllConnections(), DRAIN_MS)
      await letGo()
      await Promise.all(closed)
      clearTimeout(cutOff)
    },
  }
}

/** Fails as `listen` would now, and listens nowhere: so that nothing is begun for a server that cannot listen. */
export async function checkAddresses(addresses: readonly Address[]): Promise<void> {
  const { servers } = await bind(addresses, () => createNetServer((socket) => socket.destroy()))
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))))
}

interface Bound {
  readonly servers: readonly (Server | NetServer)[]
  readonly urls: readonly string[]
}

async function bind(addresses: readonly Address[], serverAt: (index: number) => Server | NetServer): Promise<Bound> {
  const servers: (Server | NetServer)[] = []
  const urls: string[] = []
  try {
    for (const { host, port } of addresses) {
      let bound = port
      for (const [index, numeric] of hostsOf(host).entries()) {
        const server = serverAt(servers.length)
        try {
          await listenOn(server, numeric, bound)
        } catch (error) {
          const { code } = error as NodeJS.ErrnoException
          if (index > 0 && (code === 'EADDRNOTAVAIL' || code === 'EAFNOSUPPORT')) continue
          throw error
        }
        servers.push(server)
        bound = (server.address() as AddressInfo).port
      }
      const shown = host ?? '[::]'
      urls.push(`http://${shown.includes(':') && host ? `[${shown}]` : shown}:${bound}`)
    }
  } catch (error) {
    for (const server of servers) server.close()
    throw error
  }
  return { servers, urls }
}

/** Looks at each request before all that listen for requests so far, and says what came of it. */
export type Front = (request: IncomingMessage, response: ServerResponse) => Taken

/** From the call of what it returns every answer, also to a request that is here already, is its connection's last. */
function dispatch(http: Server, front: Front): () => void {
  /** What each connection is answered last; what came before it must not end the connection. */
  const answering = new Map<Socket, ServerResponse>()
  let isDraining = false
  const others = http.listeners('request') as RequestListener[]
  http.removeAllListeners('request')
  http.on('request', (request, response) => {
    const { socket } = request
    if (isDraining) response.shouldKeepAlive = false
    const taken = front(request, response)
    // Most are answered by now; to keep those of every connection costs more than many an answer.
    if (taken !== 'answered' || answering.has(socket)) {
      if (!answering.has(socket)) socket.once('close', () => answering.delete(socket))
      answering.set(socket, response)
    }
    if (taken === 'left') for (const listener of others) listener.call(http, request, response)
  })
  return () => {
    isDraining = true
    for (const response of answering.values()) response.shouldKeepAlive = false
  }
}

/** `localhost` is both loopback addresses, as a client may try either. */
function hostsOf(host: string | undefined): readonly (string | undefined)[] {
  return host === 'localhost' ? ['127.0.0.1', '::1'] : [host]
}

function listenOn(server: Server | NetServer, host: string | undefined, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ port, ...(host !== undefined && { host }) }, () => {
      server.off('error', reject)
      resolve()
    })
  })
}
