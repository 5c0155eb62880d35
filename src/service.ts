import { createServer, type Server } from 'node:http'
import { type AddressInfo, createServer as createNetServer, type Server as NetServer } from 'node:net'
import { type EngineSurroundings, openEngine } from './engine.ts'
import type { Health } from './http/admin.ts'
import { createApp } from './http/app.ts'
import type { Address, Settings } from './settings.ts'
import { Sockets } from './sockets/sockets.ts'

export interface Surroundings extends EngineSurroundings {
  readonly version: string
  readonly wwwroot: string
  readonly swaggerAssets: string
}

export interface Service {
  /** Where it listens, with the ports that it got. */
  readonly urls: readonly string[]
  /** Answers what was accepted, writes what is to be written, and lets go of everything. */
  close(): Promise<void>
}

/** Wires the rooms. What it returns serves; what it throws has changed nothing that matters. */
export async function start(settings: Settings, surroundings: Surroundings): Promise<Service> {
  const { log, newId, version, wwwroot, swaggerAssets } = surroundings
  const engine = await openEngine(settings, surroundings)
  const { journal, views, handler, dataFile, bus } = engine
  const began = performance.now()
  const health = (): Health => {
    const isKept = dataFile.status.state === 'current' || dataFile.status.state === 'behind'
    return {
      status: !journal.writable ? 'unavailable' : isKept ? 'ok' : 'degraded',
      position: views.position,
      uptime: Math.round((performance.now() - began) / 1000),
      version,
      journal: { id: journal.id, writable: journal.writable, ...(journal.cut && { cut: journal.cut }) },
      dataFile: dataFile.status,
    }
  }
  const limits = { parameters: settings.limits.queryParameters, pageSize: settings.limits.pageSize }
  try {
    const app = createApp({
      items: { views, handler, journalId: journal.id, bodyBytes: settings.limits.bodyBytes, limits },
      events: { journal, limits },
      admin: { health, reload: () => dataFile.reload() },
      docs: { version, views, swaggerAssets },
      wwwroot,
      log,
      newId,
    })
    const http = createServer(app.callback())
    const sockets = new Sockets(http)
    bus.subscribe((recorded) => sockets.notify(recorded))
    const listening = await listen(http, settings.urls)
    return {
      urls: listening.urls,
      async close() {
        const drained = listening.close()
        await sockets.close()
        await drained
        await engine.close()
      },
    }
  } catch (error) {
    await engine.close()
    throw error
  }
}

interface Listening {
  readonly urls: readonly string[]
  close(): Promise<void>
}

/**
 * One HTTP server for all addresses: it listens on the first itself (its time-outs need that) and gets the
 * connections of the others.
 */
async function listen(http: Server, addresses: readonly Address[]): Promise<Listening> {
  const servers: (Server | NetServer)[] = []
  const urls: string[] = []
  try {
    for (const { host, port } of addresses) {
      let bound = port
      for (const [index, numeric] of hostsOf(host).entries()) {
        const server = servers.length === 0 ? http : createNetServer((socket) => http.emit('connection', socket))
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
  return {
    urls,
    async close() {
      const closed = servers.map((server) => new Promise((resolve) => server.close(resolve)))
      http.closeIdleConnections()
      const idle = setInterval(() => http.closeIdleConnections(), 50)
      await Promise.all(closed)
      clearInterval(idle)
    },
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
