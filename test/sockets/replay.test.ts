import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { pino } from 'pino'
import { io, type Socket } from 'socket.io-client'
import type { DomainEvent, ItemId, Position } from '../../src/events/event.ts'
import { type Journal, lastPosition } from '../../src/events/journal.ts'
import { Document } from '../../src/json/document.ts'
import type { JsonObject } from '../../src/json/value.ts'
import { Past } from '../../src/projections/past.ts'
import { Views } from '../../src/projections/views.ts'
import { Queries } from '../../src/query/queries.ts'
import { LimitedLog } from '../../src/runtime/limited-log.ts'
import { MemoryBudget, UNLIMITED } from '../../src/runtime/memory.ts'
import type { Change, Subscribed } from '../../src/sockets/protocol.ts'
import { WritesInParts } from '../../src/sockets/sockets.ts'
import { parseSubscribe, type SubscribeRequest } from '../../src/sockets/subscribe-request.ts'
import type { SubscribeResponse, Subscriber, TextChange } from '../../src/sockets/subscription.ts'
import { rejectionOf, Subscriptions } from '../../src/sockets/subscriptions.ts'
import { SimulatedClock, turns } from '../support/clock.ts'
import { project, storedHistory } from '../support/collections.ts'
import { once, turnsUntil, until, within } from '../support/deadline.ts'
import type { Scope } from '../support/directory.ts'
import { memoryJournal } from '../support/journal.ts'
import { Random, SEED } from '../support/random.ts'
import { json } from '../support/server.ts'
import { startServer } from '../support/service.ts'

const NOON = Date.parse('2026-11-20T12:00:00.000Z')
const iso = (ms: number): string => new Date(ms).toISOString()

/** A change, with the moment of the simulated clock at which it came. */
interface Told {
  readonly at: number
  readonly change: Change
}

/** Subscriptions over a journal whose events have the times that a test gives them. */
class World {
  readonly clock = new SimulatedClock()
  readonly views = Views.temporary()
  readonly journal: Journal
  readonly subscriptions: Subscriptions
  /** The position up to which the subscriptions were notified. */
  told: Position = 0
  /** By position: when an event happened, by its own time and by the simulated clock. */
  readonly times: (readonly [recorded: number, written: number])[] = [[0, 0]]
  readonly #revisions = new Map<string, { revision: number; prior: Position }>()
  #now = NOON
  /** Reads of the journal that are under way, and how many there were at most. */
  reading = 0
  mostReading = 0

