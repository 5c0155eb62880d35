import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { tagOf } from '../../src/json/tag.ts'
import { check, describe } from '../linearizability/checker.ts'
import { planOf, work } from '../linearizability/clients.ts'
import { startCluster } from '../support/cluster.ts'
import { withoutNats } from '../support/nats.ts'
import { Random, seedFor } from '../support/random.ts'
import { ClusterService } from './cluster-service.ts'

const HISTORIES = Number(process.env.CLUSTER_HISTORIES ?? 2)

test('three nodes answer as one client at a time would be answered by one, through failovers', {
  skip: withoutNats,
}, async (t) => {
  const seed = seedFor('cluster linearizability')
  const cluster = await startCluster(t, { data: { things: [] }, flags: ['--Api.ClientIdsOnPost', 'true'] })
  const answered = new Map<number | undefined, number>()
  const service = new ClusterService(cluster, new Random(seed))
  for (let history = 0; history < HISTORIES; history++) {
    const random = new Random(seed + history)
    const plan = planOf(random, { prefix: `${history}-`, pause: (own) => sleep(own.integer(10)) })
    service.endAfter(5 + random.integer(plan.operations - 5))
    const { operations } = await work(service, random, plan)
    const violation = check({ operations }, () => undefined, tagOf)
    if (violation) assert.fail(`CLUSTER_LINEARIZABILITY_SEED=${seed}, history ${history}: ${describe(violation)}`)
    for (const { answer } of operations) answered.set(answer?.status, (answered.get(answer?.status) ?? 0) + 1)
  }
  t.diagnostic(`${HISTORIES} histories, answers ${JSON.stringify([...answered])}`)
  assert.deepEqual(
    [...answered.keys()].filter((status) => status !== undefined && status >= 500),
    [],
  )
})
