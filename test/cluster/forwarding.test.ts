import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { ClusterHandler } from '../../src/cluster/cluster-handler.ts'
import { ClusterFigures } from '../../src/cluster/figures.ts'
import { Messenger, RequestBatches } from '../../src/cluster/messenger.ts'
import type { LeaderRequest, LeaderResponse } from '../../src/cluster/protocol.ts'
import type { FileItem } from '../../src/collections/file-items.ts'
import type { Command } from '../../src/commands/command.ts'
import type { RestoreCondition } from '../../src/commands/restore.ts'
import { Document } from '../../src/json/document.ts'
import type { JsonValue } from '../../src/json/value.ts'
import { Refusal } from '../../src/runtime/errors.ts'
import { Histogram } from '../../src/runtime/histogram.ts'
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

interface Sent {
  readonly node: string
  readonly text: string
}

/** A batcher whose messages are answered with the requests themselves, except those to a node that fails. */
function asking(messageBytes: number): { readonly questions: RequestBatches; readonly sent: readonly Sent[] } {
  const sent: Sent[] = []
  const questions = new RequestBatches({
    messageBytes,
    perMessage: new Histogram([1]),
    send: async (node, text) => {
      sent.push({ node, text })
      if (text.includes('"fail"')) throw new Refusal('OutcomeUnknown', 'nobody heard of it')
      return text
    },
  })
  return { questions, sent }
}

test('requests that are forwarded in one tick share a message per node, and each gets its own response', async () => {
  const { questions, sent } = asking(1000)
  const answers = await Promise.all([
    questions.ask('a', '1'),
    questions.ask('b', '"2"'),
    questions.ask('a', '{"n":3}'),
    questions.sendAlone('a', '"alone"'),
    Promise.resolve().then(() => questions.ask('a', '4')),
  ])
  assert.deepEqual(answers, [1, '2', { n: 3 }, 'alone', 4])
  assert.deepEqual(sent, [
    { node: 'a', text: '["alone"]' },
    { node: 'a', text: '[1,{"n":3},4]' },
    { node: 'b', text: '["2"]' },
  ])
  await questions.ask('a', '5')
  assert.equal(sent.length, 4)
})

test('a message respects the size limit and the limit of requests per message', async () => {
  const { questions, sent } = asking(100)
  const texts = Array.from({ length: 300 }, (_, n) => JSON.stringify('ü'.repeat(n % 48)))
  const answers = await Promise.all(texts.map((text) => questions.ask('a', text)))
  assert.deepEqual(
    answers,
    texts.map((text) => JSON.parse(text)),
  )
  for (const { text } of sent) assert.ok(Buffer.byteLength(text) <= 100, text)
  assert.ok(questions.fits(JSON.stringify('ü'.repeat(48))))
  assert.ok(!questions.fits(JSON.stringify('ü'.repeat(49))))
  const small = asking(100_000)
  await Promise.all(texts.map(() => small.questions.ask('a', '0')))
  assert.deepEqual(
    small.sent.map(({ text }) => JSON.parse(text).length),
    [256, 44],
  )
})

test('a failed message fails its own requests and no others', async () => {
  const { questions } = asking(30)
  const outcomes = await Promise.allSettled(
    ['"in the first"', '"fail"', '"with it"', '"in the third one"'].map((text) => questions.ask('a', text)),
  )
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['rejected', 'rejected', 'fulfilled', 'fulfilled'],
  )
  const short = new RequestBatches({ messageBytes: 100, perMessage: new Histogram([1]), send: async () => '[1]' })
  const both = await Promise.allSettled([short.ask('a', '1'), short.ask('a', '2')])
  assert.deepEqual(
    both.map(({ status }) => status),
    ['rejected', 'rejected'],
    'it is not guessed whose answer is missing',
  )
})

test('a follower stops reading what a restore needs once no message can hold it', async () => {
  const messageBytes = 64 * 1024
  let read = 0
  const handler = new ClusterHandler({
    node: { id: 'this', leader: 'other', isLeader: false },
    messenger: { messageBytes, ask: () => assert.fail('it does not fit into a message') },
    hasRoom: () => true,
  } as unknown as ConstructorParameters<typeof ClusterHandler>[0])
  const items = function* (): Generator<FileItem> {
    for (; read < 1_000_000; read++) yield { id: read, text: JSON.stringify({ id: read, text: 'x'.repeat(100) }) }
  }
  const restoration = { type: 'collections', collections: new Map([['a', { items }]]) } as const
  await assert.rejects(handler.restore(restoration, { actor: 'ann', requestId: 'r' }, false), { code: 'TooLarge' })
  assert.ok(read < messageBytes / 100, `${read} items`)
})

