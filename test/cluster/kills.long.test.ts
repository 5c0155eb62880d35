import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { healthOf, type RunningCluster, startCluster } from '../support/cluster.ts'
import { until } from '../support/deadline.ts'
import { allCurrent, withoutNats } from '../support/nats.ts'
import { Random, SEED } from '../support/random.ts'
import type { RunningServer } from '../support/server.ts'
import { Writers } from './writers.ts'

const SECONDS = Number(process.env.CLUSTER_KILL_SECONDS ?? 10)
const WRITERS = 8

test('nats-servers and nodes killed at random: no acknowledged write is lost or doubled, and reads never stop', {
  skip: withoutNats,
}, async (t) => {
  const random = new Random(SEED)
  const cluster = await startCluster(t, { data: { posted: [], put: [] } })
  const alive = new Set<RunningServer>(cluster.nodes)
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

async function killNode(cluster: RunningCluster, alive: Set<RunningServer>, random: Random): Promise<void> {
  const node = random.pick([...alive])
  alive.delete(node)
  await node.stop('SIGKILL')
  await sleep(random.integer(2000))
  alive.add(await cluster.start(node.directory))
}

/** Reads at every node that lives, all the time: each is to be answered, unless the node is killed. */
function readAll(alive: ReadonlySet<RunningServer>): { end(): Promise<number> } {
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
  nodes: readonly RunningServer[],
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

async function stateOf(node: RunningServer, position: number) {
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
