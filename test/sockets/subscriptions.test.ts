import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { pino } from 'pino'
import type { WebSocket } from 'ws'
import type { Journal, Recorded } from '../../src/events/journal.ts'
import { Past } from '../../src/projections/past.ts'
import { Queries } from '../../src/query/queries.ts'
import { LimitedLog } from '../../src/runtime/limited-log.ts'
import { Memory, MemoryBudget, UNLIMITED } from '../../src/runtime/memory.ts'
import { Turns } from '../../src/runtime/turns.ts'
import { SlowClients, WAITING_BYTES } from '../../src/sockets/slow-clients.ts'
import { parseSubscribe } from '../../src/sockets/subscribe-request.ts'
import type { SubscribeResponse, Subscriber } from '../../src/sockets/subscription.ts'
import { Subscriptions } from '../../src/sockets/subscriptions.ts'
import { SimulatedClock } from '../support/clock.ts'
import { CollectionWriter, storedHistory } from '../support/collections.ts'
import { turnsUntil } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { agree, Follower, type Item } from '../support/follower.ts'
import { eachAt } from '../support/journal.ts'
import { Random, SEED } from '../support/random.ts'
import { headOf } from '../support/requests.ts'
import { json, plainSegments, type RunningProgram, startProgram } from '../support/server.ts'

const QUERIES = [
  '',
  'n_gt=50',
  'n_lte=20',
  'kind=x',
  'kind=y&n_gt=30',
  'kind_ne=x',
  'q=7',
  'tags=red',
  'kind=x&kind=y',
  'n=5',
]

function randomItem(random: Random): Item {
  return {
    n: random.integer(100),
    ...(random.chance(0.9) && { kind: random.pick(['x', 'y', 'z']) }),
    tags: random.chance(0.5) ? ['red'] : ['blue', 'green'],
  }
}

async function write(server: RunningProgram, random: Random): Promise<void> {
  const collection = random.pick(['a', 'b'])
  const path = `/api/${collection}/${random.integer(12)}`
  const kind = random.integer(10)
  if (kind < 2) await server.fetch(path, { method: 'DELETE' })
  else if (kind < 4) await server.fetch(`/api/${collection}`, json('POST', randomItem(random)))
  else if (kind < 6) await server.fetch(path, json('PATCH', { n: random.integer(100) }))
  else await server.fetch(path, json('PUT', randomItem(random)))
}

/** Restarts of the server under load. */
const ROUNDS = Number(process.env.SUBSCRIPTION_ROUNDS ?? 1)

