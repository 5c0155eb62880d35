import { type SpawnSyncReturns, spawnSync } from 'node:child_process'
import { randomBytes, randomInt } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { DEADLINE_MS, until, within } from './deadline.ts'
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
  /** Where they are, and what each is reached by; default: here. */
  readonly namespace?: Namespace
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

/** Resolves when every server has all that the stream and the bucket beside it hold, and one of them leads. */
export async function allCurrent(servers: readonly NatsServer[], stream: string): Promise<void> {
  const nc = await connectTo(servers)
  try {
    const jsm = await jetstreamManager(nc, { timeout: 1000, checkAPI: false })
    for (const name of [stream, `KV_${stream}-cluster`]) {
      await until(`${name} is whole again`, async () => {
        const { cluster } = await jsm.streams.info(name).catch(() => ({ cluster: undefined }))
        const { leader, replicas = [] } = cluster ?? {}
        return (
          leader !== undefined && replicas.length === servers.length - 1 && replicas.every(({ current }) => current)
        )
      })
    }
  } finally {
    await nc.close()
  }
}

/** The direction that a cable loses: packets into the namespace, out of it, or both. */
export type Loss = 'sent' | 'answered' | 'both'

/** A cable between this machine and the namespace. */
interface Cable {
  /** The address of the end within the namespace. */
  readonly address: string
  /** From now on packets are dropped: nothing is reset or refused, and neither end is told. */
  cut(loss: Loss): void
  /** Packets come through again, also those that are sent again of connections that were cut. */
  heal(): void
}

/** A network namespace, which is like a machine of its own beside this one. */
interface Namespace {
  /** The beginning of a command that runs within the namespace. */
  readonly within: readonly string[]
  readonly cables: readonly Cable[]
}

/** Why there can be no namespaces here; undefined when there can. They need root, and `ip` and `tc` of iproute2. */
export function withoutNamespaces(): string | undefined {
  const name = `recollect-${randomBytes(4).toString('hex')}`
  const { status, stderr, error } = run('ip', 'netns', 'add', name)
  if (status === 0) run('ip', 'netns', 'del', name)
  const why = error?.message ?? String(stderr).trim()
  return status === 0 ? undefined : `no network namespaces here (root, apt-get install iproute2): ${why}`
}

/** A namespace with so many cables; it ends with the test. */
export function startNamespace(t: Scope, count: number): Namespace {
  const id = randomBytes(3).toString('hex')
  const name = `recollect-${id}`
  // These addresses are reserved for tests of networks (RFC 2544).
  const network = `198.18.${randomInt(256)}`
  must('ip', 'netns', 'add', name)
  t.after(async () => void run('ip', 'netns', 'del', name))
  must('ip', '-n', name, 'link', 'set', 'lo', 'up')
  const cables = Array.from({ length: count }, (_, index): Cable => {
    const [near, far] = [`rc${id}${index}a`, `rc${id}${index}b`]
    const [ours, address] = [`${network}.${index * 4 + 1}`, `${network}.${index * 4 + 2}`]
    must('ip', 'link', 'add', near, 'type', 'veth', 'peer', 'name', far, 'netns', name)
    must('ip', 'addr', 'add', `${ours}/30`, 'dev', near)
    must('ip', '-n', name, 'addr', 'add', `${address}/30`, 'dev', far)
    must('ip', 'link', 'set', near, 'up')
    must('ip', '-n', name, 'link', 'set', far, 'up')
    // A queue that holds nothing drops what is put into it.
    const drop = ['root', 'pfifo', 'limit', '0']
    return {
      address,
      cut(loss) {
        if (loss !== 'answered') must('tc', 'qdisc', 'replace', 'dev', near, ...drop)
        if (loss !== 'sent') must('tc', '-n', name, 'qdisc', 'replace', 'dev', far, ...drop)
      },
      heal() {
        run('tc', 'qdisc', 'del', 'dev', near, 'root')
        run('tc', '-n', name, 'qdisc', 'del', 'dev', far, 'root')
      },
    }
  })
  return { within: ['ip', 'netns', 'exec', name], cables }
}

function must(...command: readonly [string, ...string[]]): void {
  const { status, stderr } = run(...command)
  if (status !== 0) throw new Error(`${command.join(' ')}: ${stderr}`)
}

function run(command: string, ...args: readonly string[]): SpawnSyncReturns<Buffer> {
  return spawnSync(command, args, { timeout: DEADLINE_MS })
}
