import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { jetstreamManager } from '@nats-io/jetstream'
import { healthOf, type RunningCluster, startCluster } from '../support/cluster.ts'
import { until } from '../support/deadline.ts'
import { connectTo, type NatsServer, withoutNats } from '../support/nats.ts'
import { Random, SEED } from '../support/random.ts'
import { json, type RunningProgram } from '../support/server.ts'

/** A write that was acknowledged, or is still tried. */
interface Write {
  readonly n: number
  readonly key: string
  readonly path: string
  readonly init: RequestInit
  acknowledged?: { readonly id: unknown; readonly position: number; readonly at: number }
}

/** How long one try may take; longer than a node waits for another one. */
const TRY_MS = 20_000
/** How long a write is tried; much longer than the nodes are without a leader. */
const WRITE_DEADLINE_MS = 5 * 60_000

/**
 * Clients that write, each write with an Idempotency-Key of its own, and go on to another node whenever one is
 * gone or says that it cannot.
 */
class Writers {
  readonly writes: Write[] = []
  /** Answers by status; 0 for none. */
  readonly answers = new Map<number, number>()
  readonly #nodes: () => readonly RunningProgram[]
  readonly #random: Random
  #isEnding = false
  #running: Promise<unknown> = Promise.resolve()

  constructor(nodes: () => readonly RunningProgram[], random: Random) {
    this.#nodes = nodes
    this.#random = random
  }

  get acknowledged(): readonly (Write & Required<Pick<Write, 'acknowledged'>>)[] {
    return this.writes.filter((write): write is Write & Required<Pick<Write, 'acknowledged'>> => !!write.acknowledged)
  }

  /** The longest time in which nothing was acknowledged, in milliseconds. */
  get longestPauseMs(): number {
    const times = this.acknowledged.map(({ acknowledged: { at } }) => at).sort((a, b) => a - b)
    return times.reduce((longest, at, index) => Math.max(longest, at - (times[index - 1] ?? at)), 0)
  }

  start(count: number): void {
    this.#running = Promise.all(Array.from({ length: count }, () => this.#write()))
    // `end` then rejects.
    this.#running.catch(() => {})
  }

  /** Every write that was begun is tried until it is acknowledged. */
  async end(): Promise<void> {
    this.#isEnding = true
    await this.#running
  }

  async #write(): Promise<void> {
    while (!this.#isEnding) {
      const write = this.#next()
      this.writes.push(write)
      const lastMs = Date.now() + WRITE_DEADLINE_MS
      while (!(await this.#try(write))) {
        if (Date.now() > lastMs) throw new Error(`write ${write.n} was tried for ${WRITE_DEADLINE_MS / 1000} s in vain`)
        await sleep(50 + this.#random.integer(200))
      }
    }
  }

  #next(): Write {
    const n = this.writes.length
    const key = `write-${n}`
    const headers = { 'Idempotency-Key': key }
    if (this.#random.chance(0.3)) {
      return { n, key, path: `/api/put/p${n}`, init: json('PUT', { id: `p${n}`, n }, headers) }
    }
    return { n, key, path: '/api/posted', init: json('POST', { n }, headers) }
  }

  async #try(write: Write): Promise<boolean> {
    const node = this.#random.pick(this.#nodes())
    try {
      const answer = await node.fetch(write.path, { ...write.init, signal: AbortSignal.timeout(TRY_MS) })
      const body = await answer.text()
      this.#count(answer.status)
      if (answer.status !== 201) return false
      const position = Number(answer.headers.get('journal-position'))
      write.acknowledged = { id: (JSON.parse(body) as { id: unknown }).id, position, at: performance.now() }
      return true
    } catch {
      this.#count(0)
      return false
    }
  }

  #count(status: number): void {
    this.answers.set(status, (this.answers.get(status) ?? 0) + 1)
  }
}

const SECONDS = Number(process.env.CLUSTER_KILL_SECONDS ?? 10)
const WRITERS = 8