describe('subscriptions over Socket.IO', async () => {
  /** The server of most tests, each of which has its own collections. */
  const shared = await startProgram(
    { after },
    {
      data: {
        a: [],
        b: [],
        begun: [
          { id: 1, n: 5 },
          { id: 2, n: 50 },
        ],
        slow: [],
        left: [],
        stale: [{ id: 0 }],
      },
      flags: ['--Api.UpsertOnPut', 'true', '--Limits.SubscriptionsPerSocket', '2'],
    },
  )

  test('begin with the matching items, then report items that enter, change and leave', async (t) => {
    const head = await headOf(shared.url)
    const follower = new Follower({ collection: 'begun', query: 'n_gt=10' })
    const answered = await follower.connect(t, shared.url)
    assert.deepEqual('items' in answered && answered.items, [{ id: 2, n: 50 }])
    assert.equal('position' in answered && answered.position, head)
    for (const [path, n] of [
      ['1', 20],
      ['2', 60],
      ['1', 1],
      ['1', 2],
    ] as const) {
      await shared.fetch(`/api/begun/${path}`, json('PUT', { n }))
    }
    await shared.fetch('/api/begun/2', { method: 'DELETE' })
    await agree(shared, follower, 'after changes')
    assert.equal(follower.position, head + 5, 'a change that is none of its business is not sent')
  })

  test('filters of the event time take absolute times only', async (t) => {
    const flags = ['--Collections', '{"readings":{"Time":"at"}}']
    const server = await startProgram(t, { data: { readings: [{ id: 1, at: '2026-01-01' }] }, flags })
    for (const [query, why] of [
      ['at_gte=now-1h', /no time relative to now/],
      ['at_lt=now', /no time relative to now/],
      ['at_lt=2026-1-1', /must be ISO 8601/],
    ] as const) {
      const answered = await new Follower({ collection: 'readings', query }).connect(t, server.url)
      assert.ok('error' in answered, query)
      assert.equal(answered.error, 'Invalid')
      assert.match(answered.message, why)
    }
    const follower = new Follower({ collection: 'readings', query: 'at_lt=2026-02-01' })
    await follower.connect(t, server.url)
    await server.fetch('/api/readings', json('POST', [{ at: '2026-01-31T23:00' }, { at: '2026-02-01' }]))
    await agree(server, follower, 'after readings')
  })

  test('lists stay right through writes, lost connections and restarts', async (t) => {
    const random = new Random(SEED)
    const flags = ['--Api.UpsertOnPut', 'true']
    let server = await startProgram(t, { data: { a: [{ id: 0, n: 1 }], b: [] }, flags })
    const followers = Array.from({ length: 24 }, (_, index) => {
      return new Follower({ collection: random.pick(['a', 'b']), query: QUERIES[index % QUERIES.length] as string })
    })
    for (const follower of followers) await follower.connect(t, server.url)
    for (let round = 0; round < ROUNDS; round++) {
      for (let burst = 0; burst < 12; burst++) {
        await Promise.all(Array.from({ length: 8 }, () => write(server, random)))
        for (const follower of followers) {
          if (!random.chance(0.15)) continue
          follower.cut()
          const answered = await follower.connect(t, server.url)
          assert.ok(!('reset' in answered), 'what was missed is known')
        }
      }
      await server.stop(random.chance(0.5) ? 'SIGKILL' : 'SIGTERM')
      server = await startProgram(t, { directory: server.directory, flags })
      await Promise.all(Array.from({ length: 8 }, () => write(server, random)))
      await Promise.all(followers.map((follower) => follower.connect(t, server.url)))
      for (const follower of followers) await agree(server, follower, `SEED=${SEED}, round ${round}`)
    }
  })

  test('a client that subscribes during writes misses none and gets none twice', async (t) => {
    const random = new Random(SEED)
    let left = 300
    const writer = async (): Promise<void> => {
      while (left-- > 0) await write(shared, random)
    }
    const writers = Array.from({ length: 6 }, writer)
    const followers: Follower[] = []
    // On a slow disk there is time for more than an address may open.
    while (left > 0 && followers.length < 100) {
      const follower = new Follower({ collection: 'a', query: random.pick(QUERIES) })
      await follower.connect(t, shared.url)
      followers.push(follower)
    }
    await Promise.all(writers)
    assert.ok(followers.length > 3)
    for (const follower of followers) await agree(shared, follower, `SEED=${SEED}`)
  })

  test('a client that is too slow is told to reset, and ends with the right list', async (t) => {
    const follower = new Follower({ collection: 'slow' })
    await follower.connect(t, shared.url)
    follower.raw.pause()
    const text = 'x'.repeat(100_000)
    // More than the buffers of both kernels hold; the waiting part stays below what drops a client.
    for (let n = 0; n < 160; n++) await shared.fetch(`/api/slow/${n % 7}`, json('PUT', { n, text }))
    follower.raw.resume()
    await agree(shared, follower, 'after it has read again')
    assert.ok(follower.lags > 0, 'it was told')
    assert.deepEqual(follower.items.get('5'), { id: 5, n: 159 - ((159 - 5) % 7), text })
  })

  test('another journal, or an unknown position, causes a reset', async (t) => {
    const other = '00000000-0000-4000-8000-000000000000'
    for (const stale of [{ after: 1, journal: other }, { after: 1 }, { after: 99_999 }]) {
      const follower = new Follower({ collection: 'stale', ...stale })
      const answered = await follower.connect(t, shared.url)
      assert.ok('reset' in answered && answered.reset, JSON.stringify(stale))
      assert.deepEqual(answered.items, [{ id: 0 }])
    }
  })

  test('a client whose missed changes are damaged in the journal is reset, and a replay of them is refused', async (t) => {
    const directory = await temporaryDirectory(t)
    const flags = plainSegments(2000)
    const server = await startProgram(t, { directory, data: { a: [{ id: 1, n: 0 }] }, flags })
    const { id: journal } = ((await (await server.fetch('/health')).json()) as { journal: { id: string } }).journal
    for (let n = 1; n <= 20; n++) await server.fetch('/api/a/1', json('PUT', { n }))
    await server.stop()
    const segment = join(directory, 'db.journal', `${'1'.padStart(20, '0')}.ndjson`)
    const bytes = readFileSync(segment)
    const at = bytes.indexOf('"n":3')
    bytes.fill('9', at, at + 5)
    writeFileSync(segment, bytes)
    const again = await startProgram(t, { directory, flags })
    const resumed = await new Follower({ collection: 'a', after: 2, journal }).connect(t, again.url)
    assert.deepEqual(
      [('reset' in resumed && resumed.reset) ?? false, 'items' in resumed && resumed.items],
      [true, [{ id: 1, n: 20 }]],
    )
    const later = await new Follower({ collection: 'a', after: 15, journal }).connect(t, again.url)
    assert.ok(!('error' in later) && later.reset === undefined && later.position === 15)
    const replayed = await new Follower({ collection: 'a', from: 5 }).connect(t, again.url)
    assert.ok('error' in replayed && replayed.error === 'Unavailable')
    assert.match(replayed.message, /Reading can continue at position \d+\.$/)
  })

  test('too many items are rejected with the position from which to read pages and resume', async (t) => {
    const data = { a: Array.from({ length: 20 }, (_, id) => ({ id })) }
    const server = await startProgram(t, { data, flags: ['--Limits.SubscriptionItems', '10'] })
    const follower = new Follower({ collection: 'a' })
    const answered = await follower.connect(t, server.url)
    assert.ok('error' in answered && answered.error === 'TooLarge')
    const position = answered.position as number
    const first = await server.fetch(`/api/a?asOf=${position}`)
    for (const item of (await first.json()) as Item[]) follower.items.set(String(item.id), item)
    await server.fetch('/api/a', json('POST', {}))
    await server.fetch('/api/a/3', { method: 'DELETE' })
    const { journal } = (await (await server.fetch('/health')).json()) as { journal: { id: string } }
    follower.journal = journal.id
    follower.position = position
    const resumed = await follower.connect(t, server.url)
    assert.ok(!('error' in resumed) && resumed.items === undefined)
    await agree(server, follower, 'after paging')
  })

  test('items of more than 2^22 characters are rejected, as one message would be encoded at once', async (t) => {
    const data = { a: Array.from({ length: 5 }, (_, id) => ({ id, text: 'x'.repeat(1_000_000) })) }
    const server = await startProgram(t, { data })
    const all = await new Follower({ collection: 'a' }).connect(t, server.url)
    assert.ok('error' in all && all.error === 'TooLarge' && all.position !== undefined)
    const some = await new Follower({ collection: 'a', query: 'id_lt=4' }).connect(t, server.url)
    assert.ok('items' in some && some.items?.length === 4)
  })

  test('a client that missed more than ten times the items of a subscription is reset, and never costs more memory', async (t) => {
    const data = { a: [], many: Array.from({ length: 21 }, (_, id) => ({ id })) }
    const server = await startProgram(t, { data, flags: ['--Limits.SubscriptionItems', '2'] })
    const { journal } = (await (await server.fetch('/health')).json()) as { journal: { id: string } }
    const many = new Follower({ collection: 'many', after: 1, journal: journal.id })
    const refused = await many.connect(t, server.url)
    assert.ok('error' in refused && refused.error === 'TooLarge')
    assert.equal(refused.position, undefined, 'to page and subscribe after it would be refused, too')
    const follower = new Follower({ collection: 'a' })
    const { position } = (await follower.connect(t, server.url)) as { position: number }
    await server.fetch('/api/a', json('POST', Array(20).fill({})))
    await server.fetch('/api/a?id_gte=1', { method: 'DELETE' })
    const resumed = await new Follower({ collection: 'a', after: position, journal: journal.id }).connect(t, server.url)
    assert.ok(!('error' in resumed) && resumed.reset === undefined, 'twenty items were changed')
    await server.fetch('/api/a', json('POST', {}))
    const reset = await new Follower({ collection: 'a', after: position, journal: journal.id }).connect(t, server.url)
    assert.ok(!('error' in reset) && reset.reset === true, 'twenty-one items were changed')
    assert.deepEqual(reset.items?.length, 2)
  })

  test('an invalid subscription is rejected, and the client stays connected', async (t) => {
    const follower = new Follower({ collection: 'a' })
    await follower.connect(t, shared.url)
    for (const wrong of [
      { collection: 'a', filter: 'n=1' },
      { collection: 'a', asOf: 1 },
      null,
      7,
      {},
      { collection: '' },
      { collection: 'a', after: -1 },
      { collection: 'a', after: 'x' },
      { collection: 'a', query: 'sort=n' },
      { collection: 'a', query: { page: 1 } },
      { collection: 'a', query: { n: { $gt: 1 } } },
      { collection: 'a', query: 'n=%ZZ' },
      { collection: 'a', query: [] },
      { collection: 'a', journal: 7 },
    ]) {
      const answered = (await follower.emit('subscribe', wrong)) as { error: string; message: string }
      assert.equal(answered.error, 'Invalid', JSON.stringify(wrong))
      assert.ok(answered.message.length > 10)
    }
    assert.ok(
      'subscription' in ((await follower.emit('subscribe', { collection: '__proto__', query: null })) as object),
    )
    assert.equal(((await follower.emit('subscribe', { collection: 'a' })) as { error: string }).error, 'TooMany')
    assert.deepEqual(await follower.emit('unsubscribe', { subscription: 'none' }), { ended: false })
    assert.deepEqual(await follower.emit('unsubscribe', null), { ended: false })
  })

  test('nothing is sent after unsubscribe', async (t) => {
    const [follower, other] = [new Follower({ collection: 'left' }), new Follower({ collection: 'left' })]
    const answered = await follower.connect(t, shared.url)
    await other.connect(t, shared.url)
    const { subscription } = answered as { subscription: string }
    assert.deepEqual(await follower.emit('unsubscribe', { subscription }), { ended: true })
    await shared.fetch('/api/left', json('POST', {}))
    await agree(shared, other, 'the other one')
    assert.deepEqual(await follower.emit('unsubscribe', { subscription }), { ended: false }, 'its answer comes after')
    assert.equal(follower.items.size, 0)
  })
})

