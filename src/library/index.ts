/// <reference lib="esnext.disposable" preserve="true" />
import { readFileSync, statSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Middleware } from 'koa'
import { openLog, standardError } from '../cli/log.ts'
import { CLUSTER } from '../cluster/cluster.ts'
import { mostSimilar } from '../json/similar.ts'
import { MemoryBudget } from '../runtime/memory.ts'
import { platformDependencies, staticFilesOf } from '../server/platform.ts'
import { start as startService } from '../server/service.ts'
import { readSettings, type Settings } from '../settings/settings.ts'

export interface StartOptions {
  /**
   * The path of the data file, which is created if missing, with its journal beside it. Cannot be combined with `data`.
   */
  readonly file?: string | undefined
  /** The initial state of a data file in a temporary directory, which `close` removes. Default: no collections. */
  readonly data?: Readonly<Record<string, object>> | undefined
  /** As in appsettings.json. Environment variables are not read. `Log.Level` is `silent` by default. */
  readonly settings?: Readonly<Record<string, unknown>> | undefined
  /** Default: 0, a free port. */
  readonly port?: number | undefined
  /** Default: 127.0.0.1. */
  readonly host?: string | undefined
  /** Koa middleware, such as the routes of a router. It sees each HTTP request before the server authenticates it. */
  readonly middleware?: readonly KoaMiddleware[] | undefined
}

/** A server in this process. */
export interface RunningServer {
  /** The address, such as `http://127.0.0.1:40123`, without a slash at the end. */
  readonly url: string
  /**
   * Returns to the first data, or to `data` in the form of the data file, with the same next ids as after a start with
   * it: for use between tests. The changes are events, as all others. Resolves with the position of the last one.
   */
  reset(data?: Readonly<Record<string, object>>): Promise<number>
  /**
   * Answers accepted requests, and stops. Rejects with the reason if the server has stopped before, because its journal
   * could not be written.
   */
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

/** The part of Koa's context that middleware uses, for users without `@types/koa`. */
export interface KoaContext {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly state: Record<string, unknown>
  method: string
  url: string
  path: string
  status: number
  body: unknown
  get(field: string): string
  set(field: string, value: string): void
}

interface AnyMiddleware {
  call(context: KoaContext, next: () => Promise<unknown>): unknown
}

/** Parameters of methods are bivariant, so that middleware of Koa and of its routers is accepted. */
export type KoaMiddleware = AnyMiddleware['call']

/** Starts a server in this process. It sets no signal handlers, and never ends the process. */
export async function start(options: StartOptions = {}): Promise<RunningServer> {
  checkOptions(options)
  const { file, data } = options
  if (file !== undefined && data !== undefined) throw new TypeError('file and data exclude each other.')
  if (file !== undefined) return serve(resolve(file), options, async () => {})
  const directory = await mkdtemp(join(tmpdir(), 'recollect-'))
  const remove = (): Promise<void> => rm(directory, { recursive: true, force: true, maxRetries: 3 })
  try {
    const temporary = join(directory, 'db.json')
    await writeFile(temporary, JSON.stringify(data ?? {}))
    return await serve(temporary, options, remove)
  } catch (error) {
    await remove()
    throw error
  }
}

const OPTIONS = ['file', 'data', 'settings', 'port', 'host', 'middleware'] as const satisfies (keyof StartOptions)[]

/** With a misspelt option, programs without types would get a server without collections. */
function checkOptions(options: unknown): void {
  if (typeof options !== 'object' || options === null) {
    throw new TypeError('start takes an object of options, such as {file: "db.json"}.')
  }
  const unknown = Object.keys(options).find((name) => !(OPTIONS as readonly string[]).includes(name))
  if (unknown === undefined) return
  const similar = mostSimilar(unknown, OPTIONS)
  const hint = similar === undefined ? `there are ${OPTIONS.join(', ')}.` : `did you mean ${similar}?`
  throw new TypeError(`start has no option ${JSON.stringify(unknown)}; ${hint}`)
}

async function serve(file: string, options: StartOptions, remove: () => Promise<void>): Promise<RunningServer> {
  const settings = settingsOf(file, options)
  let failure: { readonly error: unknown } | undefined
  let end: (() => Promise<void>) | undefined
  const service = await startService(
    settings,
    platformDependencies({
      remoteJournal: CLUSTER,
      readSettings: () => settingsOf(file, options),
      log: openLog(settings.log, {
        write: standardError(),
        isTerminal: false,
        hasColours: false,
      }),
      wwwroot: staticFilesOf(settings),
      memory: new MemoryBudget(settings.limits.memoryBytes),
      ownsProcess: false,
      middleware: (options.middleware ?? []) as readonly Middleware[],
      failed: (error) => {
        failure ??= { error }
        end?.().catch(() => {})
      },
    }),
  )
  let ending: Promise<void> | undefined
  end = () => {
    ending ??= service.close().finally(remove)
    return ending
  }
  const close = async (): Promise<void> => {
    await end().catch((error: unknown) => {
      failure ??= { error }
    })
    if (failure) throw failure.error
  }
  if (failure) await close()
  const reset = (data?: object): Promise<number> =>
    service.reset(data === undefined ? undefined : Buffer.from(JSON.stringify(data)))
  return { url: service.urls[0] + settings.http.basePath, reset, close, [Symbol.asyncDispose]: close }
}

/** The name of the option in messages, in place of the path of a configuration file. */
const SETTINGS = 'settings'

function settingsOf(file: string, { settings = {}, host = '127.0.0.1', port = 0 }: StartOptions): Settings {
  const flags: Readonly<Record<string, string>> = { file, host, port: String(port), settings: SETTINGS }
  const text = JSON.stringify({ ...settings, Log: withLevel(settings.Log) })
  return readSettings(
    { isText: true, subject: (name) => name, entries: new Map(), text: (name) => flags[name], has: () => false },
    {
      env: {},
      absolute: (path) => (path === SETTINGS ? path : resolve(path)),
      packagedSettings: '',
      remoteJournal: CLUSTER,
      readText: (path) => (path === SETTINGS ? text : textAt(path)),
    },
  )
}

function withLevel(log: unknown): unknown {
  return log === undefined || (typeof log === 'object' && log !== null) ? { Level: 'silent', ...log } : log
}

function textAt(path: string): string | undefined {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ? readFileSync(path, 'utf8') : undefined
}
