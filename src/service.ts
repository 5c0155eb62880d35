import { createServer, type ServerResponse } from 'node:http'
import type { Middleware } from 'koa'
import { PerAddress } from './access/per-address.ts'
import { shareDescriptors } from './descriptors.ts'
import { type Engine, openEngine } from './engine.ts'
import type { EngineSurroundings } from './engine-surroundings.ts'
import { openFileHost } from './file-engine.ts'
import type { Health } from './http/admin.ts'
import { createApp } from './http/app.ts'
import { BasedResponse, BasePath } from './http/base-path.ts'
import type { Front } from './http/connection.ts'
import { ConnectionLimits } from './http/connection-limits.ts'
import { Connections } from './http/connections.ts'
import { eventResources } from './http/events.ts'
import { FileStreams } from './http/file-streams.ts'
import { Hints } from './http/hints.ts'
import { hotPath } from './http/hot-path.ts'
import { apiResources } from './http/items.ts'
import { onceBuilt } from './http/once-built.ts'
import { readable } from './http/read-only.ts'
import { observing, RequestTimes } from './http/request-times.ts'
import { simulating, simulationWarnings } from './http/simulation.ts'
import { destroyStalled } from './http/stalls.ts'
import { waitingForPosition } from './http/waiting.ts'
import { formatPath } from './json/paths.ts'
import { checkAddresses, listen } from './listening.ts'
import { metricsOf } from './metrics.ts'
import { openGate, warningsOf } from './open-gate.ts'
import { Arrivals } from './projections/arrivals.ts'
import { SEARCHES_AT_ONCE } from './projections/event-search.ts'
import { FieldList } from './projections/query/field-list.ts'
import { openReplayHost, type Replay } from './replay-engine.ts'
import type { Settings } from './settings.ts'
import { Sockets } from './sockets/sockets.ts'
import { Turns } from './turns.ts'

export interface Surroundings extends EngineSurroundings {
  readonly version: string
  /** The user's own files; undefined for none. */
  readonly wwwroot: string | undefined
  /** The packaged pages. */
  readonly pages: string
  readonly swaggerAssets: string
  /** What the build has put beside the pages: the client for pages, and uPlot. */
  readonly builtPages: string
  /** How many descriptors the process may have open. */
  readonly descriptors: number
  /** Whether `/metrics` tells of the process, too. Observers of it cannot be ended. */
  readonly ownsProcess: boolean
  /** Sees each HTTP request first. Where there is any, all requests go through Koa. */
  readonly middleware: readonly Middleware[]
}

export interface Service {
  /** Where it listens, with the ports that it got. */
  readonly urls: readonly string[]
  /** Answers what was accepted, writes what is to be written, and lets go of everything. */
  close(): Promise<void>
}

/** How often slow requests are looked for. */
const TIMEOUT_CHECK_MS = 1000

const READ_ONLY = 'This server is read-only (Api.ReadOnly): nothing can be written to it.'

/** Wires the rooms. What it returns serves; what it throws has changed nothing that matters. */
export async function start(settings: Settings, surroundings: Surroundings): Promise<Service> {
  await checkAddresses(settings.urls)
  const host = settings.cluster
    ? await (await import('./cluster-engine.ts')).openClusterHost(settings, settings.cluster, surroundings)
    : await openFileHost(settings, surroundings)
  return serve(await openEngine(host, surroundings.failed), settings, surroundings)
}

/** The same for the past: a server that can only be read. */
export async function startReplay(settings: Settings, replay: Replay, surroundings: Surroundings): Promise<Service> {
  const host = await openReplayHost(settings, replay, surroundings)
  return serve(await openEngine(host, surroundings.failed), settings, surroundings)
}

