import type { ChildProcess } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { startClusterServer } from './cluster-server.ts'
import { fetch, until } from './deadline.ts'
import { type Scope, temporaryDirectory } from './directory.ts'
import { type RunningProcess, startProcess } from './process.ts'

const MAIN = fileURLToPath(new URL('../../dist/main.js', import.meta.url))

/** A server in a process of its own, as a user runs it. */
export interface RunningServer {
  readonly url: string
  readonly directory: string
  /** The data file. */
  readonly file: string
  readonly process: ChildProcess
  readonly stdout: () => string
  readonly stderr: () => string
  fetch(path: string, init?: RequestInit): Promise<Response>
  /** Ends the process with a signal and waits for its end. */
  stop(signal?: NodeJS.Signals): Promise<number | null>
}

export interface ServerOptions {
  /** Default: a new one. */
  readonly directory?: string
  /** Written to the data file unless that exists. */
  readonly data?: unknown
  readonly flags?: readonly string[]
  /** No flags but the given ones; the data file and the address are the program's own choice. */
  readonly isBare?: boolean
  readonly env?: NodeJS.ProcessEnv
}

/**
 * Starts the built program on a free port; it ends with the test. Where TEST_CLUSTER names NATS servers, what is
 * started is three nodes on them, which look like one server.
 */
export async function startServer(t: Scope, options: ServerOptions = {}): Promise<RunningServer> {
  const directory = options.directory ?? (await temporaryDirectory(t))
  const { TEST_CLUSTER: servers } = process.env
  if (servers === undefined) return startOne(t, { ...options, directory })
  return startClusterServer(t, { ...options, directory }, servers, startOne)
}

/** The `skip` option of tests that need a single server: the reason, or false. */
export function ofOneServer(why: string): string | false {
  return process.env.TEST_CLUSTER === undefined ? false : why
}

async function startOne(t: Scope, options: ServerOptions): Promise<RunningServer> {
  const directory = options.directory ?? (await temporaryDirectory(t))
  await mkdir(directory, { recursive: true })
  const file = join(directory, 'db.json')
  if (options.data !== undefined && !existsSync(file)) await writeFile(file, JSON.stringify(options.data))
  const { process, stdout, stderr, listening, ended } = spawnServer(t, directory, options)
  const url = await listening()
  if (url === undefined)
    throw new Error(`the server ended with ${(await ended()).code} before it listened:\n${stderr()}`)
  await storeBuilt(url)
  return {
    url,
    directory,
    file,
    process,
    stdout,
    stderr,
    fetch: (path, init) => fetch(url + path, init),
    async stop(signal = 'SIGTERM') {
      process.kill(signal)
      return (await ended()).code
    },
  }
}

/** Waits until the server has started: it may listen before, and answers 503 until then. */
export async function storeBuilt(url: string): Promise<void> {
  await until(`the store of ${url}`, async () => {
    const health = await fetch(`${url}/health`).then(
      (response) => response.text(),
      () => '',
    )
    // After the store, the data file is imported.
    const isImporting = health.includes('"status":"unavailable"') && health.includes('"writable":true')
    return !health.includes('"state":"building"') && !isImporting
  })
}

/** A server that may end at any moment, even before it listens. */
export interface SpawnedServer extends RunningProcess {
  /** Waits for its address; undefined when it ends before it listens. */
  listening(): Promise<string | undefined>
}

export interface SpawnOptions extends Pick<ServerOptions, 'flags' | 'isBare' | 'env'> {
  /** A command that runs Node, such as strace with its flags. */
  readonly under?: readonly string[]
  /** Flags of Node itself; with any, the server exchanges messages with the test. */
  readonly node?: readonly string[]
}

/** Serves `db.json` of a directory on a free port, until the end of the test. */
export function spawnServer(t: Scope, directory: string, options: SpawnOptions = {}): SpawnedServer {
  const { flags = [], isBare = false, env = {}, under = [], node = [] } = options
  const own = isBare ? [] : ['--file', join(directory, 'db.json'), '--urls', 'http://127.0.0.1:0']
  const command = [...under, process.execPath, ...node, MAIN, ...own, ...flags]
  const started = startProcess(t, command, { cwd: directory, env, ipc: node.length > 0 })
  return { ...started, listening: async () => (await started.printed(/(http:\/\/\S+).*\n/))?.[1] }
}

/** Runs the program until it ends. */
export async function runToEnd(
  t: Scope,
  directory: string,
  flags: readonly string[],
  env?: NodeJS.ProcessEnv,
): Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }> {
  const { ended, stdout, stderr } = spawnServer(t, directory, { isBare: true, flags, ...(env && { env }) })
  const { code } = await ended()
  return { code, stdout: stdout(), stderr: stderr() }
}

/** The init of a request that sends JSON. */
export function json(method: string, body: unknown, headers: Record<string, string> = {}): RequestInit {
  return { method, body: JSON.stringify(body), headers: { 'Content-Type': 'application/json', ...headers } }
}