const ID = '00000000-0000-4000-8000-000000000001'
const ITEMS = 1000

const client: Subscriber = {
  change: () => {},
  lagging: () => {},
  current: () => {},
  isSlow: () => false,
  whenDrained: (work) => work(),
  whenSent: (work) => work(),
  drop: () => {},
}

/** Subscriptions to a collection, with the number of writes that were read, and of turns of the event loop that work took. */
function place(memory = new MemoryBudget()) {
  const writer = new CollectionWriter('a')
  const { views, records } = writer
  const history = storedHistory(views)
  writer.putAll(Array.from({ length: ITEMS }, (_, id) => ({ id, text: 'x'.repeat(100) })))
  const done = { read: 0, turns: 0 }
  const read: Journal['read'] = async function* (from, to = records.length) {
    for (const recorded of records.slice(from - 1, to)) {
      await turn()
      done.read++
      yield recorded
    }
  }
  const journal = { id: ID, head: records.length, timeMs: 0, read, at: eachAt(read) }
  // Each look at the clock ends the turn, as if every item took long.
  let ms = 0
  const turns = new Turns({
    now: () => (ms += 5),
    later: (next) => {
      done.turns++
      setImmediate(next)
    },
  })
  const subscriptions = new Subscriptions({
    views,
    past: new Past(journal, views, history, UNLIMITED),
    queries: new Queries({ views, bytes: 2 ** 20, turns }),
    journal,
    log: new LimitedLog(pino({ level: 'silent' }), () => 0),
    now: () => new Date(),
    clock: new SimulatedClock(),
    items: 10 * ITEMS,
    perClient: 1,
    memory,
  })
  return { subscriptions, done, writer }
}

