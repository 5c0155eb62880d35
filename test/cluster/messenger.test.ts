import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ClusterFigures } from '../../src/cluster/figures.ts'
import { Messenger } from '../../src/cluster/messenger.ts'
import type { LeaderRequest, LeaderResponse } from '../../src/cluster/protocol.ts'
import { SILENT } from '../support/cluster.ts'
import { connectTo, startNats, withoutNats } from '../support/nats.ts'

const MESSAGE_BYTES = 64 * 1024
const ORIGIN = { actor: 'ann', requestId: 'r' }

test('an answer of the leader that fits into no message is a refusal with the reason, and the leader continues', {
  skip: withoutNats,
}, async (t) => {
  const servers = await startNats(t, { maxPayload: MESSAGE_BYTES })
  const messengers: Messenger[] = []
  for (let count = 0; count < 2; count++) {
    const nc = await connectTo(servers)
    t.after(() => nc.close())
    messengers.push(new Messenger(nc, 'test', MESSAGE_BYTES, SILENT, new ClusterFigures()))
  }
  const [leader, follower] = messengers as [Messenger, Messenger]
  const notCreated = Array.from({ length: 1000 }, (_, index) => [index, { duplicateOf: 'x'.repeat(100) }] as const)
  leader.serve('leader', async (request): Promise<LeaderResponse> => {
    if (request.type === 'bulk') return { type: 'bulk-stored', position: 7, events: 1, notCreated }
    return { type: 'written', position: 7 }
  })
  const bulk = { type: 'bulk', command: { type: 'CreateItems', collection: 'a', items: [], isLenient: false } } as const
  const answer = await follower.ask('leader', { ...bulk, origin: ORIGIN } satisfies LeaderRequest)
  assert.ok(answer.type === 'refused')
  assert.deepEqual([answer.code, answer.position], ['TooLarge', 7])
  assert.match(answer.message, /^1000 items of the batch exist already or were rejected/)
  assert.deepEqual(await follower.ask('leader', { type: 'snapshot' }), { type: 'written', position: 7 })
})
