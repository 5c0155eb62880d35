import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pino } from 'pino'
import { itemsIn } from '../../src/collections/stored-items.ts'
import type { RestoredCollection } from '../../src/commands/restore.ts'
import type { DomainEvent, Position } from '../../src/events/event.ts'
import { lastPosition, type Recorded } from '../../src/events/journal.ts'
import type { JsonObject, JsonValue } from '../../src/json/value.ts'
import type { CollectionSnapshot } from '../../src/query/collection-snapshot.ts'
import { Queries } from '../../src/query/queries.ts'
import { Refusal } from '../../src/runtime/errors.ts'
import { LimitedLog } from '../../src/runtime/limited-log.ts'
import { MemoryBudget } from '../../src/runtime/memory.ts'
import { WritesInParts } from '../../src/sockets/sockets.ts'
import { parseSubscribe } from '../../src/sockets/subscribe-request.ts'
import type { SubscribeResponse, Subscriber, TextChange } from '../../src/sockets/subscription.ts'
import { Subscriptions } from '../../src/sockets/subscriptions.ts'
import { SimulatedClock } from '../support/clock.ts'
import { snapshotOf } from '../support/collections.ts'
import { diskWith, editOf, openTestEngine } from '../support/engine.ts'
import { Random, SEED } from '../support/random.ts'

const SEEDS = Number(process.env.SUBSCRIPTION_SEEDS ?? 12)
const STEPS = 250
const ORIGIN = { actor: 'ada', requestId: 'r' }

type Items = ReadonlyMap<string, JsonObject>

/** The parameters of a subscription, and the same as a query. */
const QUERIES: readonly (readonly [query: string, holds: (item: JsonObject) => boolean])[] = [
  ['', () => true],
  ['kind=x', ({ kind }) => kind === 'x'],
  ['kind=x&n_gt=50', ({ kind, n }) => kind === 'x' && (n as number) > 50],
  ['kind=x&kind=y', ({ kind }) => kind === 'x' || kind === 'y'],
  ['kind_in=x,z&n_lte=40', ({ kind, n }) => (kind === 'x' || kind === 'z') && (n as number) <= 40],
  ['kind_ne=x', ({ kind }) => kind !== undefined && kind !== 'x'],
  ['kind_ne=x&kind_ne=y', ({ kind }) => kind !== undefined && kind !== 'x' && kind !== 'y'],
  ['kind_exists=false', (item) => !Object.hasOwn(item, 'kind')],
  ['n=7', ({ n }) => n === 7],
  ['n=7.0', ({ n }) => n === 7],
  ['n=7&n=8&kind=y', ({ kind, n }) => (n === 7 || n === 8) && kind === 'y'],
  ['tags=red', ({ tags }) => tags === 'red' || (Array.isArray(tags) && tags.includes('red'))],
  ['tags=["red"]', ({ tags }) => JSON.stringify(tags) === '["red"]'],
  ['on=2026-01-01T01:00:00%2B01:00', ({ on }) => on === '2026-01-01' || on === '2026-01-01T00:00:00Z'],
  ['deep.flag=true', ({ deep }) => (deep as JsonObject | undefined)?.flag === true],
  ['deep.flag=null', ({ deep }) => (deep as JsonObject | undefined)?.flag === null],
  ['q=ED', (item) => JSON.stringify(Object.values(item)).includes('red')],
  ['nothing=1', () => false],
]

interface Asked {
  readonly collection: string
  readonly query: string
  readonly holds: (item: JsonObject) => boolean
}

function randomQuery(random: Random): Asked {
  const [query, holds] = random.pick(QUERIES)
  return { collection: random.pick(['a', 'b', 'c']), query, holds }
}

function randomItem(random: Random): JsonObject {
  return {
    n: random.chance(0.4) ? 7 + random.integer(2) : random.integer(100),
    ...(random.chance(0.9) && { kind: random.pick(['x', 'y', 'z']) }),
    tags: random.pick<JsonValue>([['red'], ['blue', 'red'], 'red', 'green', []]),
    ...(random.chance(0.5) && { on: random.pick(['2026-01-01', '2026-01-01T00:00:00Z', '2026-01-02']) }),
    ...(random.chance(0.5) && { deep: { flag: random.pick([true, false, null]) } }),
  }
}