test('nats-servers and nodes killed at random: no acknowledged write is lost or doubled, and reads never stop', {
  skip: withoutNats,
}, async (t) => {
  const random = new Random(SEED)
  const cluster = await startCluster(t, { data: { posted: [], put: [] } })
  const alive = new Set<RunningProgram>(cluster.nodes)
  const writers = new Writers(() => [...alive], random)
  const reader = readAll(alive)
  writers.start(WRITERS)
  const killed = { nodes: 0, servers: 0 }
  for (const end = performance.now() + SECONDS * 1000; performance.now() < end; ) {
    await sleep(2000 + random.integer(3000))
    if (random.chance(0.5)) {
      await killNode(cluster, alive, random)
      killed.nodes++
    } else {
      const server = random.pick(cluster.nats)
      await server.stop('SIGKILL')
      await sleep(random.integer(3000))
      server.start()
      killed.servers++
      // Two at once would be a majority.
      await allCurrent(cluster.nats, streamOf(cluster))
    }
  }
  await until('all nodes can have writes stored', async () =>
    (await Promise.all([...alive].map(healthOf))).every(({ status }) => status === 'ok'),
  )
  await until('there is something to check', () => writers.acknowledged.length > 100)
  await writers.end()
  const reads = await reader.end()
  const { acknowledged } = writers
  await check(t, [...alive], writers)
  t.diagnostic(
    `${killed.nodes} nodes and ${killed.servers} nats-servers killed, ${acknowledged.length} writes acknowledged, answers ${JSON.stringify([...writers.answers])}, ${reads} reads; the longest pause of writes was ${Math.round(writers.longestPauseMs)} ms`,
  )
  // 409, 412, 413, 422: nothing of these is so.
  assert.deepEqual(
    [...writers.answers.keys()].filter((status) => ![0, 201, 503, 504].includes(status)),
    [],
  )
  assert.ok(killed.nodes + killed.servers > 0)
})

function streamOf({ flags }: RunningCluster): string {
  return flags[flags.indexOf('--Journal.Stream') + 1] as string
}

async function killNode(cluster: RunningCluster, alive: Set<RunningProgram>, random: Random): Promise<void> {
  const node = random.pick([...alive])
  alive.delete(node)
  await node.stop('SIGKILL')
  await sleep(random.integer(2000))
  alive.add(await cluster.start(node.directory))
}

/** Reads at every node that lives, all the time: each is to be answered, unless the node is killed. */
function readAll(alive: ReadonlySet<RunningProgram>): { end(): Promise<number> } {
  let isEnding = false
  let reads = 0
  const running = (async () => {
    while (!isEnding) {
      for (const node of alive) {
        const answered = await node.fetch('/api/put?pageSize=1').then(
          ({ status }) => status,
          () => 0,
        )
        if (alive.has(node)) assert.equal(answered, 200, 'a node that lives can be read')
        reads++
      }
      await sleep(20)
    }
  })()
  running.catch(() => {})
  return {
    async end() {
      isEnding = true
      await running
      return reads
    },
  }
}

interface Stored {
  readonly id: string | number
  readonly n: number
}

async function check(
  t: TestContext,
  nodes: readonly RunningProgram[],
  { acknowledged, writes }: Writers,
): Promise<void> {
  const last = Math.max(...acknowledged.map(({ acknowledged: { position } }) => position))
  const states = await Promise.all(nodes.map((node) => stateOf(node, last)))
  for (const state of states) assert.deepEqual(state, states[0], 'every node has the same')
  const { posted, put } = states[0] as Awaited<ReturnType<typeof stateOf>>
  const byId = new Map([...posted, ...put].map((item) => [item.id, item]))
  assert.equal(byId.size, posted.length + put.length, 'an id is given once')
  const lost = acknowledged.filter(({ n, acknowledged: { id } }) => byId.get(id as string)?.n !== n)
  assert.deepEqual(lost, [], 'nothing acknowledged is lost')
  const counts = new Map<number, number>()
  for (const { n } of byId.values()) counts.set(n, (counts.get(n) ?? 0) + 1)
  assert.deepEqual(
    [...counts].filter(([, count]) => count > 1),
    [],
    'nothing is stored twice',
  )
  assert.equal(byId.size, acknowledged.length, 'nothing is invented')
  t.diagnostic(`${writes.length} writes, ${nodes.length} nodes with the same ${byId.size} items`)
}

async function stateOf(node: RunningProgram, position: number) {
  const all = async (collection: string): Promise<readonly Stored[]> => {
    const items: Stored[] = []
    for (let page = 1; ; page++) {
      const answer = await node.fetch(`/api/${collection}?page=${page}&pageSize=10000`, {
        headers: { 'Wait-For-Position': String(position) },
      })
      assert.equal(answer.status, 200)
      const some = (await answer.json()) as Stored[]
      items.push(...some)
      if (some.length < 10_000) return items
    }
  }
  return { posted: await all('posted'), put: await all('put') }
}

/** Resolves when every server has all that the stream and the bucket beside it hold, and one of them leads. */
async function allCurrent(servers: readonly NatsServer[], stream: string): Promise<void> {
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
