import type { ChildProcess } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import {
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type OutgoingMessage,
  type ServerResponse,
} from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { fetch, once, until } from './deadline.ts'
import { type Scope, temporaryDirectory } from './directory.ts'
import { type RunningProcess, startProcess } from './process.ts'
import { send } from './requests.ts'

const MAIN = fileURLToPath(new URL('../../dist/main.js', import.meta.url))

/** The collections of the data file with which Recollect starts where there is none. */
export const SAMPLE: Readonly<Record<string, unknown>> = JSON.parse(
  readFileSync(new URL('../../data/sensors.json', import.meta.url), 'utf8'),
)

/** A server, as its clients see it. */
export interface RunningServer {
  readonly url: string
  readonly directory: string
  /** The data file. */
  readonly file: string
  /** The lines of its log. */
  readonly log: () => string
  fetch(path: string, init?: RequestInit): Promise<Response>
  /** Ends it as SIGTERM does, and waits for its end. Resolves with the exit code. */
  stop(): Promise<number | null>
}

/** A server in a process of its own, as a user runs it. */
export interface RunningProgram extends RunningServer {
  readonly process: ChildProcess
  readonly stdout: () => string
  readonly stderr: () => string
  /** Ends the process with a signal and waits for its end. */
  stop(signal?: NodeJS.Signals): Promise<number | null>
}

export interface ServerOptions {
  /** Default: a new one. */
  readonly directory?: string
  /** Written to the data file unless that exists. */
  readonly data?: unknown
  readonly flags?: readonly string[]
}

interface ProgramOptions extends ServerOptions {
  /** No flags but the given ones; the data file and the address are the program's own choice. */
  readonly isBare?: boolean
  readonly env?: NodeJS.ProcessEnv
}

/**
 * Starts the built program on a free port; it ends with the test. Where TEST_CLUSTER names NATS servers, what is
 * started is three nodes on them, which look like one server.
 */
export async function startProgram(t: Scope, options: ProgramOptions = {}): Promise<RunningProgram> {
  const directory = options.directory ?? (await temporaryDirectory(t))
  const { TEST_CLUSTER: servers } = process.env
  if (servers === undefined) return startOne(t, { ...options, directory })
  return startClusterServer(t, { ...options, directory }, servers, startOne)
}

/** The `skip` option of tests that need a single server: the reason, or false. */
export function ofOneServer(why: string): string | false {
  return process.env.TEST_CLUSTER === undefined ? false : why
}

async function startOne(t: Scope, options: ProgramOptions): Promise<RunningProgram> {
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
    log: stderr,
    fetch: (path, init) => fetch(url + path, init),
    async stop(signal = 'SIGTERM') {
      process.kill(signal)
      return (await ended()).code
    },
  }
}

/** Waits until the server has started, or ended: it may listen before, and answers 503 until then. */
export async function storeBuilt(url: string): Promise<void> {
  await until(`the store of ${url}`, async () => {
    const health = await fetch(`${url}/health`).then(
      (response) => response.text(),
      () => '',
    )
    // After the store, the data file is imported. On a full disk the start waits, and tests of that go on.
    const isStarting = health.includes('"status":"unavailable"') && health.includes('"writable":true')
    return !health.includes('"state":"building"') && (!isStarting || health.includes('"state":"full"'))
  })
}

/** A server that may end at any moment, even before it listens. */
export interface SpawnedServer extends RunningProcess {
  /** Waits for its address; undefined when it ends before it listens. */
  listening(): Promise<string | undefined>
}

interface SpawnOptions extends Pick<ProgramOptions, 'flags' | 'isBare' | 'env'> {
  /** A command that runs Node, such as strace with its flags. */
  readonly under?: readonly string[]
  /** Whether the test writes to its standard input. */
  readonly hasInput?: boolean
  /** Flags of Node itself; with any, the server exchanges messages with the test. */
  readonly node?: readonly string[]
}