/** Serves an engine, which is closed with the service, or when it cannot be served. */
export async function serve(engine: Engine, settings: Settings, surroundings: Surroundings): Promise<Service> {
  const { log, newId, elapsedMs, schedule, version, swaggerAssets, middleware } = surroundings
  const { journal, views, history, past, queries, handler, bus } = engine
  const readOnly = engine.readOnly ?? (settings.api.readOnly ? READ_ONLY : undefined)
  const now = (): Date => engine.now()
  const began = elapsedMs()
  const health = (): Health => {
    const { status, ...parts } = engine.health()
    const uptime = Math.round((elapsedMs() - began) / 1000)
    // Which fields there are is not for everybody.
    const [building] = queries.list().flatMap(({ built }) => built ?? [])
    const indexing = building !== undefined && { indexing: Math.round(building * 1000) / 1000 }
    return {
      status,
      position: views.position,
      uptime,
      version,
      readOnly: readOnly !== undefined,
      idField: settings.dataStore.idField,
      ...parts,
      ...indexing,
    }
  }
  const { limits, cors } = settings
  const descriptors = shareDescriptors(surroundings.descriptors)
  const { queryBytes, queryParameters, pageSize, scanSeconds } = limits
  const query = { bytes: queryBytes, parameters: queryParameters, pageSize, scanSeconds }
  try {
    const gate = await openGate(settings, engine.tokens, surroundings)
    const warnings = [
      ...warningsOf(settings, readOnly !== undefined),
      ...simulationWarnings(settings.simulation),
      ...engine.warnings,
    ]
    for (const warning of warnings) log.warn(warning)
    const arrivals = new Arrivals()
    const requests = new RequestTimes()
    const { bodyBytes, batchBytes, batchItems } = limits
    const bodies = { bodyBytes, batchBytes, batchItems }
    const fields = new FieldList(queries)
    bus.add(fields)
    const isJsonServer = settings.api.compatibility === 'json-server'
    const hints = new Hints({ fields, isStrict: settings.api.strictQuery, log, elapsedMs })
    const { useResultObject } = settings.api
    const { idField } = settings.dataStore
    const all = apiResources({
      views,
      past,
      queries,
      handler,
      journal,
      now,
      hints,
      isJsonServer,
      bodies,
      limits: query,
      useResultObject,
      idField,
    })
    const position = () => views.position
    const building = () => engine.building()
    const offered = simulating(readOnly === undefined ? all : readable(all), settings.simulation)
    const api = waitingForPosition(onceBuilt(offered, building), {
      position,
      arrivals,
      seconds: limits.waitSeconds,
    })
    const events = eventResources({
      journal,
      history: () => (building() ? undefined : history),
      arrivals,
      gate,
      limits: query,
      turns: new Turns(SEARCHES_AT_ONCE),
      streams: new PerAddress(limits.streamsPerAddress),
      // A node of a cluster may hear of events later than the one that the client read from.
      waitSeconds: settings.cluster ? limits.waitSeconds : 0,
    })
    const resources = [...api, ...events]
    const served = { resources, gate, bodyBytes, position, observe: observing(requests, log), log, newId }
    const app = createApp({
      ...served,
      admin: {
        health,
        schemes: gate.access?.schemes ?? [],
        eventTime: eventTimes(settings.collections),
        warnings,
        building,
        reload: () => engine.reload(),
        snapshot: () => engine.snapshot(),
        verify: (rest) => engine.verify(rest),
        handler,
        views,
        past,
        journal,
        now,
        bodyBytes,
      },
      docs: {
        version,
        views,
        swaggerAssets,
        schemes: gate.access?.schemes ?? [],
        isReadOnly: readOnly !== undefined,
        isJsonServer,
        useResultObject,
        idField,
        streams: new FileStreams(descriptors.files),
      },
      metrics: metricsOf({
        engine,
        requests,
        connections: () => connectionLimits.figures(),
        sockets: () => sockets.figures(),
        queries,
        version,
        ownsProcess: surroundings.ownsProcess,
      }),
      readOnly,
      corsCredentials: cors.credentials,
      contentSecurityPolicy: settings.contentSecurityPolicy,
      wwwroot: surroundings.wwwroot,
      pages: surroundings.pages,
      builtPages: surroundings.builtPages,
      middleware,
    })
    const connectionLimits = new ConnectionLimits({
      gate,
      most: limits.connections || descriptors.connections,
      perAddress: limits.connectionsPerAddress,
      log,
    })
    const front: Front = middleware.length > 0 ? () => 'left' : hotPath(served)
    const http = createServer(
      {
        maxHeaderSize: limits.headerBytes,
        headersTimeout: limits.headerSeconds * 1000,
        requestTimeout: limits.requestSeconds * 1000,
        connectionsCheckingInterval: TIMEOUT_CHECK_MS,
        ServerResponse: BasedResponse as unknown as typeof ServerResponse,
        // Checked with the other malformations, which get a problem document.
        requireHostHeader: false,
      },
      app.callback(),
    )
    const connections = new Connections(http)
    destroyStalled(http, connections, limits.stallSeconds)
    // Node would answer an expectation that it does not know with an empty 417; RFC 9110 §10.1.1 lets it be passed over.
    http.on('checkExpectation', (request, response) => http.emit('request', request, response))
    const sockets = new Sockets(http, {
      gate,
      isReady: () => building() === undefined,
      perAddress: limits.socketsPerAddress,
      corsCredentials: cors.credentials,
      connections,
      stallSeconds: limits.stallSeconds,
      subscriptions: {
        views,
        past,
        queries,
        journal,
        log,
        now,
        clock: { elapsedMs, schedule },
        items: limits.subscriptionItems,
        perClient: limits.subscriptionsPerSocket,
      },
    })
    bus.add(sockets, arrivals)
    const basePath = new BasePath(settings.basePath, (remote) => gate.isTrustedProxy(remote))
    connections.serve((request, response) => {
      ;(response as BasedResponse).basePath = basePath.strip(request)
      return front(request, response)
    })
    http.prependListener('upgrade', (request) => void basePath.strip(request))
    connectionLimits.guard(http)
    const listening = await listen(http, settings.urls, connections, log)
    return {
      urls: listening.urls,
      async close() {
        log.info('ending: what was accepted is still answered')
        await listening.close(() => {
          arrivals.end()
          return sockets.close()
        })
        await engine.close()
        log.info({ position: views.position }, 'ended')
      },
    }
  } catch (error) {
    await engine.close()
    throw error
  }
}

/** The field of the event time of each collection that has one. */
function eventTimes(collections: Settings['collections']): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(collections).flatMap(([name, { time }]) => (time ? [[name, formatPath(time)]] : [])),
  )
}
