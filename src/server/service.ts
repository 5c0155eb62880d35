import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http'
import type { Command } from '../commands/command.ts'
import { writeSnapshot } from '../data-file/adapter.ts'
import type { Engine } from '../engine/engine.ts'
import { FileEngine } from '../engine/file-engine.ts'
import { type Replay, ReplayEngine } from '../engine/replay-engine.ts'
import type { Position } from '../events/event.ts'
import { directoryOf, type Files } from '../files/files.ts'
import { createApp } from '../http/app.ts'
import { BasedResponse, BasePath, toOriginForm } from '../http/base-path.ts'
import { ConnectionLimits } from '../http/connection-limits.ts'
import { Connections, type Front } from '../http/connections.ts'
import { fastFront } from '../http/fast-front.ts'
import { checkBuilt } from '../http/pipeline.ts'
import { Rewriting } from '../http/rewriting.ts'
import { Refusal } from '../runtime/errors.ts'
import type { Settings } from '../settings/settings.ts'
import { Sockets } from '../sockets/sockets.ts'
import { offersWebSocket } from '../sockets/upgrades.ts'
import { checkAddresses, listen } from './listener.ts'
import { metricsOf } from './metrics.ts'
import type { ServiceDependencies } from './platform.ts'
import { resetToData, resetToFirstData } from './resets.ts'
import { appOptionsOf } from './routes.ts'
import { openContext, type ServiceContext } from './service-context.ts'

export interface Service {
  /** The listening addresses, with their actual ports. */
  readonly urls: readonly string[]
  /**
   * Reads users, API keys and schemas again.
   * @throws {Refusal} with all mistakes; the earlier ones stay in use then.
   */
  reloadSettings(): Promise<unknown>
  /**
   * Returns to the first data, or to the JSON of a data file. Resolves with the position at which readers see it.
   * @throws {Refusal} with all mistakes of the data, or when the server is read-only.
   */
  reset(data?: Buffer): Promise<Position>
  /**
   * Executes a command as a request does. Resolves when the write is durable and readable.
   * @throws {Refusal} as a request gets it, also when the server is read-only, starting or ending
   */
  write(command: Command, actor: string): Promise<unknown>
  /** Writes the state as a new data file. */
  writeSnapshot(path: string): Promise<void>
  /** Answers accepted requests, writes pending data, and releases everything. */
  close(): Promise<void>
}

/** The actor of resets by the program that started the server. */
const LIBRARY_ACTOR = 'library'

/** How often to check for slow requests. */
const TIMEOUT_CHECK_MS = 1000

/** Creates and starts a server; with `replay`, a read-only one of the past. If it throws, nothing important was changed. */
export async function start(given: Settings, dependencies: ServiceDependencies, replay?: Replay): Promise<Service> {
  await checkAddresses(given.urls)
  const { follow } = dependencies.files
  // A symbolic link above the journal may change, and a running server stays with its journal.
  const [journal, store] = [await follow(given.journal), await follow(given.store)]
  const settings = { ...given, journal, store }
  const engine = await openEngine(settings, dependencies, replay)
  await engine.start(dependencies.failed)
  return serve(engine, settings, dependencies)
}

async function openEngine(settings: Settings, dependencies: ServiceDependencies, replay?: Replay): Promise<Engine> {
  if (replay) return ReplayEngine.open(settings, replay, dependencies)
  if (settings.remote) return dependencies.remoteJournal.open(settings, dependencies)
  return FileEngine.open(settings, dependencies)
}

