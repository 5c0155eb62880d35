import { createServer, type Server, type ServerResponse } from 'node:http'
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
        log.info('ending: what was accepted is still answered')
        await listening.close(() => sockets.close())
        await engine.close()
        log.info({ position: views.position }, 'ended')
      },
    }
  } catch (error) {
    await engine.close()
    throw error
  }
}

interface Listening {
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
  const drain = drainOf(http)
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

/** From its call on every answer, also to a request that is here already, is its connection's last. */
function drainOf(http: Server): () => void {
  const answering = new Set<ServerResponse>()
  let isDraining = false
  http.prependListener('request', (_request, response: ServerResponse) => {
    response.shouldKeepAlive &&= !isDraining
    answering.add(response)
    response.once('close', () => answering.delete(response))
  })
  return () => {
    isDraining = true
    for (const response of answering) response.shouldKeepAlive = false
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