/** Every state that the collections were in, told by the events alone. */
class States {
  readonly #at: ReadonlyMap<string, Items>[] = [new Map()]

  note({ events }: Recorded): void {
    for (const event of events) this.#at.push(this.#after(event))
  }

  get last(): Position {
    return this.#at.length - 1
  }

  items(collection: string, at: Position): Items {
    const state = this.#at[at]
    assert.ok(state, `position ${at} is none`)
    return state.get(collection) ?? new Map()
  }

  #after(event: DomainEvent): ReadonlyMap<string, Items> {
    const before = this.#at.at(-1) as ReadonlyMap<string, Items>
    if (!('id' in event)) return before
    const items = new Map(before.get(event.collection))
    if ('item' in event) items.set(String(event.id), JSON.parse(event.item.text))
    else items.delete(String(event.id))
    return new Map(before).set(event.collection, items)
  }
}

/** A client whose list is the fold of what it is sent. It notices at once what is not as it was promised. */
class Client implements Subscriber {
  readonly #asked: Asked
  readonly #states: States
  readonly #random: Random
  list = new Map<string, JsonObject>()
  position = 0
  lags = 0
  isLagging = false
  #id: string | undefined
  /** How many changes it can still be sent. */
  #room = Number.POSITIVE_INFINITY
  #waiting: (() => void)[] = []
  #isGone = false
  /** It missed something that it has not been sent yet. */
  isBehind = false

  constructor(states: States, random: Random, asked: Asked) {
    this.#states = states
    this.#random = random
    this.#asked = asked
  }

  async subscribe(
    subscriptions: Subscriptions,
    journal: string,
    resumes: boolean,
  ): Promise<'resumed' | 'reset' | 'new'> {
    const { collection, query } = this.#asked
    const again = resumes ? { after: this.position, journal } : {}
    this.isBehind = resumes
    let how: 'resumed' | 'reset' | 'new' | undefined
    await subscriptions.subscribe(this, parseSubscribe({ collection, query, ...again }), (answered) => {
      assert.ok(!('error' in answered), JSON.stringify(answered))
      assert.equal(how, undefined, 'it is answered once')
      how = this.#answered(answered)
    })
    assert.ok(how, 'it was answered')
    return how
  }