/** Serves an engine, which is closed with the service, or if it cannot be served. */
async function serve(engine: Engine, settings: Settings, dependencies: ServiceDependencies): Promise<Service> {
  const { log, middleware } = dependencies
  try {
    const context = await openContext(engine, settings, dependencies)
    for (const warning of context.warnings()) log.warn(warning)
    const { gate, settingsReload, descriptors, arrivals, limitedLog } = context
    const { limits } = settings
    const connectionLimits = new ConnectionLimits({
      gate,
      most: limits.connections || descriptors.connections,
      perAddress: limits.connectionsPerAddress,
      log: limitedLog,
    })
    const metrics = metricsOf(
      context,
      () => connectionLimits.figures(),
      () => sockets.figures(),
    )
    const routes = appOptionsOf(context, metrics)
    const http = createHttpServer(settings, createApp(routes).callback())
    const connections = new Connections(http)
    connections.limitIdleTime(limits.stallSeconds)
    const sockets = openSockets(context, http, connections)
    engine.bus.add({ sockets, arrivals })
    const front: Front = middleware.length > 0 ? () => 'left' : fastFront(routes)
    const basePath = new BasePath(settings.http.basePath, (remote) => gate.isTrustedProxy(remote))
    serveBelow(basePath, rewritingOf(engine, settings), http, connections, front)
    connectionLimits.guard(http)
    let isEnding = false
    const listening = await listen(http, settings.urls, connections, limitedLog)
    return {
      urls: listening.urls,
      reloadSettings: () => settingsReload.reload(),
      async reset(data) {
        checkWritable(context)
        const origin = { actor: LIBRARY_ACTOR, requestId: dependencies.newId() }
        const { position } = await (data
          ? resetToData(engine, settings, dependencies.memory, data, origin)
          : resetToFirstData(engine, origin))
        return position
      },
      async write(command, actor) {
        checkWritable(context)
        if (isEnding) throw new Refusal('Unavailable', 'The server is ending.')
        checkBuilt(engine.building())
        return engine.handler.handle(command, { actor, requestId: dependencies.newId() })
      },
      writeSnapshot: (path) => snapshotTo(engine, dependencies.files, path),
      async close() {
        isEnding = true
        context.clock.close()
        log.info('ending: what was accepted is still answered')
        // Their clients are told how far they came.
        engine.handler.end()
        await listening.close(() => {
          arrivals.end()
          return sockets.close()
        })
        await engine.close()
        log.info({ position: engine.views.position }, 'ended')
      },
    }
  } catch (error) {
    await engine.close()
    throw error
  }
}

async function snapshotTo(engine: Engine, files: Files, path: string): Promise<void> {
  checkBuilt(engine.building())
  const snapshot = engine.views.snapshot()
  try {
    await files.makeDirectory(directoryOf(path))
    await writeSnapshot(files, path, snapshot)
    await files.syncDirectory(directoryOf(path))
  } finally {
    snapshot.close()
  }
}

function checkWritable({ readOnly }: ServiceContext): void {
  if (readOnly !== undefined) throw new Refusal('MethodNotAllowed', readOnly)
}

function createHttpServer({ limits, http: { keepAliveSeconds } }: Settings, listener: RequestListener): Server {
  const http = createServer(
    {
      maxHeaderSize: limits.headerBytes,
      // Node rejects a longer time for the headers than for the whole request.
      headersTimeout: Math.min(limits.headerSeconds, limits.requestSeconds) * 1000,
      requestTimeout: limits.requestSeconds * 1000,
      keepAliveTimeout: keepAliveSeconds * 1000,
      connectionsCheckingInterval: TIMEOUT_CHECK_MS,
      ServerResponse: BasedResponse as unknown as typeof ServerResponse,
      // Checked with other malformed requests, which get a problem document.
      requireHostHeader: false,
    },
    listener,
  )
  // Node would leave out headers beyond a count, such as If-Match. Their bytes are limited.
  http.maxHeadersCount = 0
  // Node would respond to an unknown expectation with an empty 417; RFC 9110 §10.1.1 allows ignoring it.
  http.on('checkExpectation', (request, response) => http.emit('request', request, response))
  return http
}

function openSockets(
  { engine, settings, dependencies, gate, limitedLog }: ServiceContext,
  http: Server,
  connections: Connections,
): Sockets {
  const { views, past, queries, journal } = engine
  const { limits, cors } = settings
  const { elapsedMs, schedule } = dependencies
  return new Sockets(http, {
    gate,
    isReady: () => engine.building() === undefined,
    perAddress: limits.socketsPerAddress,
    corsCredentials: cors.credentials,
    connections,
    stallSeconds: limits.stallSeconds,
    subscriptions: {
      views,
      past,
      queries,
      journal,
      log: limitedLog,
      now: () => engine.now(),
      clock: { elapsedMs, schedule },
      items: limits.subscriptionItems,
      perClient: limits.subscriptionsPerSocket,
      memory: dependencies.memory,
    },
  })
}

/** With json-server compatibility the collections are served at the root, too. */
function rewritingOf(engine: Engine, { api, http }: Settings): Rewriting {
  if (api.compatibility !== 'json-server') return new Rewriting(http.routes)
  return new Rewriting(http.routes, (name) => engine.readable.views.any(name) !== undefined)
}

/** Dispatches requests and upgrades without the base path. */
function serveBelow(
  basePath: BasePath,
  rewriting: Rewriting,
  http: Server,
  connections: Connections,
  front: Front,
): void {
  connections.serve((request, response) => {
    toOriginForm(request)
    ;(response as BasedResponse).basePath = basePath.strip(request)
    rewriting.apply(request)
    return front(request, response)
  })
  http.prependListener('upgrade', (request) => {
    // Other requests come once more, without their offers.
    if (!offersWebSocket(request)) return
    toOriginForm(request)
    basePath.strip(request)
  })
}
