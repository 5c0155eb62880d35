import assert from 'node:assert/strict'
import { type SpawnSyncReturns, spawnSync } from 'node:child_process'
import { randomBytes, randomInt } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { healthOf, rolesOf, startCluster } from '../support/cluster.ts'
import { DEADLINE_MS, until } from '../support/deadline.ts'
import type { Scope } from '../support/directory.ts'
import { type NatsServer, startNats, withoutNats } from '../support/nats.ts'
import { startProxy } from '../support/proxies.ts'
import { Random, SEED } from '../support/random.ts'
import { json, type RunningProgram } from '../support/server.ts'

const skip = withoutNats

async function statusOf(answer: Promise<Response>): Promise<number> {
  const { status } = await answer
  return status
}

/** Writes until it is acknowledged. */
async function written(node: RunningProgram, path: string, init: () => RequestInit): Promise<Response> {
  return until(`${path} is written`, async () => {
    const answer = await node.fetch(path, init())
    return answer.status < 300 && answer
  })
}

interface Cut {
  cut(loss: Loss): void
  heal(): void
}

/** nats-servers, and a way to each that can be cut: a cable, where there can be one, else a proxy. */
async function natsWithCuts(t: TestContext): Promise<{ nats: readonly NatsServer[]; urls: string[]; cuts: Cut[] }> {
  const why = withoutNamespaces()
  if (why === undefined) {
    const namespace = startNamespace(t, 3)
    const nats = await startNats(t, { servers: 3, namespace })
    return { nats, urls: nats.map(({ url }) => url), cuts: [...namespace.cables] }
  }
  assert.notEqual(process.env.CI, 'true', why)
  t.diagnostic(`cut by a proxy: ${why}`)
  const nats = await startNats(t, { servers: 3 })
  const proxies = await Promise.all(nats.map(({ port }) => startProxy(t, port)))
  return { nats, urls: proxies.map(({ port }) => `nats://127.0.0.1:${port}`), cuts: proxies }
}

const LOSSES: readonly Loss[] = ['both', 'sent', 'answered']
const random = new Random(SEED)
const losses = (process.env.CLUSTER_LOSSES?.split(',') as Loss[] | undefined) ?? [random.pick(LOSSES)]

for (const loss of losses) {
  test(`a leader that is cut off from NATS (${loss}) acknowledges nothing, rejects nothing that others accept, and catches up`, {
    skip,
  }, async (t) => {
    const { nats, urls, cuts } = await natsWithCuts(t)
    const { nodes } = await startCluster(t, {
      nats,
      data: { things: [{ id: 'old', n: 0 }] },
      urls: (node) => [urls[node] as string],
    })
    const { leader, followers } = await rolesOf(nodes)
    const [follower] = followers as [RunningProgram]
    await written(leader, '/api/things/old', () => json('PUT', { id: 'old', n: 1 }))
    const tag = (await leader.fetch('/api/things/old')).headers.get('etag') as string

    cuts[nodes.indexOf(leader)]?.cut(loss)
    const late: Promise<number>[] = []
    let isCut = true
    t.after(() => {
      isCut = false
    })
    const writing = (async () => {
      for (let n = 0; isCut; n++) {
        late.push(statusOf(leader.fetch('/api/late', json('POST', { n }))))
        await sleep(200)
      }
    })()
    await written(follower, '/api/things/new', () => json('PUT', { id: 'new', n: 1 }))
    await written(follower, '/api/things/old', () => json('PUT', { id: 'old', n: 2 }))
    // It cannot know of the new item, and so must not say that there is none.
    assert.equal(await statusOf(leader.fetch('/api/things/new', { method: 'DELETE' })), 503)
    assert.equal(await statusOf(leader.fetch('/api/things/old', json('PUT', { n: 3 }, { 'If-Match': tag }))), 503)
    assert.equal(await statusOf(leader.fetch('/health')), 503)
    assert.equal(await statusOf(leader.fetch('/api/things/old')), 200, 'it can still be read')
    isCut = false
    await writing
    const statuses = await Promise.all(late)
    assert.deepEqual(
      [...new Set(statuses)].filter((status) => status !== 503 && status !== 504),
      [],
    )

    cuts[nodes.indexOf(leader)]?.heal()
    await written(leader, '/api/things/healed', () => json('PUT', { id: 'healed' }))
    const { position } = await healthOf(leader)
    const states = await Promise.all(
      nodes.map(async (node) =>
        (await node.fetch('/api/things', { headers: { 'Wait-For-Position': String(position) } })).text(),
      ),
    )
    assert.equal(new Set(states).size, 1)
    const events = await Promise.all(nodes.map(async (node) => (await node.fetch('/events?limit=10000')).text()))
    assert.equal(new Set(events).size, 1)
  })
}