/** The response to a subscription to the collection. */
async function responseOf(
  subscriptions: Subscriptions,
  sent: object = {},
  subscriber = client,
): Promise<SubscribeResponse> {
  const responses: SubscribeResponse[] = []
  await subscriptions.subscribe(
    subscriber,
    parseSubscribe({ collection: 'a', ...sent }),
    (response) => void responses.push(response),
  )
  assert.equal(responses.length, 1)
  return responses[0] as SubscribeResponse
}

test('a client for which memory is in use is Busy, and its subscription begins when it is free', async () => {
  const memory = new MemoryBudget(4_000_000)
  const { subscriptions } = place(memory)
  const other = new Memory(memory, 'queries')
  other.hold(3_900_000)
  for (const resuming of [{}, { after: 100, journal: ID }]) {
    const response = await responseOf(subscriptions, resuming)
    assert.ok('error' in response && response.error === 'Busy' && /try again/.test(response.message))
  }
  assert.equal(memory.held('subscriptions'), 0)
  other.release()
  assert.ok('subscription' in (await responseOf(subscriptions)))
})

test('items that never fit into memory are TooLarge, with the position from which to read pages', async () => {
  const { subscriptions } = place(new MemoryBudget(300_000))
  const response = await responseOf(subscriptions)
  assert.ok('error' in response && response.error === 'TooLarge')
  assert.deepEqual([response.position, response.journal], [ITEMS + 1, ID])
  assert.match(response.message, /Subscribe with more filters/)
  assert.ok('subscription' in (await responseOf(subscriptions, { query: 'id_lt=100' })))
})

