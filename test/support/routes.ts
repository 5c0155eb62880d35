import type Router from '@koa/router'
import { pino } from 'pino'
import { Access } from '../../src/access/access.ts'
import { PerAddress, TrustedProxies } from '../../src/access/addresses.ts'
import { Failures, Gate } from '../../src/access/gate.ts'
import { Hosts, Origins } from '../../src/access/origins.ts'
import { Tokens } from '../../src/access/tokens.ts'
import { CommandHandler } from '../../src/commands/handler.ts'
import { createApp } from '../../src/http/app.ts'
import { eventResources } from '../../src/http/events.ts'
import { apiResources } from '../../src/http/items.ts'
import { FileStreams } from '../../src/http/statics.ts'
import { Arrivals } from '../../src/projections/arrivals.ts'
import { Past } from '../../src/projections/past.ts'
import { Views } from '../../src/projections/views.ts'
import { Queries } from '../../src/query/queries.ts'
import { LimitedLog } from '../../src/runtime/limited-log.ts'
import { Semaphore, Turns } from '../../src/runtime/turns.ts'
import { storedHistory } from './history.ts'
import { memoryJournal } from './memory-journal.ts'

/** The paths of every router of an app in which all schemes are in use, as they were registered, with their methods. */
export async function registeredRoutes(isJsonServer = false): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
  const now = () => new Date()
  const views = Views.temporary()
  const history = storedHistory(views)
  const journal = memoryJournal('00000000-0000-4000-8000-000000000000', now)
  const past = new Past(journal, views, history)
  const rules = {
    idField: 'id',
    upsertOnPut: false,
    clientIdsOnPost: false,
    itemBytes: 1,
    itemValues: 1,
    patchOperations: 1,
    heldCharacters: 1,
    keyFields: new Map(),
    replacing: new Set<string>(),
    times: new Map(),
    nowMs: Date.now,
    received: () => now().toISOString(),
    latest: new Map(),
    hasSchema: () => false,
    faultsOf: () => [],
  }
  const handler = new CommandHandler({ journal, durable: views.any, rules, now })
  const limits = {
    bytes: 1,
    parameters: 1,
    pageSize: 1,
    scanSeconds: 1,
    bodyBytes: 1,
    itemValues: 1,
    batchBytes: 1,
    batchItems: 1,
  }
  const store = { read: async () => [], write: async () => {} }
  const tokens = await Tokens.open(Buffer.alloc(32), 1, now, store)
  const gate = new Gate({
    access: await Access.open({ schemes: ['token', 'basic', 'apikey'], users: [], apiKeys: [], tokens }),
    failures: new Failures(1, () => 0),
    proxies: new TrustedProxies([]),
    origins: new Origins(undefined),
    hosts: new Hosts(undefined),
    failed: () => {},
  })
  const reload = async () => ({ basis: 0, events: 0, conflicts: [], basedOn: 0 })
  const app = createApp({
    resources: [
      ...apiResources({
        views,
        past,
        queries: new Queries({ views, bytes: 1 }),
        handler,
        journal,
        now,
        hints: { check: () => true },
        isJsonServer,
        limits,
        turns: new Turns(),
        useResultObject: false,
        idField: 'id',
        times: new Map(),
      }),
      ...eventResources({
        journal,
        history: () => history,
        arrivals: new Arrivals(),
        gate,
        limits,
        searches: new Semaphore(2),
        streams: new PerAddress(64),
        waitSeconds: 0,
      }),
    ],
    bodyBytes: 1,
    position: () => 0,
    admin: {
      health: () => ({ status: 'ok' }),
      schemes: [],
      eventTime: {},
      warnings: () => [],
      building: () => undefined,
      reload,
      reloadSettings: async () => ({ users: 0, apiKeys: 0, schemas: [], restartRequired: [] }),
      snapshot: async () => views.position,
      reset: async () => ({ position: 0, events: [] }),
      verify: async () => {},
      handler,
      views,
      past,
      journal,
      now,
      bodyBytes: 1,
    },
    metrics: { text: async () => '', contentType: 'text/plain' },
    observe: () => {},
    docs: { version: '0', views, swaggerAssets: '', schemes: [], streams: new FileStreams(1) },
    gate,
    corsCredentials: false,
    contentSecurityPolicy: '',
    wwwroot: undefined,
    pages: '.',
    builtPages: '.',
    middleware: [],
    log: new LimitedLog(pino({ level: 'silent' }), () => 0),
    newId: () => '',
  })
  const routes = new Map<string, Set<string>>()
  for (const { router } of app.middleware as unknown as { readonly router?: Router }[]) {
    for (const { path, methods } of router?.stack ?? []) {
      const known = routes.get(String(path)) ?? new Set()
      routes.set(String(path), known)
      // A path that answers 405 to all methods is no route.
      if (methods.length <= 5) for (const method of methods) known.add(method)
    }
  }
  return routes
}
