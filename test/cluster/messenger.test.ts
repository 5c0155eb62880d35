import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ClusterFigures } from '../../src/cluster/figures.ts'
import { Messenger } from '../../src/cluster/messenger.ts'
import type { LeaderRequest, LeaderResponse } from '../../src/cluster/protocol.ts'
import type { Command } from '../../src/commands/command.ts'
import type { JsonValue } from '../../src/json/value.ts'
import { SILENT } from '../support/cluster.ts'
import { within } from '../support/deadline.ts'
import type { Scope } from '../support/directory.ts'
import { connectTo, startNats, withoutNats } from '../support/nats.ts'

const ORIGIN = { actor: 'ann', requestId: 'r' }

async function messengers(t: Scope, messageBytes: number) {
  const servers = await startNats(t, { maxPayload: messageBytes })
  const open = async () => {
    const nc = await connectTo(servers)
    t.after(() => nc.close())
    return { nc, messenger: new Messenger(nc, 'test', messageBytes, SILENT, new ClusterFigures()) }
  }
  const [leader, follower] = [await open(), await open()]
  const serve = async (answer: (request: LeaderRequest) => Promise<LeaderResponse>): Promise<void> => {
    leader.messenger.serve('leader', answer)
    // Otherwise a request may reach the server before the subscription does.
    await within('the response of NATS to a flush', leader.nc.flush())
  }
  const ask = (request: LeaderRequest): Promise<LeaderResponse> =>
    within(`the answer of the leader to ${request.type}`, follower.messenger.ask('leader', request))
  return { serve, ask }
}

test('an answer of the leader that fits into no message is a refusal with the reason, and the leader continues', {
  skip: withoutNats,
}, async (t) => {
  const { serve, ask } = await messengers(t, 64 * 1024)
  const notCreated = Array.from({ length: 1000 }, (_, index) => [index, { duplicateOf: 'x'.repeat(100) }] as const)
  await serve(async (request): Promise<LeaderResponse> => {
    if (request.type === 'bulk') return { type: 'bulk-stored', position: 7, events: 1, notCreated }
    return { type: 'written', position: 7 }
  })
  const bulk = { type: 'bulk', command: { type: 'CreateItems', collection: 'a', items: [], isLenient: false } } as const
  const answer = await ask({ ...bulk, origin: ORIGIN })
  assert.ok(answer.type === 'refused')
  assert.deepEqual([answer.code, answer.position], ['TooLarge', 7])
  assert.match(answer.message, /^1000 items of the batch exist already or were rejected/)
  assert.deepEqual(await ask({ type: 'snapshot' }), { type: 'written', position: 7 })
})

test('requests with large items are forwarded unchanged, and keep their order', {
  skip: withoutNats,
}, async (t) => {
  const { serve, ask } = await messengers(t, 4 * 1024 * 1024)
  const received: LeaderRequest[] = []
  await serve(async (request) => {
    received.push(request)
    return { type: 'written', position: 1 }
  })
  let deep: JsonValue = Array.from({ length: 1000 }, (_, index) => index)
  for (let depth = 2; depth < 100; depth++) deep = [deep]
  const members = Array.from({ length: 4500 }, (_, index) => [`k${index}`, index] as const)
  const item = { ...Object.fromEntries(members), '\\"': 'ä', deep, text: 'x'.repeat(200_000) }
  const long = { type: 'CreateItem', collection: 'a', item } as const
  const short = { type: 'CreateItem', collection: 'a', item: { n: 1 } } as const
  const handle = (command: Command) => ask({ type: 'handle', command, origin: ORIGIN })
  await Promise.all([handle(long), handle(short)])
  const items = Array.from({ length: 100 }, (_, line) => ({ line, item: { line, text: 'x'.repeat(5000) } }))
  const command = { type: 'CreateItems', collection: 'a', items, isLenient: false } as const
  await ask({ type: 'bulk', command, origin: ORIGIN })
  assert.deepEqual(received, [
    { type: 'handle', command: long, origin: ORIGIN },
    { type: 'handle', command: short, origin: ORIGIN },
    { type: 'bulk', command, origin: ORIGIN },
  ])
})

test('a batch that no message can hold is rejected, and not sent', { skip: withoutNats }, async (t) => {
  const { serve, ask } = await messengers(t, 100_000)
  const received: LeaderRequest[] = []
  await serve(async (request) => {
    received.push(request)
    return { type: 'written', position: 1 }
  })
  const items = Array.from({ length: 100 }, () => ({ item: { text: 'x'.repeat(5000) } }))
  const command = { type: 'CreateItems', collection: 'a', items, isLenient: false } as const
  await assert.rejects(ask({ type: 'bulk', command, origin: ORIGIN }), { code: 'TooLarge' })
  assert.deepEqual(received, [])
})
