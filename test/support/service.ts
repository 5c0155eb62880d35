import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { mock } from 'node:test'
import type Router from '@koa/router'
import type { Middleware } from 'koa'
import Koa from 'koa'
import { pino } from 'pino'
import { parseInvocation } from '../../src/cli/invocation.ts'
import { CLUSTER } from '../../src/cluster/cluster.ts'
import type { RemoteJournal } from '../../src/engine/remote-journal.ts'
import type { Files } from '../../src/files/files.ts'
import { MemoryBudget } from '../../src/runtime/memory.ts'
import { packaged, platformDependencies, staticFilesOf } from '../../src/server/platform.ts'
import { start } from '../../src/server/service.ts'
import { authentication } from './authentication.ts'
import { fetch, within } from './deadline.ts'
import { type Scope, temporaryDirectory } from './directory.ts'
import { type RunningServer, type ServerOptions, startProgram, storeBuilt } from './server.ts'

/** The whole service within the test's own process, where what it does to the language itself can be seen. */
export interface OwnService {
  readonly url: string
  readonly directory: string
  /** The data file. */
  readonly file: string
  /** The lines of its log. */
  readonly log: readonly string[]
  /** The errors that would have ended the process. */
  readonly failures: readonly unknown[]
  fetch(path: string, init?: RequestInit): Promise<Response>
  /** Ends it as SIGTERM does. Resolves with the exit code that the program would have. */
  stop(): Promise<0>
}

export interface OwnServiceOptions {
  readonly data?: unknown
  readonly flags?: readonly string[]
  /** Its clock; default: the machine's. */
  readonly now?: () => Date
  /** Its monotonic clock; default: the machine's. */
  readonly elapsedMs?: () => number
  /** Its file system; default: the machine's. */
  readonly files?: Files
  /** Its static files; default: those that the flags or its directory have. */
  readonly wwwroot?: string
  /** Default: none. */
  readonly middleware?: readonly Middleware[]
  /** The journal that is not in local files; default: that of a cluster. */
  readonly remoteJournal?: RemoteJournal
  /** Where data file and journal are; default: a new one. */
  readonly directory?: string
  /** Whether to wait, with GET /health, until the store is built; default: true. */
  readonly waitsForStore?: boolean
  /** After how many milliseconds it calls back; default: as it is asked to. */
  readonly delay?: (delayMs: number) => number
}

/** Starts it on a free port, with the settings that the flags make; it ends with the test. */
export async function startHere(t: Scope, options: OwnServiceOptions = {}): Promise<OwnService> {
  const ends: (() => Promise<unknown>)[] = []
  const directory = options.directory ?? (await temporaryDirectory({ after: (end) => void ends.push(end) }))
  await mkdir(directory, { recursive: true })
  const file = join(directory, 'db.json')
  if (options.data !== undefined && !existsSync(file)) await writeFile(file, JSON.stringify(options.data))
  const { remoteJournal = CLUSTER } = options
  const readSettings = () => {
    const invoked = parseInvocation({
      argv: ['--file', file, '--urls', 'http://127.0.0.1:0', ...(options.flags ?? [])],
      env: {},
      absolute: (path) => resolve(directory, path),
      packagedSettings: packaged('appsettings.json'),
      remoteJournal,
      readText: (path) => (existsSync(path) ? readFileSync(path, 'utf8') : undefined),
    })
    if (invoked.type !== 'serve') throw new Error('these flags serve nothing')
    return invoked.settings
  }
  const settings = readSettings()
  const log: string[] = []
  const failures: unknown[] = []
  const platform = platformDependencies({
    log: pino({ level: settings.log.level, base: null }, { write: (line) => log.push(line) }),
    remoteJournal,
    readSettings,
    wwwroot: options.wwwroot ?? staticFilesOf(settings) ?? join(directory, settings.staticDefault),
    memory: new MemoryBudget(settings.limits.memoryBytes),
    ownsProcess: false,
    middleware: options.middleware ?? [],
    failed: (error) => failures.push(error),
  })
  const { files = platform.files, now = platform.now, elapsedMs = platform.elapsedMs, delay } = options
  const schedule: typeof platform.schedule = delay
    ? (work, delayMs) => platform.schedule(work, delay(delayMs))
    : platform.schedule
  const service = await start(settings, { ...platform, files, now, elapsedMs, schedule })
  let ending: Promise<0> | undefined
  const stop = (): Promise<0> => {
    ending ??= within('the end of the service', service.close()).then(() => 0)
    return ending
  }
  t.after(async () => {
    // Its directory may have gone before it.
    await stop().catch((error) => existsSync(directory) && Promise.reject(error))
    for (const end of ends) await end()
  })
  const url = service.urls[0] as string
  if (options.waitsForStore !== false) await storeBuilt(url)
  return { url, directory, file, log, failures, stop, fetch: (path, init) => fetch(url + path, init) }
}

/**
 * Starts the service on a free port, in the test's own process, which costs no start of Node. It ends with the test, which
 * fails if something would have ended the program. Where TEST_CLUSTER names NATS servers, it is `startProgram`.
 */
export async function startServer(t: Scope, options: ServerOptions = {}): Promise<RunningServer> {
  if (process.env.TEST_CLUSTER !== undefined) return startProgram(t, options)
  const { log, failures, ...server } = await startHere(t, options)
  t.after(async () => assert.deepEqual(failures, [], 'what would have ended the program'))
  return { ...server, log: () => log.join('') }
}

/** The paths that a service in which all schemes are in use has registered with Koa, with their methods. */
export async function registeredRoutes(
  t: Scope,
  flags: readonly string[] = [],
): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
  const use = mock.method(Koa.prototype, 'use')
  await startHere(t, {
    data: {},
    flags: [...authentication(['token', 'basic', 'apikey']), '--Api.Reset', 'true', ...flags],
  })
  use.mock.restore()
  const routes = new Map<string, Set<string>>()
  for (const [middleware] of use.mock.calls.map((call) => call.arguments)) {
    const { router } = middleware as { readonly router?: Router }
    for (const { path, methods } of router?.stack ?? []) {
      const known = routes.get(String(path)) ?? new Set()
      routes.set(String(path), known)
      // A path that answers 405 to all methods is no route.
      if (methods.length <= 5) for (const method of methods) known.add(method)
    }
  }
  return routes
}