/** Serves `db.json` of a directory on a free port, until the end of the test. */
export function spawnServer(t: Scope, directory: string, options: SpawnOptions = {}): SpawnedServer {
  const { flags = [], isBare = false, env = {}, under = [], hasInput = false, node = [] } = options
  const own = isBare ? [] : ['--file', join(directory, 'db.json'), '--urls', 'http://127.0.0.1:0']
  const command = [...under, process.execPath, ...node, MAIN, ...own, ...flags]
  const started = startProcess(t, command, { cwd: directory, env, hasInput, ipc: node.length > 0 })
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

/**
 * Flags for segments of so many bytes that stay plain text. By default a server compresses a segment a minute after it is
 * full: a test that reads or compares files of the journal would fail on a machine that takes longer.
 */
export function plainSegments(bytes: number): readonly string[] {
  return ['--Journal.SegmentBytes', String(bytes), '--Journal.Compress', 'off']
}

/** The init of a request that sends JSON. */
export function json(method: string, body: unknown, headers: Record<string, string> = {}): RequestInit {
  return { method, body: JSON.stringify(body), headers: { 'Content-Type': 'application/json', ...headers } }
}

const OTHERS = ['second', 'third']

/** A cluster that looks like one server, so that any test can run against it. */
type StartOne = (t: Scope, options: ProgramOptions) => Promise<RunningProgram>

/**
 * Three nodes on the NATS servers that the environment names, and in front of them something that sends each request
 * to another one, and lets reads wait for what was answered before. The first node has the data file, and leads.
 */
async function startClusterServer(
  t: Scope,
  options: ProgramOptions & { readonly directory: string },
  servers: string,
  startOne: StartOne,
): Promise<RunningProgram> {
  const { directory } = options
  const stream = `test-${createHash('sha256').update(directory).digest('hex').slice(0, 16)}`
  const flags = [
    '--Journal.Type',
    'jetstream',
    '--Journal.Stream',
    stream,
    '--Journal.Servers',
    servers,
    '--Journal.Replicas',
    '1',
    ...(options.flags ?? []),
  ]
  for (const name of OTHERS) await deployTo(join(directory, name), directory)
  const first = await startOne(t, { ...options, flags })
  await until('the first node leads', async () => {
    const { cluster } = (await (await first.fetch('/health')).json()) as { cluster: { role: string } }
    return cluster.role === 'leader'
  })
  const others = await Promise.all(
    OTHERS.map((name) => startOne(t, { directory: join(directory, name), flags, ...envOf(options) })),
  )
  const nodes = [first, ...others]
  const front = await startFront(t, nodes)
  const logs = (): string => nodes.map((node) => node.stderr()).join('')
  return {
    ...first,
    url: front.url,
    stderr: logs,
    log: logs,
    fetch: (path, init) => fetch(front.url + path, init),
    async stop(signal) {
      // The others first: none of them is to take over.
      await Promise.all(others.map((node) => node.stop(signal)))
      const code = await first.stop(signal)
      front.close()
      return code
    },
  }
}

/** The paths that each node serves from its own directory. */
async function deployTo(directory: string, from: string): Promise<void> {
  await mkdir(directory, { recursive: true })
  const [own, its] = [join(from, 'wwwroot'), join(directory, 'wwwroot')]
  if (existsSync(own) && !existsSync(its)) await symlink(own, its)
}

function envOf({ env }: ProgramOptions): Pick<ProgramOptions, 'env'> {
  return env === undefined ? {} : { env }
}

/**
 * Hands each request, and each socket, to another node. It must not be noticed: what a client or a node says goes on
 * at once, a head before its body, and an answer that comes before the request is whole.
 */
async function startFront(t: Scope, nodes: readonly RunningServer[]): Promise<{ url: string; close(): void }> {
  let turn = 0
  let seen = 0
  const next = ({ url = '' }: IncomingMessage): { readonly hostname: string; readonly port: string } => {
    // A Socket.IO session is its node's.
    const hasSession = /^.socket\.io\/.*(transport=polling|sid=)/.test(url)
    return new URL((nodes[hasSession ? 1 : turn++ % nodes.length] as RunningServer).url)
  }

  const handle = (asked: IncomingMessage, answer: ServerResponse): void => {
    const { hostname, port } = next(asked)
    const waits = /^(GET|HEAD) .api\b/.test(`${asked.method} ${asked.url}`)
    const added = waits && asked.headers['wait-for-position'] === undefined ? ['Wait-For-Position', String(seen)] : []
    if (waits) hand()
    // A refusal, too, says a position, which is to be no earlier than what was answered before.
    else caughtUp(hostname, port, seen).then(hand, () => answer.destroy())

    function hand(): void {
      const handed = httpRequest(
        { hostname, port, method: asked.method, path: asked.url, headers: [...asked.rawHeaders, ...added] },
        (came) => {
          seen = Math.max(seen, Number(came.headers['journal-position'] ?? 0))
          answer.writeHead(came.statusCode ?? 502, came.rawHeaders)
          flush(answer, came.rawHeaders)
          came.on('error', () => answer.destroy())
          came.pipe(answer)
        },
      )
      // A node that has answered need not read on.
      handed.on('error', () => answer.headersSent || answer.destroy())
      flush(handed, asked.rawHeaders)
      answer.on('close', () => handed.destroy())
      asked.pipe(handed)
    }
  }
  // Whether a head is too large, or late, the node says.
  const server = createServer({ maxHeaderSize: 1024 * 1024, requestTimeout: 0, headersTimeout: 0 }, handle)
  // The node asks the client to go on, not what stands in front of it.
  server.on('checkContinue', (asked: IncomingMessage, answer: ServerResponse) => {
    answer.writeContinue()
    handle(asked, answer)
  })
  const sockets = new Set<Socket>()
  server.on('upgrade', (asked: IncomingMessage, near: Socket, begun: Buffer) => {
    const { hostname, port } = next(asked)
    const fields = asked.rawHeaders.map((text, index) => (index % 2 === 0 ? `${text}: ` : `${text}\r\n`))
    const hand = (): void => {
      const far = connect(Number(port), hostname)
      far.write(`${asked.method} ${asked.url} HTTP/1.1\r\n${fields.join('')}\r\n`)
      far.write(begun)
      for (const [one, other] of [
        [near, far],
        [far, near],
      ] as const) {
        sockets.add(one)
        one.pipe(other)
        one.on('error', () => other.destroy())
        one.on('close', () => other.destroy())
      }
    }
    near.on('error', () => near.destroy())
    caughtUp(hostname, port, seen).then(hand, () => near.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const close = (): void => {
    server.close()
    server.closeAllConnections()
    for (const socket of sockets) socket.destroy()
  }
  t.after(async () => close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close }
}

/** Sends the head before there is a body. Node would do so in UTF-8, and what is not ASCII came as bytes. */
function flush(message: OutgoingMessage, headers: readonly string[]): void {
  if (headers.every((text) => /^[\t -~]*$/.test(text))) message.flushHeaders()
}

/** Resolves when the node has what was answered before. */
async function caughtUp(hostname: string, port: string, position: number): Promise<void> {
  const headers = { 'Wait-For-Position': String(position) }
  await until(`a node comes to position ${position}`, async () => {
    const { status } = await send(`http://${hostname}:${port}`, 'HEAD', '/api', { headers })
    return status === 200 || status === 401
  })
}
