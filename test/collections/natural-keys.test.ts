import assert from 'node:assert/strict'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { type KeyFields, type NaturalKey, naturalKeyOf } from '../../src/collections/natural-keys.ts'
import { Overlay } from '../../src/collections/overlay.ts'
import type { DomainEvent, ItemId, Position } from '../../src/events/event.ts'
import type { Recorded } from '../../src/events/journal.ts'
import { Document } from '../../src/json/document.ts'
import { orderKey } from '../../src/json/order-key.ts'
import type { JsonObject, JsonValue } from '../../src/json/value.ts'
import { Views, type ViewsOptions } from '../../src/projections/views.ts'
import { Ended } from '../../src/runtime/errors.ts'
import { prefixEnd, TAG, tableKey } from '../../src/store/keys.ts'
import { Store } from '../../src/store/store.ts'
import { fullDisk, project, recordOf } from '../support/collections.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { Random, SEED } from '../support/random.ts'

const collection = 'readings'
const [MAC, TIME, N] = [['mac'], ['timestamp'], ['n']]

/** Ways to find an item by mac and timestamp. */
const WAYS: Readonly<Record<string, NaturalKey>> = {
  rows: { fields: [MAC, TIME], timePart: 1 },
  index: { fields: [MAC, TIME], timePart: 1, index: [MAC, TIME] },
  'longer index in another order': { fields: [TIME, MAC], timePart: 0, index: [TIME, MAC, N] },
}
const ROWS = WAYS.rows as NaturalKey

function optionsOf(naturalKey: NaturalKey) {
  const keyFields: KeyFields = new Map([[collection, naturalKey]])
  return { keyFields, times: new Map([[collection, TIME]]) }
}

/** Equal values, values of all types, and those that an index cuts, has several of, or does not have. */
const MACS: readonly JsonValue[] = [
  ...['a', 1, true, ['x'], ['x', 'y'], [], [[]], { mac: 'a' }, [{ mac: 'a' }, { mac: 'b' }], null],
  ...['x'.repeat(250), 'x'.repeat(600), `${'x'.repeat(600)}y`],
]
const TIMES: readonly JsonValue[] = [
  ...['2026-01-01T01:00:00', '2026-01-01T01:00:00Z', 1_767_229_200, '2026-01-01T02:00:00', null],
  // As the natural key of the second one, so an index has the first one: neither is an instant.
  ...['noon', orderKey('noon'), ['2026-01-01T01:00:00', '2026-01-01T02:00:00'], { at: 1 }, [], 'x'.repeat(600)],
]
/** Not indexed. */
const LONG = 'x'.repeat(40_000)

function anyItem(random: Random, id: ItemId): JsonObject {
  const item: Record<string, JsonValue> = { id, n: random.pick([0, 1, [1, 2], 'n'.repeat(500)]) }
  if (random.chance(0.95)) item.mac = random.pick(MACS)
  if (random.chance(0.95)) item.timestamp = random.pick(TIMES)
  if (random.chance(0.2)) item.long = LONG
  return item
}

/** The events of a collection, and its items after them. */
class World {
  readonly items = new Map<ItemId, JsonObject>()
  readonly #last = new Map<ItemId, { readonly revision: number; readonly position: Position }>()
  #head = 0
  #events: DomainEvent[] = []

  get head(): Position {
    return this.#head
  }

  add(event: DomainEvent): void {
    this.#head++
    this.#events.push(event)
  }

