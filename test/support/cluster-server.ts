import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, symlink } from 'node:fs/promises'
import {
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type OutgoingMessage,
  type ServerResponse,
} from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { fetch, once, until } from './deadline.ts'
import type { Scope } from './directory.ts'
import { send } from './requests.ts'
import type { RunningServer, ServerOptions } from './server.ts'

const OTHERS = ['second', 'third']

/** A cluster that looks like one server, so that any test can run against it. */
export type StartOne = (t: Scope, options: ServerOptions) => Promise<RunningServer>

/**
 * Three nodes on the NATS servers that the environment names, and in front of them something that sends each request
 * to another one, and lets reads wait for what was answered before. The first node has the data file, and leads.
 */
export async function startClusterServer(
  t: Scope,
  options: ServerOptions & { readonly directory: string },
  servers: string,
  startOne: StartOne,
): Promise<RunningServer> {
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
  return {
    ...first,
    url: front.url,
    stderr: () => nodes.map((node) => node.stderr()).join(''),
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

function envOf({ env }: ServerOptions): Pick<ServerOptions, 'env'> {
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