  #answered(answered: Exclude<SubscribeResponse, { readonly error: string }>): 'resumed' | 'reset' | 'new' {
    this.#id = answered.subscription
    this.position = answered.position
    if (!answered.items) return 'resumed'
    // Changes during the search for items are still to come.
    this.isBehind = answered.position < this.#states.last
    this.isLagging = false
    this.list = new Map(answered.items.map(({ key, value }) => [key, value]))
    this.isRightAt(answered.position)
    return answered.reset ? 'reset' : 'new'
  }

  change({ subscription, position, kind, id, text }: TextChange): void {
    const { collection, query, holds } = this.#asked
    const key = String(id)
    const where = `${collection}?${query}, position ${position}`
    assert.ok(!this.#isGone, `${where}: a client that is gone is sent nothing`)
    assert.equal(subscription, this.#id, `${where}: its answer comes before its first change`)
    assert.ok(position > this.position, `${where}: after ${this.position}`)
    assert.equal(kind === 'enter', !this.list.has(key), `${where}: ${kind} of ${key}`)
    this.position = position
    const then = this.#states.items(collection, position).get(key)
    if (kind === 'leave') {
      assert.ok(!then || !holds(then), `${where}: ${key} left though it matches`)
      this.list.delete(key)
    } else {
      assert.deepEqual(JSON.parse(text ?? ''), then, where)
      this.list.set(key, then as JsonObject)
    }
    this.#room--
    if (!this.isLagging) this.isRightAt(position)
  }

  lagging(subscription: string, position: Position): void {
    assert.equal(subscription, this.#id)
    assert.ok(!this.isLagging && position > this.position)
    this.lags++
    this.isLagging = true
    this.isBehind = true
  }

  current(subscription: string, position: Position): void {
    assert.equal(subscription, this.#id)
    assert.ok(this.isBehind && position >= this.position)
    this.position = position
    this.isLagging = false
    this.isBehind = false
    this.isRightAt(position)
  }

  isSlow(): boolean {
    return !this.#isGone && this.#room <= 0
  }

  whenSent(work: () => void): void {
    work()
  }

  drop(): void {}

  whenDrained(work: () => void): void {
    this.#waiting.push(work)
    if (!this.isSlow()) setImmediate(() => this.read())
  }

  /** Reads what it was sent, so that it can be sent so many changes again. */
  read(room = this.#random.chance(0.5) ? Number.POSITIVE_INFINITY : 1 + this.#random.integer(6)): void {
    this.#room = room
    while (this.#waiting.length > 0 && !this.isSlow()) this.#waiting.shift()?.()
  }

  stopReading(): void {
    this.#room = 0
  }

  leave(subscriptions: Subscriptions): void {
    this.#isGone = true
    subscriptions.leave(this)
    this.read()
  }

  /** The same client after a new connection. */
  again(): Client {
    const again = new Client(this.#states, this.#random, this.#asked)
    return Object.assign(again, { list: new Map(this.list), position: this.position, lags: this.lags })
  }

  isRightAt(position: Position): void {
    const { collection, query, holds } = this.#asked
    const expected = [...this.#states.items(collection, position)].filter(([, item]) => holds(item))
    const where = `${collection}?${query}, list at position ${position}`
    assert.deepEqual(Object.fromEntries(this.list), Object.fromEntries(expected), where)
  }
}

async function run(
  random: Random,
): Promise<{ readonly lags: number; readonly resets: number; readonly resumed: number }> {
  const disk = diskWith('{"a":[{"id":0,"n":1}],"b":[]}')
  const { engine, failures } = await openTestEngine(disk.files())
  const { views, past, journal, bus, handler } = engine
  const now = () => new Date()
  const clock = new SimulatedClock()
  const log = new LimitedLog(pino({ level: 'error' }, { write: (line) => assert.fail(line) }), clock.elapsedMs)
  const queries = new Queries({ views, bytes: 2 ** 20 })
  const subscriptions = new Subscriptions({
    views,
    past,
    queries,
    journal,
    log,
    now,
    clock,
    items: 1000,
    perClient: 10,
    memory: new MemoryBudget(),
  })
  let clients: Client[] = []
  let told = journal.head
  const inParts = new WritesInParts({
    deliver: (part, hasMore) => {
      const look = (): void => {
        told = lastPosition(part)
        // One that began in the middle of a large write is further than what is told of it.
        for (const client of clients) if (!client.isBehind) client.isRightAt(Math.max(told, client.position))
      }
      const applied = subscriptions.apply(part, hasMore)
      if (applied) return applied.then(look)
      look()
    },
    pause: () => new Promise((resolve) => setImmediate(resolve)),
    events: 4,
    isLarge: ({ events }) => events.length > 4 && random.chance(0.8),
  })
  const states = new States()
  for await (const recorded of journal.read(1)) states.note(recorded)
  bus.add({
    sockets: {
      apply(recorded) {
        states.note(recorded)
        inParts.add(recorded)
      },
    },
  })
  let [lags, resets, resumed] = [0, 0, 0]
  const count = (how: 'resumed' | 'reset' | 'new'): void => {
    if (how === 'reset') resets++
    if (how === 'resumed') resumed++
  }
  const writes: Promise<unknown>[] = []
  const begin = (writing: Promise<unknown>): void => void writes.push(writing.catch(refusal))
  for (let step = 0; step < STEPS; step++) {
    if (failures.length > 0) throw failures[0]
    const kind = random.integer(30)
    const client = clients.length > 0 ? random.pick(clients) : undefined
    if (kind < 17) begin(write(random, handler))
    else if (kind === 17) begin(edit(random, snapshotOf(views)).then((edit) => handler.merge(edit, ORIGIN)))
    else if (kind === 18) {
      const to = random.integer(states.last + 1)
      const collections = new Map<string, RestoredCollection | undefined>()
      const earlier: CollectionSnapshot[] = []
      for (const name of ['a', 'b']) {
        const then = past.existed(name, to) ? await past.collection(name, to) : undefined
        collections.set(name, then && { items: () => itemsIn(then.items) })
        if (then) earlier.push(then)
      }
      const restoring = handler.restore({ type: 'collections', collections }, ORIGIN, false)
      begin(restoring.finally(() => earlier.forEach((reading) => void reading.release())))
    } else if (kind < 21 && clients.length < 14) {
      const one = new Client(states, random, randomQuery(random))
      count(await one.subscribe(subscriptions, journal.id, false))
      clients.push(one)
    } else if (kind < 23) client?.stopReading()
    else if (kind < 26) client?.read()
    else if (kind < 29 && client) {
      client.leave(subscriptions)
      const again = client.again()
      clients = clients.filter((other) => other !== client)
      if (random.chance(0.5)) await Promise.all(writes)
      const isStale = random.chance(0.15)
      const stale = isStale && random.chance(0.5)
      if (stale) again.position = states.last + 1 + random.integer(1e6)
      const resumes = isStale || !client.isLagging
      const how = await again.subscribe(subscriptions, isStale && !stale ? 'another' : journal.id, resumes)
      assert.equal(how, isStale ? 'reset' : resumes ? 'resumed' : 'new')
      count(how)
      clients.push(again)
    } else await new Promise((resolve) => setImmediate(resolve))
  }
  await Promise.all(writes)
  if (failures.length > 0) throw failures[0]
  for (let turns = 0; told < states.last || clients.some(({ isBehind }) => isBehind); turns++) {
    assert.ok(turns < 10_000, 'every client catches up')
    for (const client of clients) client.read()
    await new Promise((resolve) => setImmediate(resolve))
  }
  for (const client of clients) {
    client.isRightAt(states.last)
    lags += client.lags
  }
  assert.deepEqual(failures, [])
  for (const client of clients) client.leave(subscriptions)
  await engine.close()
  return { lags, resets, resumed }
}

/** A write may be refused: what it is about may not be there. */
function refusal(error: unknown): void {
  if (!(error instanceof Refusal)) throw error
}

async function write(random: Random, handler: Awaited<ReturnType<typeof openTestEngine>>['engine']['handler']) {
  const collection = random.pick(['a', 'b', 'c'])
  const key = String(random.integer(8))
  switch (random.integer(5)) {
    case 0:
      return handler.handle({ type: 'DeleteItem', collection, key }, ORIGIN)
    case 1:
      return handler.handle({ type: 'CreateItem', collection, item: randomItem(random) }, ORIGIN)
    case 2: {
      const document = { n: random.integer(100), kind: random.pick(['x', 'y']) }
      return handler.handle({ type: 'PatchItem', collection, key, patch: { type: 'merge', document } }, ORIGIN)
    }
    default:
      return handler.handle({ type: 'ReplaceItem', collection, key, item: randomItem(random) }, ORIGIN)
  }
}

/** An edit of the data file: items moved, changed, removed; now and then a whole collection. */
function edit(random: Random, base: ReadonlyMap<string, readonly JsonObject[]>) {
  const file = new Map<string, readonly JsonObject[]>()
  for (const [name, items] of base) {
    if (random.chance(0.25)) continue
    const kept = items.flatMap((item) =>
      random.chance(0.2) ? [] : [random.chance(0.3) ? { ...item, ...randomItem(random) } : item],
    )
    file.set(name, random.chance(0.5) ? kept.reverse() : kept)
  }
  return editOf(file, base)
}

test('a subscription gives the right list at every position, through lags, resets and lost connections', async (t) => {
  let [lags, resets, resumed] = [0, 0, 0]
  for (let index = 0; index < SEEDS; index++) {
    const seed = (SEED + index) >>> 0
    try {
      const done = await run(new Random(seed))
      lags += done.lags
      resets += done.resets
      resumed += done.resumed
    } catch (error) {
      throw new Error(`SEED=${seed} SUBSCRIPTION_SEEDS=1`, { cause: error })
    }
  }
  t.diagnostic(`${SEEDS} seeds of ${STEPS} steps: ${lags} lags, ${resets} resets, ${resumed} resumed`)
  assert.ok(lags > SEEDS / 4 && resets > SEEDS / 4 && resumed > SEEDS)
})
