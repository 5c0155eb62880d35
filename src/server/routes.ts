import { PerAddress } from '../access/addresses.ts'
import { timesOf } from '../engine/rules.ts'
import { type AdminOptions, adminResources, type Health, type MetricsOptions, metricsResource } from '../http/admin.ts'
import { apiResources } from '../http/api.ts'
import type { AppOptions } from '../http/app.ts'
import { docResources } from '../http/docs.ts'
import { eventResources } from '../http/events.ts'
import { type Resource, readOnly, type Step } from '../http/exchange.ts'
import { Hints } from '../http/hints.ts'
import type { OpenApiOptions } from '../http/openapi/openapi.ts'
import { apiSteps, observing, Pipeline } from '../http/pipeline.ts'
import { FileStreams } from '../http/statics.ts'
import { tokenResources } from '../http/tokens.ts'
import { formatPath } from '../json/paths.ts'
import { SEARCHES_AT_ONCE } from '../projections/event-search.ts'
import { FieldList } from '../query/field-list.ts'
import { Semaphore, Turns } from '../runtime/turns.ts'
import { eventTimesOf } from '../settings/collections.ts'
import { resetToFirstData } from './resets.ts'
import type { ServiceContext } from './service-context.ts'

/** All resources of the service, and what the fast front and Koa need to serve them. */
export function appOptionsOf(context: ServiceContext, metrics: MetricsOptions): AppOptions {
  const { engine, settings, dependencies, gate, readOnly: whyReadOnly, requestTimes, limitedLog } = context
  const { log, newId, wwwroot, pages, middleware, memory } = dependencies
  const all = [
    ...apiResourcesOf(context),
    ...eventResourcesOf(context),
    ...adminResources(adminOptionsOf(context)),
    ...docResources(docOptionsOf(context), pages),
    metricsResource(metrics),
    ...tokenResources(gate),
  ]
  return {
    resources: whyReadOnly === undefined ? all : readOnly(all, whyReadOnly),
    pipeline: new Pipeline(gate, () => engine.readable.views.position, limitedLog),
    gate,
    bodyBytes: settings.limits.bodyBytes,
    observe: observing(requestTimes, log, limitedLog, settings.log.slowMs),
    corsCredentials: settings.cors.credentials,
    collectionsAt: settings.api.compatibility === 'json-server' ? '/<collection>' : '/api/<collection>',
    contentSecurityPolicy: settings.http.contentSecurityPolicy,
    streams: new FileStreams(context.descriptors.files),
    log: limitedLog,
    newId,
    memory,
    wwwroot,
    pages,
    middleware,
  }
}

function apiResourcesOf({ engine, settings, dependencies, arrivals, limitedLog }: ServiceContext): readonly Resource[] {
  const { views, past, queries, handler, journal, bus } = engine
  const { api, limits } = settings
  const { queryBytes: bytes, queryParameters: parameters } = limits
  const isJsonServer = api.compatibility === 'json-server'
  const fieldList = new FieldList(queries)
  bus.add({ queries, fieldList })
  const hintsOf = (fields: FieldList) => new Hints({ fields, isStrict: api.strictQuery, log: limitedLog })
  const options = {
    views,
    past,
    queries,
    handler,
    journal,
    now: () => engine.now(),
    hints: hintsOf(fieldList),
    isJsonServer,
    foreignKeySuffix: api.foreignKeySuffix,
    limits: { ...limits, bytes, parameters },
    turns: new Turns({ memory: dependencies.memory }),
    useResultObject: api.useResultObject,
    idField: settings.dataStore.idField,
    times: eventTimesOf(settings.collections),
  }
  const { former } = engine
  const read = former ? apiResources({ ...options, ...former, hints: hintsOf(new FieldList(former.queries)) }) : []
  const isFormerRead = (): boolean => engine.former !== undefined
  const steps = apiSteps({
    isFormerRead,
    position: () => engine.readable.views.position,
    arrivals,
    waitSeconds: limits.waitSeconds,
    building: () => engine.building(),
    simulation: settings.simulation,
    isJsonServer,
  })
  return apiResources(options).map((resource, index) => ({ ...readInTurn(resource, read[index], isFormerRead), steps }))
}

/** Reads go to the former resource while there is one. */
function readInTurn(resource: Resource, former: Resource | undefined, isFormerRead: () => boolean): Resource {
  const [GET, formerGet] = [resource.routes.GET, former?.routes.GET]
  if (!GET || !formerGet) return resource
  const get: Step = (request, reply) => (isFormerRead() ? formerGet : GET)(request, reply)
  return { ...resource, routes: { ...resource.routes, GET: get } }
}

function eventResourcesOf({ engine, settings, dependencies, gate, arrivals }: ServiceContext): readonly Resource[] {
  const { queryBytes, queryParameters, pageSize, streamsPerAddress, waitSeconds, scanSeconds } = settings.limits
  return eventResources({
    journal: engine.journal,
    history: () => (engine.building() ? undefined : engine.history),
    arrivals,
    gate,
    views: engine.views,
    building: () => engine.building(),
    turns: new Turns({ memory: dependencies.memory }),
    limits: { bytes: queryBytes, parameters: queryParameters, pageSize, scanSeconds },
    searches: new Semaphore(SEARCHES_AT_ONCE),
    streams: new PerAddress(streamsPerAddress),
    waitSeconds: engine.mayLag ? waitSeconds : 0,
  })
}

function adminOptionsOf(context: ServiceContext): AdminOptions {
  const { engine, settings, dependencies, gate, warnings, settingsReload } = context
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
    retention: engine.retention,
    reset: settings.api.reset ? (origin, isDryRun) => resetToFirstData(engine, origin, isDryRun) : undefined,
    verify: (rest) => engine.verify(rest),
    handler,
    views,
    past,
    journal,
    now: () => engine.now(),
    turns: new Turns({ memory: dependencies.memory }),
  }
}

function docOptionsOf(context: ServiceContext): OpenApiOptions {
  const { engine, settings, dependencies, gate, readOnly } = context
  return {
    version: dependencies.version,
    views: engine.views,
    schemes: gate.access?.schemes ?? [],
    isReadOnly: readOnly !== undefined,
    hasReset: settings.api.reset,
    isJsonServer: settings.api.compatibility === 'json-server',
    useResultObject: settings.api.useResultObject,
    idField: settings.dataStore.idField,
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
      position: engine.readable.views.position,
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
