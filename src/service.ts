import { createServer, type Server } from 'node:http'
import { type AddressInfo, createServer as createNetServer, type Server as NetServer } from 'node:net'
import type { Logger } from 'pino'
import { CommandHandler } from './commands/handler.ts'
import { compileSchemas } from './commands/schemas.ts'
import { EventBus } from './events/bus.ts'
import { FileJournal, journalExists } from './events/file-journal.ts'
import { directoryOf, type Files, replace } from './files/files.ts'
import type { Health } from './http/admin.ts'
import { createApp } from './http/app.ts'
import { DATA_FILE_ACTOR, DataFile } from './projections/data-file/data-file.ts'
import { Views } from './projections/views.ts'
import type { Address, Settings } from './settings.ts'
import { Sockets } from './sockets/sockets.ts'

export interface Surroundings {
  readonly files: Files
  readonly now: () => Date
  readonly newId: () => string
  readonly log: Logger
  readonly version: string
  /** What `data/datastore.json` begins as. */
  readonly sampleFile: string
  readonly wwwroot: string
  readonly swaggerAssets: string
  /** The service can no longer keep its promises: the process must end, and not well. */
  readonly failed: (error: unknown) => void
}

export interface Service {
  /** Where it listens, with the ports that it got. */
  readonly urls: readonly string[]
  /** Answers what was accepted, writes what is to be written, and lets go of everything. */
  close(): Promise<void>
}

/** Wires the rooms. What it returns serves; what it throws has changed nothing that matters. */
export async function start(settings: Settings, surroundings: Surroundings): Promise<Service> {
  const { files, now, newId, log, failed } = surroundings
  const faultsOf = compileSchemas(settings.api.schemas)
  const path = await prepareFile(settings, surroundings)
  const views = new Views()
  const dataFile = new DataFile({
    files,
    path,
    views,
    log,
    eager: settings.common.eagerDataReload,
    acceptJournal: settings.acceptJournal,
  })
  await dataFile.checkJournalIsThere(await journalExists(files, settings.journal))

  const answered: Parameters<CommandHandler['replay']>[0][] = []
  const journal = await FileJournal.open({
    files,
    directory: settings.journal,
    now,
    newId,
    segmentBytes: settings.segmentBytes,
    locked: () => dataFile.prepare(),
    replay: (recorded) => {
      views.apply(recorded)
      dataFile.replay(recorded)
      if (recorded.key !== undefined) answered.push(recorded)
    },
    failed,
  })
  try {
    if (journal.cut) log.warn(journal.cut, 'a crash left the end of the journal torn; it was cut off and kept')
    const handler = new CommandHandler({
      journal,
      durable: views.any,
      rules: {
        upsertOnPut: settings.api.upsertOnPut,
        clientIdsOnPost: settings.api.clientIdsOnPost,
        itemBytes: settings.limits.bodyBytes,
        patchOperations: settings.limits.patchOperations,
        faultsOf,
      },
      now,
    })
    for (const recorded of answered) handler.replay(recorded)

    const bus = new EventBus()
    bus.subscribe((recorded) => views.apply(recorded))
    bus.subscribe((recorded) => handler.settle(recorded))
    bus.subscribe(() => dataFile.changed())
    journal.follow((recorded) => bus.publish(recorded))
    await dataFile.start({
      journal,
      takeIn: (edit, hash) => handler.takeIn(edit, { actor: DATA_FILE_ACTOR, requestId: newId(), key: hash }),
    })

    const began = performance.now()
    const health = (): Health => ({
      status: !journal.writable
        ? 'unavailable'
        : dataFile.status.state === 'current' || dataFile.status.state === 'behind'
          ? 'ok'
          : 'degraded',
      position: views.position,
      uptime: Math.round((performance.now() - began) / 1000),
      version: surroundings.version,
      journal: { id: journal.id, writable: journal.writable, ...(journal.cut && { cut: journal.cut }) },
      dataFile: dataFile.status,
    })
    const queryLimits = { parameters: settings.limits.queryParameters, pageSize: settings.limits.pageSize }
    const app = createApp({
      items: { views, handler, journalId: journal.id, bodyBytes: settings.limits.bodyBytes, limits: queryLimits },
      events: { journal, limits: queryLimits },
      admin: { health, reload: () => dataFile.reload() },
      docs: {
        version: surroundings.version,
        collections: () => views.names(),
        swaggerAssets: surroundings.swaggerAssets,
      },
      wwwroot: surroundings.wwwroot,
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
        await dataFile.close()
        await journal.close()
      },
    }
  } catch (error) {
    await journal.close()
    throw error
  }
}

/** The data file's real path; its directory is made, and the sample copied when no file was named. */
async function prepareFile(settings: Settings, { files, sampleFile }: Surroundings): Promise<string> {
  const path = await files.resolve(settings.file)
  await files.makeDirectory(directoryOf(path))
  const isNew = !(await files.stat(path)) && !(await journalExists(files, settings.journal))
  const sample = settings.isSample && isNew ? await files.read(sampleFile) : undefined
  if (sample) await replace(files, path, sample)
  return path
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