  put(item: JsonObject): void {
    const id = item.id as ItemId
    const type = this.items.has(id) ? 'ItemReplaced' : 'ItemCreated'
    this.items.set(id, item)
    this.add({ type, collection, ...this.#next(id), item: Document.of(item) })
  }

  delete(id: ItemId): void {
    this.items.delete(id)
    this.add({ type: 'ItemDeleted', collection, ...this.#next(id) })
  }

  expire(id: ItemId, place: number): void {
    this.items.delete(id)
    const { revision, prior: position } = this.#next(id)
    const run = { id, count: 1, place, revision: revision - 1, position, step: 0 }
    this.add({ type: 'ItemsExpired', collection, rule: '90d', runs: [run] })
  }

  order(random: Random): void {
    this.add({ type: 'CollectionOrdered', collection, ids: [...this.items.keys()].filter(() => random.chance(0.7)) })
  }

  /** The events that were added since the last write. */
  write(): Recorded {
    const events = this.#events
    this.#events = []
    return recordOf(this.#head - events.length + 1, events)
  }

  /** The ids of the items that have the natural key of another one. */
  holdersOf(probe: JsonObject): readonly string[] {
    const wanted = naturalKeyOf(probe, ROWS)
    if (wanted === undefined) return []
    return Array.from(this.items)
      .filter(([, item]) => naturalKeyOf(item, ROWS) === wanted)
      .map(([id]) => String(id))
  }

  get isUnique(): boolean {
    return [...this.items.values()].every((item) => this.holdersOf(item).length <= 1)
  }

  #next(id: ItemId) {
    const { revision, position: prior } = this.#last.get(id) ?? { revision: 0, position: 0 }
    this.#last.set(id, { revision: revision + 1, position: this.#head + 1 })
    return { id, revision: revision + 1, prior }
  }
}

const PROBES: readonly JsonObject[] = MACS.flatMap((mac) => TIMES.map((timestamp) => ({ mac, timestamp })))

/** Finds the items of all natural keys. */
function check(world: World, find: (probe: JsonObject) => string | undefined, context: string): void {
  for (const probe of [...PROBES, ...world.items.values()]) {
    const holders = world.holdersOf(probe)
    const found = find(probe)
    const told = `${context}: ${JSON.stringify(probe).slice(0, 200)} of ${holders} is found as ${found}`
    assert.ok(holders.length === 0 ? found === undefined : holders.includes(found as string), told)
  }
}

const finderIn = (views: Views, naturalKey: NaturalKey) => (probe: JsonObject) => {
  const text = naturalKeyOf(probe, naturalKey)
  return text === undefined ? undefined : views.any(collection)?.holderOf(text)
}

/** Views with a file of their own. */
async function started(t: TestContext, options: ViewsOptions): Promise<Views> {
  return new Views(Store.open(join(await temporaryDirectory(t), 'store.mdb')), options)
}

/** Ends views, and starts others with their file. */
async function restarted(views: Views, options: ViewsOptions): Promise<Views> {
  views.end()
  await views.store.close()
  return new Views(Store.open(views.store.path), options)
}

/** The rows of natural keys, besides those of facts. */
function rowsIn(store: Store): number {
  return store.rows(tableKey(TAG.naturalKey, 1), prefixEnd(Buffer.from([TAG.naturalKey]))).length
}

/** Puts, deletes and exchanges some items in one write; `isAllowed` may undo a change. */
function change(world: World, random: Random, isAllowed: () => boolean): void {
  for (let left = 1 + random.integer(5); left > 0; left--) {
    const id = random.integer(12)
    const before = world.items.get(id)
    const kind = random.integer(10)
    if (kind < 6) {
      const item = anyItem(random, id)
      world.items.set(id, item)
      const isGood = isAllowed()
      if (before) world.items.set(id, before)
      else world.items.delete(id)
      if (isGood) world.put(item)
    } else if (kind < 8 && before) {
      const { long, ...rest } = before
      if (kind < 7) world.delete(id)
      // With the same natural key, an index may order the item no longer, or again.
      else world.put({ ...rest, n: random.integer(2), ...(long === undefined && { long: LONG }) })
    } else if (kind < 9) {
      const [one, other] = [random.pick([...world.items.values()]), random.pick([...world.items.values()])]
      if (one && other && one.id !== other.id) {
        world.put({ ...other, id: one.id as ItemId })
        world.put({ ...one, id: other.id as ItemId })
      }
    } else world.order(random)
  }
}

test('natural keys find the same items with an index as with rows, after random writes and starts', async (t) => {
  const random = new Random(SEED)
  for (const [way, naturalKey] of Object.entries(WAYS)) {
    const options = optionsOf(naturalKey)
    const world = new World()
    let views = await started(t, options)
    await views.buildNaturalKeys()
    world.add({ type: 'CollectionCreated', collection })
    for (let step = 0; step < 150; step++) {
      // As an engine does after a start: no write is looked at for a second item with its key.
      if (random.chance(0.1)) views.trustDecisions()
      const context = `${way}, step ${step}, SEED=${SEED}`
      const old = random.chance(0.1) ? random.pick([...world.items.keys()]) : undefined
      if (old !== undefined) world.expire(old, views.any(collection)?.placeOf(old) as number)
      change(world, random, () => world.isUnique)
      project(views, world.write())
      check(world, finderIn(views, naturalKey), context)
      assert.equal(views.hasNaturalKeys, true, context)
      if (random.chance(0.1)) {
        views = await restarted(views, options)
        assert.equal(views.hasNaturalKeys, true, `a start: ${context}`)
      }
    }
    const rows = rowsIn(views.store)
    for (const settings of [{}, options]) {
      views = await restarted(views, { times: options.times, ...settings })
      await views.buildNaturalKeys()
      await views.tidyNaturalKeys()
    }
    assert.equal(rowsIn(views.store), rows, `as many rows as after a build: ${way}, SEED=${SEED}`)
  }
})

test('natural keys of a store change between rows and indexes with the settings', async (t) => {
  const random = new Random(SEED)
  const world = new World()
  world.add({ type: 'CollectionCreated', collection })
  let views = await started(t, {})
  for (let step = 0; step < 40; step++) {
    const way = random.pick([undefined, ...Object.keys(WAYS)])
    const naturalKey = way === undefined ? undefined : WAYS[way]
    const context = `${way}, step ${step}, SEED=${SEED}`
    views = await restarted(views, naturalKey ? optionsOf(naturalKey) : { times: new Map([[collection, TIME]]) })
    await views.buildNaturalKeys()
    assert.equal(views.hasNaturalKeys, true, context)
    await views.tidyNaturalKeys()
    if (naturalKey) check(world, finderIn(views, naturalKey), `a start: ${context}`)
    for (let left = 3; left > 0; left--) {
      change(world, random, () => world.isUnique)
      project(views, world.write())
    }
    if (naturalKey) check(world, finderIn(views, naturalKey), context)
    const keyed = [...world.items.values()].filter((item) => naturalKeyOf(item, ROWS) !== undefined)
    const fewest = keyed.filter(({ long }) => long !== undefined).length
    const rows = rowsIn(views.store)
    if (!naturalKey) assert.equal(rows, 0, context)
    else if (!naturalKey.index) assert.equal(rows, keyed.length, context)
    else assert.ok(rows >= fewest && rows <= keyed.length, context)
  }
})

test('two items with one natural key, which a server without the setting wrote, are refused by the next start', async (t) => {
  const random = new Random(SEED)
  for (const [way, naturalKey] of Object.entries(WAYS)) {
    for (let run = 0; run < 40; run++) {
      const context = `${way}, run ${run}, SEED=${SEED}`
      const world = new World()
      const views = await started(t, optionsOf(naturalKey))
      await views.buildNaturalKeys()
      world.add({ type: 'CollectionCreated', collection })
      for (let step = 0; step < 5; step++) {
        change(world, random, () => true)
        project(views, world.write())
        for (const probe of PROBES) {
          const found = finderIn(views, naturalKey)(probe)
          assert.ok(found === undefined || world.holdersOf(probe).includes(found), context)
        }
      }
      const next = await restarted(views, optionsOf(naturalKey))
      assert.ok(world.isUnique || !next.hasNaturalKeys, context)
      const building = next.buildNaturalKeys()
      if (world.isUnique) {
        await building
        check(world, finderIn(next, naturalKey), context)
      } else await assert.rejects(building, /^Refusal: The items .* of "readings" have the same natural key/, context)
    }
  }
})

/** Views with many readings, and a write that replaces all, of which each gets the key of the next one. */
async function exchanged(
  t: TestContext,
  naturalKey: NaturalKey,
  items: number,
): Promise<{ views: Views; world: World; large: Recorded }> {
  const world = new World()
  const views = await started(t, optionsOf(naturalKey))
  await views.buildNaturalKeys()
  world.add({ type: 'CollectionCreated', collection })
  const reading = (id: number, at: number): JsonObject => ({
    id,
    mac: 'a',
    timestamp: at,
    ...(at % 9 === 0 && { long: LONG }),
  })
  for (let id = 0; id < items; id++) world.put(reading(id, id))
  project(views, world.write())
  for (let id = 0; id < items; id++) world.put(reading(id, (id + 1) % items))
  return { views, world, large: world.write() }
}

test('natural keys are found while a write that exchanges them is stored in several transactions', async (t) => {
  for (const [way, naturalKey] of Object.entries(WAYS)) {
    const { views, world, large } = await exchanged(t, naturalKey, 1200)
    const accepted = new Overlay(views.any, large.position - 1, optionsOf(naturalKey).keyFields)
    accepted.accept(large.events)
    const find = (probe: JsonObject) =>
      accepted.collection(collection).holderOf(naturalKeyOf(probe, naturalKey) as string)
    const wanted = [...world.items.values()].map(({ id }) => String(id))
    const found = () => Array.from(world.items.values(), find)
    let isStored = false
    const put = Promise.resolve(views.put([large])).then(() => {
      isStored = true
    })
    for (let turns = 0; !isStored && turns < 10_000; turns++) {
      if (turns % 5 === 0) assert.deepEqual(found(), wanted, way)
      await setImmediate()
    }
    await put
    views.apply()
    accepted.settle(world.head)
    assert.deepEqual(found(), wanted, way)
    // The first transactions have left two items with one key. That is looked at again.
    await views.buildNaturalKeys()
    assert.equal(views.hasNaturalKeys, true, way)
    assert.deepEqual(found(), wanted, way)
  }
})

test('a start within a large write, which also orders the items, finds all natural keys after the rest of it', async (t) => {
  for (const [way, naturalKey] of Object.entries(WAYS)) {
    for (const stored of [1, 2]) {
      const { views, world } = await exchanged(t, naturalKey, 800)
      for (const id of world.items.keys()) {
        world.put({ id, mac: 'b', timestamp: Number(id), ...(Number(id) % 9 === 0 && { long: LONG }) })
        if (id === 400) world.add({ type: 'CollectionOrdered', collection, ids: [700, 3, 500] })
      }
      const large = world.write()
      const transaction = views.store.transaction.bind(views.store)
      let left = stored
      const mocked = t.mock.method(views.store, 'transaction', <Result>(work: () => Result): Result => {
        if (left-- === 0) throw new Error('killed')
        return transaction(work)
      })
      await assert.rejects(Promise.resolve(views.put([large])), /killed/)
      mocked.mock.restore()
      const next = await restarted(views, optionsOf(naturalKey))
      project(next, large)
      await next.buildNaturalKeys()
      check(world, finderIn(next, naturalKey), `${way} after ${stored} transactions`)
      next.end()
    }
  }
})

test('a transaction that finds no room leaves nothing of its natural keys, and is repeated', async (t) => {
  const naturalKey = WAYS.index as NaturalKey
  const views = new Views(Store.temporary(), optionsOf(naturalKey))
  await views.buildNaturalKeys()
  const full = fullDisk(t, views.store)
  const world = new World()
  const random = new Random(SEED)
  const changeUnique = () => change(world, random, () => world.isUnique)
  const begin = () => world.add({ type: 'CollectionCreated', collection })
  for (const write of [begin, () => world.order(random), () => {}]) {
    write()
    changeUnique()
    full.transactions = 1
    await views.put([world.write()])
    views.apply()
    check(world, finderIn(views, naturalKey), `SEED=${SEED}`)
  }
  assert.equal(views.hasNaturalKeys, true)
})

test('an index that is built again for another event time finds natural keys without it as before', async (t) => {
  const naturalKey: NaturalKey = { fields: [MAC], timePart: -1, index: [MAC, TIME] }
  const keyFields: KeyFields = new Map([[collection, naturalKey]])
  const world = new World()
  world.add({ type: 'CollectionCreated', collection })
  for (let id = 0; id < 5; id++) world.put({ id, mac: id, timestamp: 1_767_229_200 + id })
  let views = await started(t, {})
  project(views, world.write())
  for (const times of [new Map(), new Map([[collection, TIME]])]) {
    views = await restarted(views, { keyFields, times })
    assert.equal(views.hasNaturalKeys, false)
    await views.buildNaturalKeys()
    for (let id = 0; id < 5; id++) assert.equal(finderIn(views, naturalKey)({ mac: id }), String(id))
  }
})

test('a build of natural keys that ends early continues with the next start', async (t) => {
  let { views } = await exchanged(t, ROWS, 3000)
  for (const naturalKey of [WAYS.index as NaturalKey, ROWS]) {
    let told: readonly [places: number, of: number] | undefined
    views = await restarted(views, optionsOf(naturalKey))
    const building = views.buildNaturalKeys((...progress) => {
      told = progress
      views.end()
    })
    await assert.rejects(building, Ended)
    assert.ok(told && told[0] <= told[1] && told[1] === 3000, String(told))
    views = await restarted(views, optionsOf(naturalKey))
    assert.equal(views.hasNaturalKeys, false)
    await views.buildNaturalKeys()
    assert.equal(finderIn(views, naturalKey)({ mac: 'a', timestamp: 7 }), '7')
  }
})
