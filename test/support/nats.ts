import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { until, within } from './deadline.ts'
import { type Scope, temporaryDirectory } from './directory.ts'
import { freePort, type RunningProcess, startProcess } from './process.ts'

const PATHS = [process.env.NATS_SERVER, '/usr/sbin/nats-server', '/usr/local/bin/nats-server']
const BINARY = PATHS.find((path) => path !== undefined && existsSync(path))

/** The `skip` option of tests that need NATS: the reason, or false. */
export const withoutNats: string | false =
  BINARY === undefined ? 'nats-server is missing (apt-get install nats-server)' : false

/** One nats-server, which may be ended and started again on what it has on disk. */
export class NatsServer {
  readonly url: string
  readonly port: number
  readonly #config: string
  readonly #within: readonly string[]
  readonly #t: Scope
  readonly #runs: RunningProcess[] = []

  constructor(t: Scope, port: number, config: string, address = '127.0.0.1', within: readonly string[] = []) {
    this.#t = t
    this.port = port
    this.url = `nats://${address}:${port}`
    this.#config = config
    this.#within = within
  }

  get log(): string {
    return this.#runs.map(({ stderr }) => stderr()).join('')
  }

  start(): void {
    this.#runs.push(startProcess(this.#t, [...this.#within, BINARY as string, '-c', this.#config]))
  }

  signal(signal: NodeJS.Signals): void {
    this.#runs.at(-1)?.process.kill(signal)
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    const run = this.#runs.at(-1)
    run?.process.kill(signal)
    if (signal !== 'SIGKILL') run?.process.kill('SIGCONT')
    await run?.ended()
  }
}

interface NatsOptions {
  /** One, or three that are a cluster. */
  readonly servers?: 1 | 3
  /** `max_payload`, in bytes. */
  readonly maxPayload?: number
  /** More lines of their settings. */
  readonly config?: readonly string[]
  /** The network namespace in which they run, and the address of each; default: this machine. */
  readonly namespace?: { readonly within: readonly string[]; readonly cables: readonly { readonly address: string }[] }
}

/** nats-servers with JetStream on temporary directories and free ports of the loopback; they end with the test. */
export async function startNats(
  t: Scope,
  { servers = 1, maxPayload, config: more = [], namespace }: NatsOptions = {},
): Promise<readonly NatsServer[]> {
  const directory = await temporaryDirectory(t)
  const ports: number[] = []
  while (ports.length < servers * 2) ports.push(await freePort())
  const routes = ports.slice(servers).map((port) => `nats-route://127.0.0.1:${port}`)
  const started: NatsServer[] = []
  for (let index = 0; index < servers; index++) {
    const name = `n${index + 1}`
    const store = join(directory, name)
    await mkdir(store)
    const config = join(directory, `${name}.conf`)
    const lines = [
      `server_name: ${name}`,
      `listen: "${namespace ? '0.0.0.0' : '127.0.0.1'}:${ports[index]}"`,
      `jetstream { store_dir: "${store}", max_file_store: 4G, max_memory_store: 256M }`,
      ...(maxPayload === undefined ? [] : [`max_payload: ${maxPayload}`]),
      ...more,
      ...(servers === 1
        ? []
        : [
            `cluster { name: test, listen: "127.0.0.1:${ports[servers + index]}", no_advertise: true, routes: [${routes.join(', ')}] }`,
          ]),
    ]
    await writeFile(config, `${lines.join('\n')}\n`)
    const address = namespace?.cables[index]?.address
    const server = new NatsServer(t, ports[index] as number, config, address, namespace?.within)
    server.start()
    started.push(server)
  }
  await until('JetStream is ready', async () => {
    // Who may ask them is for the test to know.
    if (more.length > 0) return started.every(({ log }) => log.includes('Server is ready'))
    try {
      const nc = await connect({ servers: started.map(({ url }) => url), reconnect: false, timeout: 1000 })
      try {
        // A leader that was just elected does not know all servers yet, and places no stream on them.
        const { streams } = await jetstreamManager(nc, { timeout: 1000 })
        await streams.add({ name: 'ready', subjects: ['ready'], num_replicas: servers })
        return await streams.delete('ready')
      } finally {
        await nc.close()
      }
    } catch {
      return false
    }
  })
  return started
}

/** A connection that finds its way back by itself. */
export function connectTo(servers: readonly NatsServer[]): Promise<NatsConnection> {
  const connecting = connect({
    servers: servers.map(({ url }) => url),
    maxReconnectAttempts: -1,
    reconnectTimeWait: 200,
  })
  return within('a connection to NATS', connecting)
}
