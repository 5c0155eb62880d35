import { PerAddress } from '../access/addresses.ts'
import { timesOf } from '../engine/rules.ts'
import type { Health } from '../http/admin.ts'
import type { ApiResource } from '../http/api.ts'
import type { AppOptions } from '../http/app.ts'
import { eventResources } from '../http/events.ts'
import { Hints } from '../http/hints.ts'
import { apiResources } from '../http/items.ts'
import type { MetricsOptions } from '../http/metrics.ts'
import { onceBuilt } from '../http/once-built.ts'
import { waitingForPosition } from '../http/position-wait.ts'
import { readable } from '../http/read-only.ts'
import { observing } from '../http/request-times.ts'
import { simulating } from '../http/simulation.ts'
import { FileStreams } from '../http/statics.ts'
import { formatPath } from '../json/paths.ts'
import { SEARCHES_AT_ONCE } from '../projections/event-search.ts'
import { FieldList } from '../query/field-list.ts'
import { Corruption } from '../runtime/errors.ts'
import { Semaphore, Turns } from '../runtime/turns.ts'
import { eventTimesOf } from '../settings/collections.ts'
import type { Settings } from '../settings/settings.ts'
import type { ServiceContext } from './service-context.ts'

/** All routes of the service, for the hot path and for Koa. */
export function routesOf(context: ServiceContext, metrics: MetricsOptions): AppOptions {
  const { engine, settings, dependencies, gate, readOnly, requestTimes: times, limitedLog } = context
  const { log, newId, wwwroot, pages, builtPages, middleware } = dependencies
  return {
    resources: [...apiOf(context), ...eventsOf(context)],
    admin: adminOf(context),
    docs: docsOf(context),
    metrics,
    gate,
    bodyBytes: settings.limits.bodyBytes,
    position: () => engine.views.position,
    observe: observing({ times, log, limitedLog, slowMs: settings.log.slowMs }),
    readOnly,
    corsCredentials: settings.cors.credentials,
    contentSecurityPolicy: settings.contentSecurityPolicy,
    wwwroot,
    pages,
    builtPages,
    middleware,
    log: limitedLog,
    newId,
  }
}

function apiOf({ engine, settings, readOnly, arrivals, limitedLog }: ServiceContext): readonly ApiResource[] {
  const { views, past, queries, handler, journal, bus } = engine
  const { api, limits } = settings
  const { waitSeconds, queryBytes: bytes, queryParameters: parameters } = limits
  const fieldList = new FieldList(queries)
  bus.add({ queries, fieldList })
  const all = apiResources({
    views,
    past,
    queries,
    handler,
    journal,
    now: () => engine.now(),
    hints: new Hints({ fields: fieldList, isStrict: api.strictQuery, log: limitedLog }),
    isJsonServer: api.compatibility === 'json-server',
    limits: { ...limits, bytes, parameters },
    turns: new Turns(),
    useResultObject: api.useResultObject,
    idField: settings.dataStore.idField,
    times: eventTimesOf(settings.collections),
  })
  const offered = simulating(readOnly === undefined ? all : readable(all), settings.simulation)
  const built = onceBuilt(offered, () => engine.building())
  return waitingForPosition(built, { position: () => views.position, arrivals, seconds: waitSeconds })
}

function eventsOf({ engine, settings, gate, arrivals }: ServiceContext): readonly ApiResource[] {
  const { queryBytes, queryParameters, pageSize, streamsPerAddress, waitSeconds } = settings.limits
  return eventResources({
    journal: engine.journal,
    history: () => (engine.building() ? undefined : engine.history),
    arrivals,
    gate,
    limits: { bytes: queryBytes, parameters: queryParameters, pageSize },
    searches: new Semaphore(SEARCHES_AT_ONCE),
    streams: new PerAddress(streamsPerAddress),
    waitSeconds: engine.mayLag ? waitSeconds : 0,
  })
}

function adminOf(context: ServiceContext): AppOptions['admin'] {
  const { engine, settings, gate, warnings, settingsReload, resets, limitedLog } = context
  const { handler, views, past, journal } = engine
  return {
    health: healthOf(context),
    schemes: gate.access?.schemes ?? [],
    eventTime: Object.fromEntries(
      Array.from(timesOf(settings.collections), ([name, time]) => [name, formatPath(time)]),
    ),
    warnings,
    building: () => engine.building(),
    reload: () => engine.reload(),
    reloadSettings: () => settingsReload.reload(),
    snapshot: () => engine.snapshot(),
    reset: hasReset(settings) ? (origin, isDryRun) => resets.toFirstData(origin, isDryRun) : undefined,
    verify: (rest) =>
      engine.verify(rest).catch((error: unknown) => {
        if (error instanceof Corruption) limitedLog.error({ err: error }, 'the journal is damaged')
        throw error
      }),
    handler,
    views,
    past,
    journal,
    now: () => engine.now(),
    bodyBytes: settings.limits.bodyBytes,
  }
}

function hasReset({ api }: Settings): boolean {
  return api.reset || api.compatibility === 'json-server'
}

function docsOf(context: ServiceContext): AppOptions['docs'] {
  const { engine, settings, dependencies, gate, descriptors, readOnly } = context
  return {
    version: dependencies.version,
    views: engine.views,
    swaggerAssets: dependencies.swaggerAssets,
    schemes: gate.access?.schemes ?? [],
    isReadOnly: readOnly !== undefined,
    hasReset: hasReset(settings),
    isJsonServer: settings.api.compatibility === 'json-server',
    useResultObject: settings.api.useResultObject,
    idField: settings.dataStore.idField,
    streams: new FileStreams(descriptors.files),
  }
}

/** The source of `/health`. The uptime counts from this call. */
function healthOf({ engine, settings, dependencies, readOnly, clock }: ServiceContext): () => Health {
  const { elapsedMs, version } = dependencies
  const began = elapsedMs()
  return () => {
    const { status, ...parts } = engine.health()
    const jump = clock.last
    // The names of fields are not public.
    const [building] = engine.queries.list().flatMap(({ built }) => built ?? [])
    return {
      status,
      position: engine.views.position,
      uptime: Math.round((elapsedMs() - began) / 1000),
      version,
      readOnly: readOnly !== undefined,
      idField: settings.dataStore.idField,
      ...parts,
      ...(jump && { clock: jump }),
      ...(building !== undefined && { indexing: Math.round(building * 1000) / 1000 }),
    }
  }
}
