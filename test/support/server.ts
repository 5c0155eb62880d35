import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { startClusterServer } from './cluster-server.ts'
import { type Scope, temporaryDirectory } from './directory.ts'

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

/** What to give a test as its `skip` when it cannot be asked of several nodes: why, or false. */
export function ofOneServer(why: string): string | false {
  return process.env.TEST_CLUSTER === undefined ? false : why
}

async function startOne(t: Scope, options: ServerOptions): Promise<RunningServer> {
  const directory = options.directory ?? (await temporaryDirectory(t))
  await mkdir(directory, { recursive: true })
  const file = join(directory, 'db.json')
  if (options.data !== undefined && !existsSync(file)) await writeFile(file, JSON.stringify(options.data))
  const own = options.isBare ? [] : ['--file', file, '--urls', 'http://127.0.0.1:0']
  const started = run(t, directory, [...own, ...(options.flags ?? [])], options.env)
  const address = await Promise.race([started.listening, started.ended])
  if (typeof address !== 'string') {
    throw new Error(`the server ended with ${address.code} before it listened:\n${started.stderr()}`)
  }
  return {
    url: address,
    directory,
    file,
    process: started.process,
    stdout: started.stdout,
    stderr: started.stderr,
    fetch: (path, init) => fetch(address + path, init),
    async stop(signal = 'SIGTERM') {
      started.process.kill(signal)
      return (await started.ended).code
    },
  }
}

/** Runs the program until it ends: for starts that are refused. */
export async function runToEnd(
  t: Scope,
  directory: string,
  flags: readonly string[],
  env?: NodeJS.ProcessEnv,
): Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }> {
  const { ended, stdout, stderr } = run(t, directory, flags, env)
  const { code } = await ended
  return { code, stdout: stdout(), stderr: stderr() }
}

function run(t: Scope, directory: string, flags: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const child = spawn(process.execPath, [MAIN, ...flags], {
    cwd: directory,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let out = ''
  let err = ''
  child.stderr.on('data', (bytes) => {
    err += bytes
  })
  const listening = new Promise<string>((resolve) => {
    child.stdout.on('data', (bytes) => {
      out += bytes
      const [url] = /http:\/\/\S+/.exec(out) ?? []
      if (url && out.includes('\n')) resolve(url)
    })
  })
  const ended = once(child, 'close').then(([code]) => ({ code: code as number | null }))
  t.after(async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
    await ended
  })
  return { process: child, listening, ended, stdout: () => out, stderr: () => err }
}

/** The init of a request that sends JSON. */
export function json(method: string, body: unknown, headers: Record<string, string> = {}): RequestInit {
  return { method, body: JSON.stringify(body), headers: { 'Content-Type': 'application/json', ...headers } }
}
