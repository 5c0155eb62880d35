import type { TestContext } from 'node:test'
import type { Credentials } from '../../src/client/index.ts'
import { authentication, keyOf, passwordOf, tokenOf } from '../support/authentication.ts'
import { fetch, within } from '../support/deadline.ts'
import type { Scope } from '../support/directory.ts'
import * as line from '../support/listeners.ts'
import { startReverseProxy } from '../support/proxies.ts'
import * as process from '../support/server.ts'
import * as service from '../support/service.ts'

// Servers and connections for the client's tests. The tests run in Node and in a page. The page's `in-browser/host.ts`
// sends each call to this module: arguments and results are JSON, or objects of asynchronous methods.

// The client calls the global `fetch`: its requests get the deadline of other requests.
globalThis.fetch = fetch as typeof globalThis.fetch

/** A server, and other clients of it. */
export interface Server {
  readonly url: string
  readonly directory: string
  /** Sends JSON, and returns the status. */
  send(method: string, path: string, body?: unknown): Promise<number>
  /** The text that a GET returns. */
  get(path: string): Promise<string>
  stop(): Promise<unknown>
}

/** A server in a process of its own. */
export interface Program extends Server {
  kill(): Promise<unknown>
}

/** Carries connections to a server, until it is cut. */
export interface Line {
  readonly url: string
  /** Leads to another server from now on. Connections stay as they are. */
  aim(url: string): Promise<void>
  /** Ends every connection, and accepts no new one until it is mended. */
  cut(): Promise<void>
  mend(): Promise<void>
  /** Whether it holds back what the server sends. */
  stall(isStalled: boolean): Promise<void>
  /** The number of connections that it carries. */
  carried(): Promise<number>
}

export type Scheme = 'token' | 'basic' | 'apikey'
type Role = Parameters<typeof passwordOf>[0]

export async function startServer(t: Scope, options: process.ServerOptions = {}): Promise<Server> {
  return seenByClients(await service.startServer(t, options))
}

export async function startProgram(t: Scope, options: process.ServerOptions = {}): Promise<Program> {
  const program = await process.startProgram(t, options)
  return { ...seenByClients(program), kill: () => program.stop('SIGKILL') }
}

function seenByClients(server: process.RunningServer): Server {
  return {
    url: server.url,
    directory: server.directory,
    send: async (method, path, body) =>
      (await server.fetch(path, body === undefined ? { method } : process.json(method, body))).status,
    get: async (path) => (await server.fetch(path)).text(),
    stop: () => server.stop(),
  }
}

export async function lineTo(t: Scope, url: string): Promise<Line> {
  const carrier = await line.lineTo(t, url)
  return {
    url: carrier.url,
    aim: async (target) => carrier.aim(target),
    cut: () => carrier.cut(),
    mend: () => carrier.mend(),
    stall: async (isStalled) => carrier.stall(isStalled),
    carried: async () => carrier.carried,
  }
}

/** A proxy without WebSockets, which serves the server below a path. Returns the address of that path. */
export function startProxy(t: Scope, url: string): Promise<string> {
  return startReverseProxy(t, url, { prefix: '/deep/down', strips: true, webSockets: false })
}

/** A server with a reader, a writer and an admin. */
export interface GuardedServer {
  readonly url: string
  credentialsOf(scheme: Scheme, role: Role): Promise<Credentials>
  /** Moves its clock forward. */
  advance(ms: number): Promise<void>
}

export async function startGuarded(
  t: Scope,
  data: Readonly<Record<string, unknown>>,
  schemes: readonly Scheme[],
  flags: readonly string[] = [],
): Promise<GuardedServer> {
  let passedMs = 0
  const { url } = await service.startHere(t, {
    data,
    flags: authentication(schemes, flags),
    now: () => new Date(Date.now() + passedMs),
  })
  return {
    url,
    credentialsOf: async (scheme, role) => {
      if (scheme === 'token') return { token: await tokenOf(url, role) }
      return scheme === 'apikey' ? { apiKey: keyOf(role) } : { username: role, password: passwordOf(role) }
    },
    advance: async (ms) => {
      passedMs += ms
    },
  }
}

/** The next error that nothing catches. */
export function uncaughtError(t: Pick<TestContext, 'after'>): Promise<unknown> {
  const error = new Promise((resolve) => {
    globalThis.process.setUncaughtExceptionCaptureCallback(resolve)
    t.after(() => globalThis.process.setUncaughtExceptionCaptureCallback(null))
  })
  return within('an error that nothing catches', error)
}