  constructor(items = 100) {
    this.journal = memoryJournal('00000000-0000-4000-8000-000000000001', () => new Date(this.#now))
    const history = storedHistory(this.views)
    const journal = this.#watched()
    this.subscriptions = new Subscriptions({
      views: this.views,
      past: new Past(journal, this.views, history, UNLIMITED),
      queries: new Queries({ views: this.views, bytes: 2 ** 20 }),
      journal,
      log: new LimitedLog(pino({ level: 'silent' }), () => 0),
      now: () => new Date(this.#now),
      clock: this.clock,
      items,
      perClient: 3,
      memory: new MemoryBudget(),
    })
    const writes = new WritesInParts({
      deliver: async (part, hasMore) => {
        await this.subscriptions.apply(part, hasMore)
        this.told = lastPosition(part)
      },
      pause: turn,
    })
    this.journal.follow((recorded) => {
      project(this.views, recorded)
      writes.add(recorded)
    })
  }

  #watched(): Pick<Journal, 'id' | 'head' | 'read' | 'at' | 'timeMs'> {
    const { journal } = this
    const world = this
    return {
      id: journal.id,
      get head() {
        return journal.head
      },
      get timeMs() {
        return journal.timeMs
      },
      at: journal.at,
      async *read(from, to) {
        world.mostReading = Math.max(world.mostReading, ++world.reading)
        try {
          // As the opening of a file would.
          await turn()
          yield* journal.read(from, to)
        } finally {
          world.reading--
        }
      },
    }
  }

  /** Writes at a time; the item without fields is deleted. */
  async write(
    ms: number,
    ...changes: readonly (readonly [collection: string, id: ItemId, item?: JsonObject])[]
  ): Promise<void> {
    this.#now = ms
    const events: DomainEvent[] = []
    const expected = this.journal.head + 1
    for (const [collection, id, item] of changes) {
      if (!this.views.any(collection) && !events.some((event) => event.collection === collection))
        events.push({ type: 'CollectionCreated', collection })
      const { revision, prior } = this.#revisions.get(`${collection} ${id}`) ?? { revision: 0, prior: 0 }
      const of = { collection, id, revision: revision + 1, prior }
      this.#revisions.set(`${collection} ${id}`, { revision: revision + 1, prior: expected + events.length })
      if (item)
        events.push({
          ...of,
          type: revision === 0 ? 'ItemCreated' : 'ItemReplaced',
          item: Document.of({ id, ...item }),
        })
      else events.push({ ...of, type: 'ItemDeleted' })
    }
    await this.journal.append({ expected, actor: 'a', requestId: 'r', events })
    await turnsUntil('the end of a write', () => this.told >= this.journal.head)
    for (const _ of events) this.times.push([ms, this.clock.elapsedMs()])
  }

  connect(): Client {
    return new Client(this)
  }
}

/** Keeps its list as any client of subscriptions does: it knows nothing of replays. */
class Client implements Subscriber {
  readonly told: Told[] = []
  readonly items = new Map<string, unknown>()
  readonly lives: Position[] = []
  readonly faults: string[] = []
  position: Position = 0
  isReading = true
  whenCurrent = (): void => {}
  readonly #world: World
  #drained: (() => void)[] = []

  constructor(world: World) {
    this.#world = world
  }

  async subscribe(wanted: object): Promise<SubscribeResponse> {
    let request: SubscribeRequest
    try {
      request = parseSubscribe(wanted)
    } catch (error) {
      return rejectionOf(error)
    }
    const answered = await within(
      'the response to a subscription',
      new Promise<SubscribeResponse>((resolve, reject) => {
        this.#world.subscriptions.subscribe(this, request, resolve).catch(reject)
      }),
    )
    if ('error' in answered) return answered
    for (const { key, value } of answered.items ?? []) this.items.set(key, value)
    this.position = answered.position
    return answered
  }

  change({ text, ...others }: TextChange): void {
    const change: Change = text === undefined ? others : { ...others, item: JSON.parse(text) }
    const { position, kind, id, item } = change
    if (position <= this.position) this.faults.push(`position ${position} after ${this.position}`)
    if ((kind === 'enter') === this.items.has(String(id))) this.faults.push(`${kind} of ${id} at ${position}`)
    this.position = position
    if (kind === 'leave') this.items.delete(String(id))
    else this.items.set(String(id), item)
    this.told.push({ at: this.#world.clock.elapsedMs(), change })
  }

  current(_subscription: string, position: Position): void {
    this.lives.push(position)
    this.whenCurrent()
  }

  lagging(): void {
    this.faults.push('lagging')
  }

  isSlow(): boolean {
    return !this.isReading
  }

  whenSent(work: () => void): void {
    work()
  }

  drop(): void {}

  whenDrained(work: () => void): void {
    this.#drained.push(work)
  }

  readOn(): void {
    this.isReading = true
    for (const work of this.#drained.splice(0)) work()
  }

  get positions(): readonly Position[] {
    return this.told.map(({ change }) => change.position)
  }
}

/** Events that are due sooner are sent together. */
const LATEST_MS = 10.001
const SECOND = 1000
const DAY = 24 * 60 * 60 * SECOND

describe('a replay', () => {
  test('begins with the items of the past, and advances at a multiple of the original speed', async () => {
    const world = new World()
    await world.write(NOON, ['a', 1, { n: 1 }], ['a', 2, { n: 1 }])
    await world.write(NOON + 60 * SECOND, ['a', 1, { n: 2 }])
    await world.write(NOON + 90 * SECOND, ['a', 2])
    const client = world.connect()
    const answered = await client.subscribe({ collection: 'a', from: 3, speed: 10 })
    assert.deepEqual('items' in answered && answered.items?.map(({ value }) => value), [
      { id: 1, n: 1 },
      { id: 2, n: 1 },
    ])
    assert.equal('position' in answered && answered.position, 3)
    await world.clock.pass(5999)
    assert.deepEqual(client.told, [])
    await world.clock.pass(1)
    assert.deepEqual(client.positions, [4])
    assert.deepEqual(client.lives, [])
    await world.clock.pass(2999)
    assert.deepEqual(client.positions, [4])
    await world.clock.pass(1)
    assert.deepEqual(client.positions, [4, 5])
    assert.deepEqual([...client.items.values()], [{ id: 1, n: 2 }])
    assert.deepEqual(client.lives, [5], 'and then it is live')
    assert.equal(world.clock.waiting, 0)
  })

  test('from an instant starts at that instant, not at the event before it', async () => {
    const world = new World()
    await world.write(NOON, ['a', 1, { n: 1 }])
    await world.write(NOON + 100 * SECOND, ['a', 1, { n: 2 }])
    const client = world.connect()
    const answered = await client.subscribe({ collection: 'a', from: iso(NOON + 40 * SECOND), speed: 1 })
    assert.equal('position' in answered && answered.position, 2)
    await world.clock.pass(60 * SECOND - 1)
    assert.deepEqual(client.positions, [])
    await world.clock.pass(1)
    assert.deepEqual(client.positions, [3])
  })

  test('from before the journal starts at once with the first event', async () => {
    const world = new World()
    await world.write(NOON, ['a', 1, { n: 1 }])
    for (const from of [0, '0', '2001-01-01']) {
      const client = world.connect()
      const answered = await client.subscribe({ collection: 'a', from })
      assert.deepEqual('items' in answered && answered.items, [])
      await turns()
      assert.deepEqual([client.positions, client.lives], [[2], [2]], String(from))
    }
  })

  test('from the head, even of an empty journal, is live at once', async () => {
    const world = new World()
    const first = world.connect()
    await first.subscribe({ collection: 'a', from: 0, speed: 1000 })
    await turns()
    assert.deepEqual(first.lives, [0])
    await world.write(NOON, ['a', 1, { n: 1 }])
    assert.deepEqual(first.positions, [2])
    const second = world.connect()
    await second.subscribe({ collection: 'a', from: iso(NOON) })
    await turns()
    assert.deepEqual([second.positions, second.lives, second.items.size], [[], [2], 1])
  })

  test('waits through gaps of weeks and years, longer than the longest timer', async () => {
    const world = new World()
    await world.write(NOON, ['a', 1, { n: 1 }])
    await world.write(NOON + 1000 * DAY, ['a', 1, { n: 2 }])
    const client = world.connect()
    await client.subscribe({ collection: 'a', from: 2, speed: 1 })
    await world.clock.pass(1000 * DAY - 1)
    assert.deepEqual(client.positions, [])
    await world.clock.pass(1)
    assert.deepEqual(client.positions, [3])
  })

  test('starts lists together and keeps them so: each becomes live when all events have been replayed', async () => {
    const world = new World()
    await world.write(NOON, ['a', 1, { n: 1 }], ['b', 1, { n: 1 }])
    await world.write(NOON + 10 * SECOND, ['a', 1, { n: 2 }])
    await world.write(NOON + 50 * SECOND, ['b', 1, { n: 2 }])
    const [a, b] = [world.connect(), world.connect()]
    await a.subscribe({ collection: 'a', from: 4 })
    await b.subscribe({ collection: 'b', from: 4 })
    await world.clock.pass(49 * SECOND)
    assert.deepEqual([a.positions, a.lives, b.positions], [[5], [], []])
    await world.clock.pass(SECOND)
    assert.deepEqual([a.lives, b.positions, b.lives], [[6], [6], [6]])
  })

  test('includes events that are written meanwhile, and reports later ones at once', async () => {
    const world = new World()
    await world.write(NOON, ['a', 1, { n: 1 }])
    await world.write(NOON + 10 * SECOND, ['a', 1, { n: 2 }])
    const client = world.connect()
    await client.subscribe({ collection: 'a', from: 2, speed: 2 })
    await world.clock.pass(SECOND)
    await world.write(NOON + 20 * SECOND, ['a', 1, { n: 3 }])
    await world.clock.pass(4 * SECOND)
    assert.deepEqual([client.positions, client.lives], [[3], []])
    await world.clock.pass(5 * SECOND)
    assert.deepEqual([client.positions, client.lives], [[3, 4], [4]])
    await world.write(NOON + DAY, ['a', 1, { n: 4 }])
    assert.deepEqual([client.positions, client.faults], [[3, 4, 5], []])
  })

  test('holds no open read while it waits, and no timer after its end', async () => {
    const world = new World()
    await world.write(NOON, ['a', 1, { n: 1 }])
    await world.write(NOON + DAY, ['a', 1, { n: 2 }])
    const [ended, gone] = [world.connect(), world.connect()]
    const answered = await ended.subscribe({ collection: 'a', from: 0 })
    await gone.subscribe({ collection: 'a', from: 0 })
    await world.clock.pass(SECOND)
    assert.equal(world.clock.waiting, 2)
    assert.equal(world.reading, 0)
    assert.ok('subscription' in answered && world.subscriptions.unsubscribe(ended, answered.subscription))
    assert.equal(world.clock.waiting, 1)
    world.subscriptions.leave(gone)
    assert.equal(world.clock.waiting, 0)
    await world.clock.pass(2 * DAY)
    for (const client of [ended, gone]) assert.deepEqual([client.positions, client.lives], [[2], []])
    assert.equal(world.reading, 0)
  })

  test('leaves nothing behind when the client disconnects before the start', async () => {
    const world = new World()
    await world.write(NOON, ['a', 1, { n: 1 }])
    await world.write(NOON + DAY, ['a', 1, { n: 2 }])
    const client = world.connect()
    const answering = client.subscribe({ collection: 'a', from: iso(NOON) })
    world.subscriptions.leave(client)
    await answering
    await world.clock.pass(2 * DAY)
    assert.deepEqual([client.positions, client.lives, world.clock.waiting, world.reading], [[], [], 0, 0])
  })

  test('sends everything to a slow client, later, and buffers nothing for it', async () => {
    const world = new World()
    await world.write(NOON, ['a', 1, { n: 0 }])
    for (let n = 1; n <= 9; n++) await world.write(NOON + n * SECOND, ['a', 1, { n }])
    const client = world.connect()
    await client.subscribe({ collection: 'a', from: 2, speed: 1 })
    await world.clock.pass(3 * SECOND)
    client.isReading = false
    await world.clock.pass(3 * SECOND)
    assert.deepEqual([client.positions, world.reading, world.clock.waiting], [[3, 4, 5], 0, 0])
    client.readOn()
    await turns()
    assert.deepEqual(client.positions, [3, 4, 5, 6, 7, 8], 'all that is due by now')
    await world.clock.pass(3 * SECOND)
    assert.deepEqual([client.positions.at(-1), client.lives, client.faults], [11, [11], []])
  })

  test('shares time among clients that catch up', async () => {
    const world = new World()
    await world.write(NOON, ['a', 1, { n: 0 }])
    for (let n = 1; n <= 1000; n++) await world.write(NOON, ['a', 1, { n }])
    const long = Array.from({ length: 6 }, () => world.connect())
    const short = world.connect()
    for (const client of long) await client.subscribe({ collection: 'a', from: 2 })
    await short.subscribe({ collection: 'a', from: 992 })
    world.mostReading = 0
    let before: readonly number[] = []
    short.whenCurrent = () => {
      before = long.map(({ told }) => told.length)
    }
    await until('the short one to be current', () => short.lives.length > 0)
    assert.equal(before.length, long.length)
    assert.ok(
      before.every((told) => told < 1000),
      `${before} came before the 10`,
    )
    await until('all to be current', () => long.every(({ lives }) => lives.length > 0))
    for (const client of long) assert.deepEqual([client.told.length, client.faults], [1000, []])
    assert.equal(world.mostReading, 2, 'for two of them the journal is read at once')
  })

  test('counts as a subscription of the client, unless it is rejected', async () => {
    const world = new World(1)
    await world.write(NOON, ['a', 1, { n: 1 }], ['a', 2, { n: 2 }])
    const client = world.connect()
    const large = await client.subscribe({ collection: 'a', from: 3 })
    assert.ok('error' in large && large.error === 'TooLarge' && large.position === 3, JSON.stringify(large))
    const beyond = await client.subscribe({ collection: 'a', from: 4 })
    assert.equal('error' in beyond && beyond.error, 'Invalid')
    const several = Array.from({ length: 5 }, () => client.subscribe({ collection: 'a', query: 'n=1', from: 3 }))
    const answers = (await Promise.all(several)).map((one) => ('error' in one ? one.error : 'ok'))
    assert.deepEqual(answers, ['ok', 'ok', 'ok', 'TooMany', 'TooMany'])
  })

  test('rejects invalid requests as Invalid, with the reason', async () => {
    const world = new World()
    await world.write(NOON, ['a', 1, { n: 1 }])
    const wrong: readonly (readonly [object, RegExp])[] = [
      [{ from: 3 }, /beyond the last position, 2/],
      [{ from: '3' }, /beyond the last position, 2/],
      [{ from: iso(NOON + 1) }, /in the future/],
      [{ from: 'yesterday' }, /from must be a position or an ISO 8601 date-time/],
      [{ from: -1 }, /from must be a position/],
      [{ from: 1.5 }, /from must be a position/],
      [{ from: null }, /from must be a position/],
      [{ from: { position: 1 } }, /from must be a position/],
      [{ from: 1, after: 1 }, /only one of them/],
      [{ from: 1, after: 1, journal: world.journal.id }, /only one of them/],
      [{ speed: 60 }, /speed needs from/],
      [{ after: 1, journal: world.journal.id, speed: 60 }, /speed needs from/],
      ...[0, 0.5, -1, 1001, Number.NaN, Number.POSITIVE_INFINITY, '60', null].map(
        (speed): readonly [object, RegExp] => [{ from: 1, speed }, /speed must be a number from 1 to 1000/],
      ),
      [{ from: 1, query: 'sort=n' }, /not sort/],
    ]
    for (const [sent, message] of wrong) {
      const answered = await world.connect().subscribe({ collection: 'a', ...sent })
      assert.equal('error' in answered && answered.error, 'Invalid', JSON.stringify(sent))
      assert.match('error' in answered ? answered.message : '', message)
    }
    assert.equal(world.clock.waiting, 0)
  })

  test('sends each change of any journal when it is due, none missing, none doubled, and then live ones', async () => {
    const random = new Random(SEED)
    let played = 0
    for (let round = 0; round < 8; round++) {
      const context = `SEED=${SEED}, round ${round}`
      const world = new World()
      let ms = NOON
      const write = (): Promise<void> => {
        ms += random.pick([0, 0, 1, 7, 400, 5000, 60_000, 3_600_000])
        const ids = new Set(Array.from({ length: 1 + random.integer(3) }, () => random.integer(6)))
        const changes = [...ids].map((id) => {
          const collection = random.pick(['a', 'b'])
          const isThere = world.views.find(collection)?.item(String(id)) !== undefined
          if (isThere && random.chance(0.3)) return [collection, id] as const
          return [collection, id, { n: random.integer(10) }] as const
        })
        return world.write(ms, ...changes)
      }
      for (let n = 0; n < 60; n++) await write()
      const players = []
      for (let n = 0; n < 6; n++) {
        const client = world.connect()
        const from = random.integer(world.journal.head + 1)
        const speed = random.pick([1, 2.5, 60, 999.9, 1000])
        const [collection, query] = [random.pick(['a', 'b']), random.pick(['', 'n_gt=4', 'n=3'])]
        const began = world.clock.elapsedMs()
        const answered = await client.subscribe({ collection, query, from, speed })
        assert.equal('position' in answered && answered.position, from, context)
        players.push({ client, from, speed, collection, query, began })
        await world.clock.pass(random.integer(100))
      }
      for (let n = 0; n < 20; n++) {
        await write()
        await world.clock.pass(random.integer(2000))
      }
      await world.clock.pass(ms - NOON + SECOND)
      for (const { client } of players) assert.deepEqual(client.lives.length, 1, context)
      for (let n = 0; n < 10; n++) await write()
      for (const { client, from, speed, collection, query, began } of players) {
        const watched = world.connect()
        await watched.subscribe({ collection, query })
        assert.deepEqual([...client.items].sort(), [...watched.items].sort(), `${context}: ${from} ${query}`)
        assert.deepEqual(client.faults, [], context)
        const [origin] = world.times[Math.max(1, from)] as readonly [number, number]
        const [lastPlayed = 0] = client.lives
        for (const { at, change } of client.told) {
          if (change.position > lastPlayed) continue
          const [recorded, written] = world.times[change.position] as readonly [number, number]
          const due = began + (recorded - origin) / speed
          const isInTime = at >= due - 0.001 && at <= Math.max(due, written) + LATEST_MS
          assert.ok(isInTime, `${context}: ${change.position}, due ${due}, written ${written}, came ${at}`)
        }
        played += client.positions.filter((position) => position <= lastPlayed).length
      }
    }
    assert.ok(played > 300, 'there was something to play')
  })
})

async function open(t: Scope, url: string): Promise<Socket> {
  const socket = io(url, { transports: ['websocket'], forceNew: true, reconnection: false })
  t.after(async () => void socket.close())
  await once(socket, 'connect')
  return socket
}

function subscribe(socket: Socket, wanted: object): Promise<Subscribed> {
  return within('the response to a subscription', socket.emitWithAck('subscribe', wanted))
}

describe('a replay over Socket.IO', () => {
  test('replays the recorded events, reports when it is live, and continues', async (t) => {
    const server = await startServer(t, { data: { a: [{ id: 0, n: 0 }] }, flags: ['--Api.UpsertOnPut', 'true'] })
    for (let n = 1; n <= 20; n++) await server.fetch(`/api/a/${n % 4}`, json('PUT', { n }))
    const socket = await open(t, server.url)
    const changes: Change[] = []
    const lives: { subscription: string; position: number }[] = []
    socket.on('change', (change: Change) => changes.push(change))
    socket.on('current', (live: { subscription: string; position: number }) => lives.push(live))
    const answered = await subscribe(socket, { collection: 'a', from: 2, speed: 1000 })
    assert.ok('subscription' in answered)
    assert.deepEqual(answered.items, [{ id: 0, n: 0 }])
    await until('the replay is live', () => lives.length > 0)
    assert.deepEqual(lives, [{ subscription: answered.subscription, position: 22 }])
    assert.deepEqual(
      changes.map(({ position }) => position),
      Array.from({ length: 20 }, (_, index) => index + 3),
    )
    await server.fetch('/api/a/0', { method: 'DELETE' })
    const last = await until('the next change', () => changes[20])
    assert.deepEqual(last, { subscription: answered.subscription, position: 23, kind: 'leave', id: 0 })
  })

  test('sends everything to a reader that pauses, which stays connected', async (t) => {
    const server = await startServer(t, { data: { a: [] }, flags: ['--Api.UpsertOnPut', 'true'] })
    const text = 'x'.repeat(100_000)
    for (let n = 0; n < 160; n++) await server.fetch(`/api/a/${n % 7}`, json('PUT', { n, text }))
    const socket = await open(t, server.url)
    const transport = socket.io.engine.transport as unknown as { ws: { _socket: { pause(): void; resume(): void } } }
    const positions: number[] = []
    let live = 0
    socket.on('change', ({ position }: Change) => positions.push(position))
    socket.on('current', ({ position }: { position: number }) => {
      live = position
    })
    await subscribe(socket, { collection: 'a', from: 0, speed: 1000 })
    transport.ws._socket.pause()
    // Each of these drops whoever has too much waiting.
    for (let n = 0; n < 20; n++) await server.fetch('/api/b/1', json('PUT', { n }))
    transport.ws._socket.resume()
    await until('the replay is live', () => live > 0)
    assert.deepEqual(
      positions,
      Array.from({ length: 160 }, (_, index) => index + 2),
    )
    assert.equal(live, 182)
  })
})
