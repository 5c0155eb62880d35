import type { Server } from 'node:http'
import { type AddressInfo, createServer as createNetServer, type Server as NetServer } from 'node:net'
import type { Connections } from '../http/connections.ts'
import type { LimitedLog } from '../runtime/limited-log.ts'
import { type Address, urlOf } from '../settings/urls.ts'

interface Listening {
  readonly urls: readonly string[]
  /** Stops accepting connections and answers accepted requests; `endConnections` ends connections such as sockets. */
  close(endConnections: () => Promise<void>): Promise<void>
}

/** How long connections that were being opened are still served after the stop began. */
const GRACE_MS = 100
/** How often to end idle connections meanwhile. */
const SWEEP_MS = 100
/** Requests that arrive later are cut off. */
const ARRIVAL_MS = 2000
/** Requests that take longer are cut off. */
const DRAIN_MS = 8000

/**
 * One HTTP server for all addresses: it listens on the first one itself, which its time-outs need, and gets the
 * connections of the others.
 */
export async function listen(
  http: Server,
  addresses: readonly Address[],
  connections: Pick<Connections, 'drain' | 'endIncomplete' | 'destroyAll'>,
  log: LimitedLog,
): Promise<Listening> {
  const { servers, urls } = await bind(addresses, (index) =>
    index === 0 ? http : createNetServer((socket) => http.emit('connection', socket)),
  )
  // Without a free descriptor a connection is not accepted. That must not end the process.
  for (const server of servers) server.on('error', (error) => log.warn({ err: error }, 'a connection was not accepted'))
  return {
    urls,
    async close(endConnections) {
      connections.drain()
      await new Promise((resolve) => setTimeout(resolve, GRACE_MS))
      const closed = servers.map((server) => new Promise((resolve) => server.close(resolve)))
      const began = performance.now()
      const sweep = setInterval(() => {
        const elapsedMs = performance.now() - began
        http.closeIdleConnections()
        if (elapsedMs >= ARRIVAL_MS) connections.endIncomplete()
        if (elapsedMs >= DRAIN_MS) connections.destroyAll()
      }, SWEEP_MS)
      await endConnections()
      await Promise.all(closed)
      clearInterval(sweep)
    },
  }
}

/** Fails like `listen`, without listening, so that a server that cannot listen creates no files. */
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
          throw code === 'EADDRINUSE' ? inUse(urlOf({ host: numeric, port: bound }), error) : error
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

function inUse(url: string, cause: unknown): Error {
  const message = `${url} is in use by another program; --port names another port, and --port 0 takes a free one.`
  return Object.assign(new Error(message, { cause }), { code: 'EADDRINUSE' })
}

/** `localhost` means both loopback addresses, as clients may try either. */
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