test('a subscription holds the memory of its first items until they are sent, and that of their ids until its end', async () => {
  const memory = new MemoryBudget()
  const { subscriptions } = place(memory)
  let sent = (): void => {}
  const reader: Subscriber = { ...client, whenSent: (work) => (sent = work) }
  await responseOf(subscriptions, {}, reader)
  const sending = memory.held('subscriptions')
  sent()
  const sentAll = memory.held('subscriptions')
  assert.ok(sentAll > 50 * ITEMS && sending - sentAll > 100 * ITEMS, `${sending} bytes, then ${sentAll}`)
  subscriptions.leave(reader)
  assert.equal(memory.held('subscriptions'), 0)
})

test('a client is disconnected when its list grows beyond the memory', async () => {
  const memory = new MemoryBudget(600_000)
  const { subscriptions, writer } = place(memory)
  let drops = 0
  let entered = 0
  const reader: Subscriber = { ...client, change: () => void entered++, drop: () => void drops++ }
  assert.ok('subscription' in (await responseOf(subscriptions, { query: 'kind=new' }, reader)))
  for (let id = ITEMS; id < 3 * ITEMS && drops === 0; id++) {
    writer.put({ id, kind: 'new' })
    await subscriptions.apply(writer.records.at(-1) as Recorded)
  }
  assert.ok(drops > 0 && entered > 100 && entered < 2 * ITEMS, `${entered} items entered`)
  subscriptions.leave(reader)
  assert.equal(memory.held('subscriptions'), 0)
})

test('the journal is not read on for a client that went away before it was resumed', async () => {
  const { subscriptions, done } = place()
  const subscribed = subscriptions.subscribe(
    client,
    parseSubscribe({ collection: 'b', after: 0, journal: ID }),
    () => {},
  )
  await turnsUntil('the reading of 10 writes', () => done.read >= 10)
  subscriptions.leave(client)
  await subscribed
  assert.ok(done.read < 20, `${done.read} writes were read`)
})

test('items are not searched on for a client that went away before its subscription began', async () => {
  for (const resuming of [{}, { after: 0, journal: ID }]) {
    const { subscriptions, done } = place()
    const subscribed = subscriptions.subscribe(
      client,
      parseSubscribe({ collection: 'a', query: 'q=y', ...resuming }),
      () => {},
    )
    await turnsUntil('the third turn', () => done.turns >= 3)
    subscriptions.leave(client)
    await subscribed
    assert.ok(done.turns < 10 && done.read === 0, `${done.turns} turns, ${done.read} writes`)
  }
})

test('a client is told whether changes follow the items with which its subscription begins', async () => {
  for (const isLate of [false, true]) {
    const { subscriptions, done, writer } = place()
    const sent: unknown[] = []
    const listener: Subscriber = {
      ...client,
      change: ({ position, id }) => sent.push({ position, id }),
      current: (_, position) => sent.push({ current: position }),
    }
    const subscribed = subscriptions.subscribe(
      listener,
      parseSubscribe({ collection: 'a', query: 'q=y' }),
      (response) => sent.push('behind' in response && response.behind),
    )
    await turnsUntil('the third turn', () => done.turns >= 3)
    if (isLate) writer.putAll([{ id: 1, text: 'y' }])
    await subscribed
    const expected = [true, { position: ITEMS + 2, id: 1 }, { current: ITEMS + 2 }]
    if (isLate) await turnsUntil('the change after the items', () => sent.length >= expected.length)
    assert.deepEqual(sent, isLate ? expected : [false])
  }
})

/** A client whose kernel has not accepted so many bytes yet, checked after so many milliseconds. */
function simulated(stallMs: number) {
  let now = 0
  const clients = new SlowClients(stallMs, () => now)
  const handle = { writeQueueSize: 0 }
  const client = { _socket: { _handle: handle } } as unknown as WebSocket
  clients.add({ queuedBytes: () => 0, webSocket: () => client, terminate: () => {} })
  return (afterMs: number, bytes: number): boolean => {
    now += afterMs
    handle.writeQueueSize = bytes
    clients.dropStalled()
    return clients.dropped > 0
  }
}

test('a client that reads nothing of a long response for the configured time is stalled', () => {
  const isStalledAfter = simulated(2000)
  assert.equal(isStalledAfter(0, 2 * WAITING_BYTES), false)
  assert.equal(isStalledAfter(1999, 2 * WAITING_BYTES), false)
  assert.equal(isStalledAfter(1, 2 * WAITING_BYTES), true)
})

test('a client that reads a long response slowly is not stalled, however long that takes', () => {
  const isStalledAfter = simulated(2000)
  for (let left = 100; left > 1; left--) assert.equal(isStalledAfter(1999, left * WAITING_BYTES), false)
})

test('a client with little unread is not stalled', () => {
  const isStalledAfter = simulated(2000)
  for (let look = 0; look < 10; look++) assert.equal(isStalledAfter(2000, WAITING_BYTES), false)
})
