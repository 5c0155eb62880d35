import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { tagOf } from '../../src/json/tag.ts'
import { check, describe } from '../linearizability/checker.ts'
import { planOf, work } from '../linearizability/clients.ts'
import { startCluster } from '../support/cluster.ts'
import { withoutNats } from '../support/nats.ts'
import { Random, SEED } from '../support/random.ts'
import { ClusterService, Failovers } from './cluster-service.ts'

const HISTORIES = Number(process.env.CLUSTER_HISTORIES ?? 20)
/** The number of concurrent histories, each on its own items: they share a failover, which takes longer than a history. */
const AT_ONCE = 20

test('three nodes are linearizable through failovers', {
  skip: withoutNats,
}, async (t) => {
  const cluster = await startCluster(t, { data: { things: [] }, flags: ['--Api.ClientIdsOnPost', 'true'] })
  const answered = new Map<number | undefined, number>()
  const failovers = new Failovers(cluster, new Random(SEED))
  const moments = new Random(SEED)
  for (let first = 0; first < HISTORIES; first += AT_ONCE) {
    const count = Math.min(AT_ONCE, HISTORIES - first)
    const plans = Array.from({ length: count }, (_, index) => {
      const history = first + index
      const random = new Random(SEED + history)
      const plan = planOf(random, { prefix: `${history}-`, pause: (own) => sleep(own.integer(10)) })
      const service = new ClusterService(failovers, new Random(random.integer(2 ** 32)), count)
      return () => work(service, random, plan)
    })
    // All of them are on their way then, as none has less than 30 requests to make.
    failovers.endAfter(count * (5 + moments.integer(20)))
    const histories = await Promise.all(plans.map((begin) => begin())).catch((error: unknown) => {
      for (const { stderr } of cluster.nodes) t.diagnostic(stderr().slice(-5000))
      for (const { log } of cluster.nats) t.diagnostic(log.slice(-5000))
      throw error
    })
    for (const [index, { operations }] of histories.entries()) {
      const violation = check({ operations }, () => undefined, tagOf)
      if (violation) assert.fail(`SEED=${SEED}, history ${first + index}: ${describe(violation)}`)
      for (const { answer } of operations) answered.set(answer?.status, (answered.get(answer?.status) ?? 0) + 1)
    }
    if (HISTORIES > 100) t.diagnostic(`${first + count} histories`)
  }
  t.diagnostic(`${HISTORIES} histories, answers ${JSON.stringify([...answered])}`)
  assert.deepEqual(
    [...answered.keys()].filter((status) => status !== undefined && status >= 500),
    [],
  )
})
