import { join } from 'node:path'
import { type Bench, type Group, interleaved, repeated } from '../harness/bench.ts'
import type { Row, Series } from '../harness/figures.ts'
import { listeners } from '../harness/listeners.ts'
import type { Sent } from '../harness/load.ts'
import { startNats } from '../harness/nats.ts'
import { bodies } from '../harness/readings.ts'
import type { Server } from '../harness/servers.ts'

const FEW = 1000
const BODIES = bodies(FEW)
const POSTS: readonly Sent[] = BODIES.map((body) => ({ method: 'POST', path: '/api/readings', body }))
const GETS: readonly Sent[] = BODIES.map((_, id) => ({ path: `/api/readings/${id}` }))
const CONNECTIONS = 64
const CLIENTS = 300
const SOCKETS = ['--Limits.SocketsPerAddress', '5000']

/** The same work at one node, two and three, on a stream of three nats-servers, and at one server on its own disk. */
export const cluster: Group = {
  name: 'cluster',
  about: 'three nodes on three nats-servers, beside one server on its own disk; all on this machine',
  async measure(bench) {
    const nats = await startNats(bench)
    if (!nats) {
      bench.say('nats-server is missing (apt-get install nats-server)')
      return []
    }
    const { servers, fixtures } = bench
    const file = await fixtures.dataFile(FEW)
    const alone = await servers.recollect({
      file: join(await fixtures.directory(), 'db.json'),
      journal: await fixtures.ownJournal(FEW),
      flags: SOCKETS,
    })
    const flags = ['--Journal.Type', 'jetstream', '--Journal.Servers', nats.join(','), ...SOCKETS]
    const nodes: Server[] = []
    for (let index = 0; index < 3; index++) {
      const own = await fixtures.directory()
      nodes.push(
        await servers.recollect(
          { file: index === 0 ? file : join(own, 'db.json'), journal: join(own, 'journal'), flags },
          { settle: false },
        ),
      )
    }
    const rows: Row[] = []
    const kinds = [
      ['durable POST', POSTS],
      ['GET of an item', GETS],
    ] as const
    for (const [work, requests] of kinds) {
      const measured = await interleaved(bench, 'req/s', {
        'file journal': await rateAt(bench, [alone], requests),
        'one node': await rateAt(bench, nodes.slice(0, 1), requests),
        'another node': await rateAt(bench, nodes.slice(1, 2), requests),
        'two nodes': await rateAt(bench, nodes.slice(0, 2), requests),
        'three nodes': await rateAt(bench, nodes, requests),
      })
      rows.push(rowOf(`${work}, at three nodes of a cluster`, measured))
    }
    const told = await interleaved(bench, 'messages/s', {
      'file journal': await toldBy(bench, [alone]),
      'one node': await toldBy(bench, nodes.slice(0, 1)),
      'two nodes': await toldBy(bench, nodes.slice(0, 2)),
      'three nodes': await toldBy(bench, nodes),
    })
    rows.push(rowOf(`notifications to ${CLIENTS} clients of three nodes while 64 connections POST`, told))
    return rows
  },
}

function rowOf(work: string, measured: Readonly<Record<string, Series>>): Row {
  const { 'three nodes': ours, ...others } = measured
  return {
    work,
    ours: ours as Series,
    better: 'more',
    goals: [],
    others: Object.values(others),
    note: 'servers, nodes and load share the cores of one machine, so more nodes are no faster here; "another node" forwards writes to the leader.',
  }
}

/** Requests a second at several nodes at once, each with its part of the connections. */
async function rateAt(
  bench: Bench,
  nodes: readonly Server[],
  requests: readonly Sent[],
): Promise<() => Promise<number>> {
  const loads = await Promise.all(
    nodes.map(({ url }) => repeated(bench, url, requests, { connections: Math.ceil(CONNECTIONS / nodes.length) })),
  )
  return async () => {
    const loaded = await Promise.all(loads.map((load) => load()))
    return loaded.reduce((sum, { rate }) => sum + rate, 0)
  }
}

/** Messages that come to clients of all these nodes in a second, while the first node is written to. */
async function toldBy(bench: Bench, nodes: readonly Server[]): Promise<() => Promise<number>> {
  const write = await rateAt(bench, nodes.slice(0, 1), POSTS)
  return async () => {
    const all = await Promise.all(nodes.map(({ url }) => listeners(url, Math.ceil(CLIENTS / nodes.length), 'ws')))
    const count = (): number => all.reduce((sum, one) => sum + one.count, 0)
    const writing = write()
    // Awaited below; until then its rejection is expected.
    writing.catch(() => {})
    await new Promise((resolve) => setTimeout(resolve, (bench.seconds * 1000) / 4))
    const before = count()
    const began = performance.now()
    await new Promise((resolve) => setTimeout(resolve, (bench.seconds * 1000) / 2))
    const rate = (count() - before) / ((performance.now() - began) / 1000)
    await writing
    for (const one of all) one.close()
    return rate
  }
}