test('a follower forwards the condition of a restore', async () => {
  const conditions: unknown[] = []
  const follower = new ClusterHandler({
    node: { id: 'this', leader: 'other', isLeader: false },
    messenger: {
      messageBytes: 1024,
      ask: async (_leader: string, { restoration }: { restoration: RestoreCondition }) => {
        conditions.push(restoration.ifUnchangedSince)
        return { type: 'stored', position: 5, events: 0 }
      },
    },
    hasRoom: () => true,
  } as unknown as ConstructorParameters<typeof ClusterHandler>[0])
  const item = { type: 'item', collection: 'a', key: '1', item: undefined } as const
  await follower.restore({ ...item, ifUnchangedSince: 3 }, ORIGIN, false)
  await follower.restore({ type: 'collections', collections: new Map(), ifUnchangedSince: 4 }, ORIGIN, false)
  assert.deepEqual(conditions, [3, 4])
})

/** A follower whose leader has stored an item at position 5. */
function followerOfWrite(isRead: boolean) {
  const item = Document.of({ id: 5 })
  const event = { type: 'ItemCreated', collection: 'a', id: 5, revision: 1, prior: 0, item } as const
  const recorded = { position: 5, time: '2026-11-20T12:00:00.000Z', actor: 'ann', requestId: 'r', events: [event] }
  const journal = {
    head: 3,
    at: async function* () {
      assert.ok(isRead, 'nothing is read')
      yield recorded
    },
  }
  const follower = new ClusterHandler({
    local: { apply: () => {} },
    node: { id: 'this', leader: 'other', isLeader: false },
    messenger: { ask: async () => ({ type: 'stored', position: 5, events: 1 }) },
    journal,
    hasRoom: () => true,
  } as unknown as ConstructorParameters<typeof ClusterHandler>[0])
  return { follower, journal, recorded }
}

const CREATION = { type: 'CreateItem', collection: 'a', item: {} } as const

test('a follower answers a write from memory, as soon as it has that', async () => {
  const { follower, journal, recorded } = followerOfWrite(false)
  let isAnswered = false
  const outcome = follower.handle(CREATION, ORIGIN).finally(() => {
    isAnswered = true
  })
  journal.head = 4
  follower.apply({ ...recorded, position: 4 })
  await setImmediate()
  assert.equal(isAnswered, false)
  journal.head = 5
  follower.apply(recorded)
  assert.equal((await outcome).position, 5)
})

test('a follower reads a write that is within another one, or long ago, from its journal', async () => {
  const { follower, journal, recorded } = followerOfWrite(true)
  const outcome = follower.handle(CREATION, ORIGIN)
  journal.head = 6
  follower.apply({ ...recorded, position: 4, events: [...recorded.events, ...recorded.events, ...recorded.events] })
  assert.equal((await outcome).position, 5)
  assert.equal((await follower.handle(CREATION, ORIGIN)).position, 5)
})

/** A node whose leader gives this answer, and whose journal has events that delete items with ascending ids. */
function followerOf(answer: LeaderResponse): ClusterHandler {
  const deleted = (id: number) => ({ type: 'ItemDeleted', collection: 'a', id, revision: 2, prior: 1 })
  return new ClusterHandler({
    node: { id: 'this', leader: 'other', isLeader: false },
    messenger: { ask: async () => answer },
    journal: {
      head: Number.POSITIVE_INFINITY,
      async *read(from: number, to: number) {
        yield { position: from, events: Array.from({ length: to - from + 1 }, (_, index) => deleted(from + index)) }
      },
    },
    hasRoom: () => true,
  } as unknown as ConstructorParameters<typeof ClusterHandler>[0])
}

test('a follower answers a large deletion with the numbers of the leader and the ids of its own journal', async () => {
  const deletion = { type: 'DeleteItems', collection: 'a', filters: '' } as const
  const outcome = { position: 900, deleted: 500, writes: 5, from: 100, listed: 3, isRemoved: false }
  const follower = followerOf({ type: 'deleted', ...outcome })
  assert.deepEqual(await follower.delete(deletion, ORIGIN), { ...outcome, ids: [100, 101, 102] })
  const progress = { deleted: 200, writes: 2 }
  const refused = followerOf({ type: 'refused', code: 'DiskFull', message: 'full', faults: [], progress, position: 9 })
  await assert.rejects(refused.delete(deletion, ORIGIN), { code: 'DiskFull', progress })
})