test('a leader that was suspended finds its successor when it wakes up, and answers nothing from its old state', {
  skip,
}, async (t) => {
  const { nodes } = await startCluster(t, { servers: 1, data: { things: [{ id: 'old', n: 0 }] } })
  const { leader, followers } = await rolesOf(nodes)
  const [follower] = followers as [RunningProgram]
  const tag = (await leader.fetch('/api/things/old')).headers.get('etag') as string
  leader.process.kill('SIGSTOP')
  const stale = leader.fetch('/api/things/old', json('PUT', { id: 'old', by: 'stale' }, { 'If-Match': tag }))
  await written(follower, '/api/things/old', () => json('PUT', { id: 'old', by: 'successor' }))
  await written(follower, '/api/things/new', () => json('PUT', { id: 'new' }))
  const unknown = leader.fetch('/api/things/new', { method: 'DELETE' })
  leader.process.kill('SIGCONT')
  // A connection that was kept alive may have come to its end while the leader stood still: then it says nothing.
  const nothing = () => undefined
  assert.ok([412, 503, 504, undefined].includes(await statusOf(stale).catch(nothing)))
  assert.ok([204, 503, 504, undefined].includes(await statusOf(unknown).catch(nothing)))
  const { position } = await healthOf(follower)
  const read = await leader.fetch('/api/things/old', { headers: { 'Wait-For-Position': String(position) } })
  assert.deepEqual(await read.json(), { id: 'old', by: 'successor' })
})

test('without a majority of NATS servers no write is acknowledged, and reads continue', {
  skip,
}, async (t) => {
  const { nats, nodes } = await startCluster(t, { data: { things: [{ id: 1, n: 1 }] } })
  const [, second, third] = nats
  await Promise.all([second, third].map((server) => server?.stop('SIGKILL')))
  for (const node of nodes) {
    const status = await statusOf(node.fetch('/api/things', json('POST', { n: 2 })))
    assert.ok(status === 503 || status === 504, String(status))
    assert.deepEqual(await (await node.fetch('/api/things/1')).json(), { id: 1, n: 1 })
    assert.equal(((await (await node.fetch('/events')).json()) as unknown[]).length, 2)
    assert.equal(await statusOf(node.fetch('/api/things?asOf=1')), 200)
  }
  for (const node of nodes) assert.equal(await statusOf(node.fetch('/health')), 503, 'and says so')
  second?.start()
  third?.start()
  const [node] = nodes as [RunningProgram]
  await written(node, '/api/things/back', () => json('PUT', { id: 'back' }))
})

const ROUNDS = Number(process.env.CLUSTER_RACE_ROUNDS ?? 3)
const RACERS = Number(process.env.CLUSTER_RACERS ?? 100)

test('exactly one of many writers with the same entity tag at any nodes succeeds, even when the leader is killed', {
  skip,
}, async (t) => {
  const cluster = await startCluster(t, { servers: 1, data: { things: [{ id: 'x', n: 0 }] } })
  const nodes = new Set(cluster.nodes)
  let undecided = 0
  for (let round = 1; round <= ROUNDS; round++) {
    const { leader } = await rolesOf([...nodes])
    const tag = (await leader.fetch('/api/things/x')).headers.get('etag') as string
    const isFailover = round % 3 === 0
    const racing = Promise.all(
      Array.from({ length: RACERS }, async (_, racer) => {
        const node = [...nodes][racer % nodes.size] as RunningProgram
        const init = json('PUT', { id: 'x', round, racer }, { 'If-Match': tag })
        return node.fetch('/api/things/x', init).then(
          async ({ status, headers }) => ({ racer, status, position: Number(headers.get('journal-position')) }),
          () => ({ racer, status: 0, position: 0 }),
        )
      }),
    )
    if (isFailover) {
      await sleep(20)
      nodes.delete(leader)
      await leader.stop('SIGKILL')
    }
    const results = await racing
    if (isFailover) nodes.add(await cluster.start(leader.directory))
    const winners = results.filter(({ status }) => status === 204)
    const { leader: now } = await rolesOf([...nodes])
    // The leader has written last, so it has all writes.
    const item = (await (await now.fetch('/api/things/x')).json()) as { round?: number; racer?: number }
    assert.ok(winners.length <= 1, `${winners.length} winners`)
    if (winners.length === 1) assert.deepEqual([item.round, item.racer], [round, winners[0]?.racer])
    else {
      undecided++
      assert.ok(isFailover, `nobody won: ${JSON.stringify(results.map(({ status }) => status))}`)
      const mayHaveWon = results.filter(({ status }) => status === 0 || status === 504).map(({ racer }) => racer)
      if (item.round === round) assert.ok(mayHaveWon.includes(item.racer as number))
    }
    const others = results.filter(({ status }) => ![204, 412, 503, 504, 0].includes(status))
    assert.deepEqual(others, [])
  }
  t.diagnostic(`${ROUNDS} rounds of ${RACERS}; in ${undecided} of them nobody heard of having won`)
})

/** The direction that a cable loses: packets into the namespace, out of it, or both. */
type Loss = 'sent' | 'answered' | 'both'

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
function withoutNamespaces(): string | undefined {
  const name = `recollect-${randomBytes(4).toString('hex')}`
  const { status, stderr, error } = run('ip', 'netns', 'add', name)
  if (status === 0) run('ip', 'netns', 'del', name)
  const why = error?.message ?? String(stderr).trim()
  return status === 0 ? undefined : `no network namespaces here (root, apt-get install iproute2): ${why}`
}

/** A namespace with so many cables; it ends with the test. */
function startNamespace(t: Scope, count: number): Namespace {
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
