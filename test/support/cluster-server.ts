import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { Scope } from './directory.ts'
import type { RunningServer, ServerOptions } from './server.ts'
import { until } from './until.ts'

/** A cluster that looks like one server, so that any test can run against it. */
export type StartOne = (t: Scope, options: ServerOptions) => Promise<RunningServer>

/**
 * Three nodes on the NATS servers that the environment names, and in front of them something that sends each request
 * to another one, and lets reads wait for what was answered before. The first node has the data file, and decides.
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
  const first = await startOne(t, { ...options, flags })
  await until('the first node decides', async () => {
    const { cluster } = (await (await first.fetch('/health')).json()) as { cluster: { role: string } }
    return cluster.role === 'decider'
  })
  const others = await Promise.all(
    ['second', 'third'].map((name) => startOne(t, { directory: join(directory, name), flags, ...envOf(options) })),
  )
  const nodes = [first, ...others]
  const front = await startFront(t, nodes)
  return {
    ...first,
    url: front.url,
    fetch: (path, init) => fetch(front.url + path, init),
    async stop(signal) {
      front.close()
      // The others first: none of them is to take over.
      await Promise.all(others.map((node) => node.stop(signal)))
      return first.stop(signal)
    },
  }
}

function envOf({ env }: ServerOptions): Pick<ServerOptions, 'env'> {
  return env === undefined ? {} : { env }
}

async function startFront(t: Scope, nodes: readonly RunningServer[]): Promise<{ url: string; close(): void }> {
  let turn = 0
  let seen = 0
  const handle = (asked: IncomingMessage, answer: ServerResponse): void => {
    const node = nodes[turn++ % nodes.length] as RunningServer
    const isRead = asked.method === 'GET' || asked.method === 'HEAD'
    const waiting = ['Wait-For-Position', String(seen)]
    const added = isRead && asked.headers['wait-for-position'] === undefined ? waiting : []
    const { hostname, port } = new URL(node.url)
    if (isRead) {
      hand()
      return
    }
    // A refusal, too, says a position, which is to be no earlier than what was answered before.
    const caughtUp = httpRequest({ hostname, port, method: 'HEAD', path: '/api', headers: waiting }, (came) => {
      came.resume()
      came.on('end', hand)
    })
    caughtUp.on('error', () => answer.destroy())
    caughtUp.end()

    function hand(): void {
      const handed = httpRequest(
        { hostname, port, method: asked.method, path: asked.url, headers: [...asked.rawHeaders, ...added] },
        (came) => {
          seen = Math.max(seen, Number(came.headers['journal-position'] ?? 0))
          answer.writeHead(came.statusCode ?? 502, came.rawHeaders)
          came.pipe(answer)
        },
      )
      handed.on('error', () => answer.destroy())
      answer.on('close', () => handed.destroy())
      asked.pipe(handed)
    }
  }
  const server = createServer(handle)
  // The node asks the client to go on, not what stands in front of it.
  server.on('checkContinue', (asked: IncomingMessage, answer: ServerResponse) => {
    answer.writeContinue()
    handle(asked, answer)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const close = (): void => {
    server.close()
    server.closeAllConnections()
  }
  t.after(async () => close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close }
}
