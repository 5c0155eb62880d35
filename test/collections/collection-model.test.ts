import assert from 'node:assert/strict'
import { copyFileSync } from 'node:fs'
import { type TestContext, test } from 'node:test'
import { BLOCK_PLACES, itemBlockOf } from '../../src/collections/blocks.ts'
import type { Collection } from '../../src/collections/collection.ts'
import { storedCollections } from '../../src/collections/collection-writer.ts'
import { Item, integerAfter, isTombstone, keyOf } from '../../src/collections/item.ts'
import type { PinnedCollection } from '../../src/collections/stored-items.ts'
import { Table } from '../../src/collections/table.ts'
import { runsOf } from '../../src/commands/expiry.ts'
import {
  type DomainEvent,
  existsAfter,
  type ItemId,
  isItemEvent,
  itemChanges,
  type Position,
} from '../../src/events/event.ts'
import type { Recorded } from '../../src/events/journal.ts'
import { Document } from '../../src/json/document.ts'
import { type Snapshot, Views } from '../../src/projections/views.ts'
import { numberedKey, PREFIX_BYTES, positionOf, TAG } from '../../src/store/keys.ts'
import { Store } from '../../src/store/store.ts'
import { recordOf, sliceOf } from '../support/collections.ts'
import { turnsUntil } from '../support/deadline.ts'
import { begun, created, deleted } from '../support/decider.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { makeFormat5 } from '../support/format-5.ts'
import { Random, SEED } from '../support/random.ts'

interface NaiveItem {
  readonly key: string
  readonly id: ItemId
  readonly text: string
  readonly revision: number
  readonly position: Position
}

/** A collection as an array and a map. */
class NaiveCollection {
  readonly name: string
  exists = false
  nextId = 0
  position: Position = 0
  items: readonly NaiveItem[] = []
  /** The last event of each item that ever existed. */
  last = new Map<string, { readonly revision: number; readonly position: Position }>()

  constructor(name: string) {
    this.name = name
  }

  get textIds(): number {
    return this.items.filter(({ id }) => typeof id === 'string').length
  }

  has(id: ItemId): boolean {
    return this.find(keyOf(id)) !== undefined
  }

  find(key: string): NaiveItem | undefined {
    return this.items.find((item) => item.key === key)
  }

  copy(): NaiveCollection {
    return Object.assign(new NaiveCollection(this.name), this, { last: new Map(this.last) })
  }

  apply(event: DomainEvent, position: Position): void {
    this.position = position
    if (event.type === 'CollectionCreated') this.exists = true
    else if (event.type === 'CollectionRemoved') this.exists = false
    else if (event.type === 'CollectionOrdered') {
      const named = [...new Set(event.ids.map(keyOf))].map((key) => this.find(key)).filter((item) => item !== undefined)
      this.items = [...named, ...this.items.filter((item) => !named.includes(item))]
    } else if (event.type === 'IdsReset') this.nextId = event.nextId
    else if (event.type === 'ItemsExpired') {
      for (const { id, revision } of itemChanges(event)) this.last.set(keyOf(id), { revision, position })
      this.items = this.items.filter(({ key }) => this.last.get(key)?.position !== position)
    } else {
      if (!isItemEvent(event)) throw new Error(`what is ${event.type}?`)
      const { id, revision } = event
      const key = keyOf(id)
      const at = this.items.findIndex((item) => item.key === key)
      this.last.set(key, { revision, position })
      if (!('item' in event)) this.items = this.items.filter((_, index) => index !== at)
      else {
        const item = { key, id, text: event.item.text, revision, position }
        this.items = at < 0 ? [...this.items, item] : this.items.with(at, item)
        this.nextId = Math.max(this.nextId, integerAfter(id))
      }
    }
  }
}

/** Collections by name, in the order of their first creation. */
class NaiveState {
  readonly collections = new Map<string, NaiveCollection>()
  head: Position = 0
  namesPosition: Position = 0

  /** Items in all collections. */
  get size(): number {
    return [...this.collections.values()].reduce((sum, { items }) => sum + items.length, 0)
  }

  copy(): NaiveState {
    const copy = new NaiveState()
    for (const [name, collection] of this.collections) copy.collections.set(name, collection.copy())
    copy.head = this.head
    copy.namesPosition = this.namesPosition
    return copy
  }

  collection(name: string): NaiveCollection {
    const known = this.collections.get(name) ?? new NaiveCollection(name)
    this.collections.set(name, known)
    return known
  }

  apply(event: DomainEvent): DomainEvent {
    this.collection(event.collection).apply(event, ++this.head)
    if (existsAfter(event) !== undefined) this.namesPosition = this.head
    return event
  }
}

/** Ids that are easily taken for each other; some have the same key, and are one item then. */
const IDS: readonly ItemId[] = [
  ...[0, -0, '0', '00', 7, '7', '007', '7.0', -7, 7.5, '7.5', 2 ** 52, 2 ** 53 - 1, '9007199254740991', 1e21, '1e21'],
  ...['a', 'ab', 'a\0', '\0', 'a\0\0', 'ä', '😀', '__proto__', ' ', 'x'.repeat(256), 'x'.repeat(257), 'y'.repeat(5000)],
]

/** Makes events that may follow each other, and applies them to a naive state. */
class EventMaker {
  readonly #random: Random
  readonly #state: NaiveState
  readonly #names: readonly string[]
  /** Integers below this one are ids, too. */
  readonly #integers: number

  constructor(random: Random, state: NaiveState, { names, integers }: { names: readonly string[]; integers: number }) {
    this.#random = random
    this.#state = state
    this.#names = names
    this.#integers = integers
  }

  /** Some events, in one write. */
  write(count: number): DomainEvent[] {
    const events: DomainEvent[] = []
    while (events.length < count) events.push(...this.#next())
    return events
  }

  order(): DomainEvent {
    const collection = this.#any()
    const ids = [...collection.items.map(({ id }) => id), ...IDS]
    const shuffled = ids.map((id) => ({ id, rank: this.#random.next() })).sort((a, b) => a.rank - b.rank)
    const some = shuffled.slice(0, this.#random.integer(ids.length + 1)).map(({ id }) => id)
    return this.#state.apply({ type: 'CollectionOrdered', collection: collection.name, ids: some })
  }

  /** One item is changed again and again, as a sensor's state is. */
  #any(): NaiveCollection {
    return this.#state.collection(this.#random.pick(this.#names))
  }

  #next(): DomainEvent[] {
    const random = this.#random
    const collection = this.#any()
    const { name } = collection
    if (!collection.exists) return [this.#state.apply({ type: 'CollectionCreated', collection: name })]
    if (random.chance(0.003)) {
      const ids = collection.items.map(({ id }) => id)
      return [
        ...ids.map((id) => this.#item(name, id, 'ItemDeleted')),
        this.#state.apply({ type: 'CollectionRemoved', collection: name }),
      ]
    }
    if (random.chance(0.01)) return [this.order()]
    if (random.chance(0.03)) return [this.#expiry(collection)]
    if (random.chance(0.02)) {
      const nextId = random.integer(collection.nextId + 1)
      return [this.#state.apply({ type: 'IdsReset', collection: name, nextId })]
    }
    const id = random.chance(0.3) ? random.pick(IDS) : random.integer(this.#integers)
    const types = collection.has(id)
      ? (['ItemReplaced', 'ItemPatched', 'ItemDeleted'] as const)
      : (['ItemCreated'] as const)
    return [this.#item(name, id, random.pick<(typeof types)[number]>(types))]
  }

  /** The first items, with gaps, or others. */
  #expiry({ name, items }: NaiveCollection): DomainEvent {
    const share = this.#random.pick([0.05, 0.5, 1])
    const end = this.#random.integer(items.length + 1)
    const expired = items.flatMap(({ id, revision, position }, place) =>
      place < end && this.#random.chance(share) ? [{ id, place, revision, position }] : [],
    )
    return this.#state.apply({ type: 'ItemsExpired', collection: name, rule: '90d', runs: runsOf(expired) })
  }

  #item(
    collection: string,
    id: ItemId,
    type: 'ItemCreated' | 'ItemReplaced' | 'ItemPatched' | 'ItemDeleted',
  ): DomainEvent {
    const before = this.#state.collection(collection).last.get(keyOf(id))
    const stamp = { collection, id, revision: (before?.revision ?? 0) + 1, prior: before?.position ?? 0 }
    if (type === 'ItemDeleted') return this.#state.apply({ type, ...stamp })
    const random = this.#random
    const length = random.pick([0, 5, 50, 300, random.chance(0.05) ? 10_000 : 20, random.chance(0.005) ? 300_000 : 9])
    const text = random.pick(['x', 'ü', '😀', '\0']).repeat(length)
    return this.#state.apply({ type, ...stamp, item: Document.of({ id, n: random.integer(1000), text }) })
  }
}

const WRITES = Number(process.env.COLLECTION_WRITES ?? 25)
const RUNS = Number(process.env.COLLECTION_RUNS ?? 2)
/** The number of events of a write that takes several transactions. */
const LARGE = 700

/** The number of items that are checked after each write; of larger collections, less often. */
const SMALL = 100

const NAMES = ['a', 'b', 'ab']

/** Puts writes into the store and shows them. */
function put(views: Views, writes: readonly Recorded[]): void | Promise<void> {
  const stored = views.put(writes)
  if (stored) return stored.then(() => views.apply())
  views.apply()
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** However many transactions come before the one that fails. Looks in each turn, as there is soon room again. */
function untilFull(views: Views): Promise<void> {
  return turnsUntil('a full disk', () => views.isFull)
}

/** The queries that both kinds of collections support. */
function checkItems(
  found: Collection | PinnedCollection,
  model: NaiveCollection,
  random: Random,
  context: string,
): void {
  assert.equal(found.size, model.items.length, context)
  const told = ({ key, id, text, revision, position }: Item) => ({ key, id, text, revision, position })
  assert.deepEqual(Array.from(found.items(), told), model.items, context)
  // -0 and 0 are the same for `deepEqual` of an item's key, and not for that of its id.
  const first = random.integer(Math.max(1, model.items.length - SMALL))
  let place = first === 0 ? -1 : (found.placeOf(model.items[first - 1]?.id ?? '') ?? Number.NaN)
  for (const item of model.items.slice(first, first + SMALL)) {
    place = found.seek(place + 1)
    assert.equal(found.itemAt(place)?.text, item.text, context)
    assert.equal(found.placeOf(item.id), place, context)
    if (random.chance(0.2)) assert.equal(found.seek(place), place, context)
  }
  if (model.items.length <= SMALL) assert.equal(found.seek(place + 1), found.places, context)
  assert.equal(found.itemAt(found.places), undefined, context)
  for (const id of [...IDS, random.integer(1000)]) {
    const entry = found.get(keyOf(id))
    const item = model.find(keyOf(id))
    assert.deepEqual(entry instanceof Item ? told(entry) : undefined, item, context)
    assert.equal(found.item(keyOf(id))?.text, item?.text, context)
    if (!item) {
      assert.deepEqual(entry, model.last.get(keyOf(id)), `${context} ${JSON.stringify(id)}`)
      assert.equal(found.placeOf(id), undefined, context)
    }
  }
}

function check(views: Views, state: NaiveState, random: Random, context: string): void {
  const all = [...state.collections.values()].filter(({ position }) => position > 0)
  assert.equal(views.position, state.head, context)
  assert.equal(views.namesPosition, state.namesPosition, context)
  const existing = all.filter(({ exists }) => exists)
  assert.deepEqual(views.names().sort(), existing.map(({ name }) => name).sort(), context)
  const items = existing.reduce((sum, one) => sum + one.items.length, 0)
  assert.deepEqual(views.counts(), { collections: existing.length, items }, context)
  for (const model of all) {
    const collection = views.any(model.name)
    assert.ok(collection, context)
    const { exists, nextId, textIds, position } = collection
    const { exists: isThere, nextId: next, textIds: texts, position: last } = model
    assert.deepEqual(
      { exists, nextId, textIds, position },
      { exists: isThere, nextId: next, textIds: texts, position: last },
    )
    checkItems(collection, model, random, `${context}, ${model.name}`)
    const size = model.items.length
    const isEach = size < 60 && random.chance(0.2)
    const offsets = isEach
      ? Array.from({ length: size + 2 }, (_, offset) => offset)
      : [0, random.integer(size), Math.max(0, size - 1)]
    for (const offset of offsets) {
      for (const length of [0, 1, 3, random.chance(0.1) ? size + 1 : 20]) {
        const slice: string[] = sliceOf(collection, offset, length).map(({ text }) => text)
        const expected = model.items.slice(offset, offset + length).map(({ text }) => text)
        assert.deepEqual(slice, expected, `${context}, ${model.name}, ${length} from ${offset}`)
      }
    }
  }
}

interface Taken {
  readonly snapshot: Snapshot
  readonly state: NaiveState
}

function checkSnapshot({ snapshot, state }: Taken, random: Random, context: string): void {
  assert.equal(snapshot.position, state.head, context)
  const existing = [...state.collections.values()].filter(({ exists }) => exists)
  assert.deepEqual([...snapshot.keys()].sort(), existing.map(({ name }) => name).sort(), context)
  for (const model of existing) {
    checkItems(
      snapshot.get(model.name) as PinnedCollection,
      model,
      random,
      `${context}, ${model.name} at ${state.head}`,
    )
  }
}

/** Collections in a store that has a file, and what they are to be. */
class World {
  readonly random: Random
  readonly path: string
  readonly context: string
  readonly state = new NaiveState()
  readonly maker: EventMaker
  views: Views
  #taken: Taken[] = []
  /** The next event at which a transaction fails. */
  #failAfter = Number.POSITIVE_INFINITY

  constructor(seed: number, path: string, integers: number) {
    this.random = new Random(seed)
    this.path = path
    this.context = `SEED=${seed}`
    this.maker = new EventMaker(this.random, this.state, { names: NAMES, integers })
    this.views = this.#open()
  }

  /** Applies writes, and looks at what can be seen meanwhile. */
  async apply(writes: readonly Recorded[], before: NaiveState): Promise<void> {
    const context = `${this.context}, position ${this.state.head}`
    const applied = put(this.views, writes)
    let isDone = applied === undefined
    const done = Promise.resolve(applied).finally(() => {
      isDone = true
    })
    done.catch(() => {})
    await turn()
    await turnsUntil(`the end of the writes, ${context}`, () => {
      if (isDone) return true
      assert.equal(this.views.position, before.head, context)
      if (this.random.chance(0.1)) check(this.views, before, this.random, `${context}, before its end`)
      if (this.random.chance(0.1)) this.take(before)
      if (this.random.chance(0.3)) this.pack()
      return false
    })
    await done
  }

  take(state: NaiveState): void {
    this.#taken.push({ snapshot: this.views.snapshot(), state: state.copy() })
  }

  check(): void {
    if (this.random.chance(1 - SMALL / this.state.size)) return
    const context = `${this.context}, position ${this.state.head}`
    check(this.views, this.state, this.random, context)
    for (const one of this.#taken) if (this.random.chance(0.2)) checkSnapshot(one, this.random, context)
    if (this.#taken.length > 5 || this.random.chance(0.1)) this.#release(this.random.integer(this.#taken.length))
  }

  /** Packs some items of a block of each collection. Now and then the transaction fails. */
  pack(): void {
    const { store } = this.views
    for (const { table, places } of storedCollections(store).values()) {
      const block = this.random.integer(itemBlockOf(places) + 1)
      const [start, end] = [block, block + 1].map((one) => numberedKey(TAG.item, table, one * BLOCK_PLACES))
      const rows = store.rows(start as Buffer, end as Buffer)
      const packable = rows.filter(({ value }) => !isTombstone(value) && this.random.chance(0.8))
      const fails = this.random.chance(0.2)
      if (packable.length === 0) continue
      try {
        store.transaction(() => {
          new Table(store, table).pack(
            block,
            packable.map(({ key }) => positionOf(key, PREFIX_BYTES)),
          )
          if (fails) throw new Error('while packing')
        })
      } catch (error) {
        assert.equal((error as Error).message, 'while packing', this.context)
      }
    }
  }

  /** The same writes, of which the first attempt fails in the middle. */
  async failingFirst(writes: readonly Recorded[], before: NaiveState): Promise<void> {
    const events = writes.reduce((sum, one) => sum + one.events.length, 0)
    this.#failAfter = 1 + this.random.integer(events)
    const attempt = async () => this.apply(writes, before)
    await assert.rejects(attempt, { message: 'in the middle' }, this.context)
    check(this.views, before, this.random, `${this.context}, position ${before.head}, after a failure`)
    await this.apply(writes, before)
  }

  async reopen(): Promise<void> {
    for (const one of this.#taken) checkSnapshot(one, this.random, this.context)
    while (this.#taken.length > 0) this.#release(0)
    await this.views.store.close()
    const store = Store.open(this.path)
    if (this.random.chance(0.3)) store.transaction(() => makeFormat5(store))
    await store.close()
    this.views = this.#open()
  }

  async close(): Promise<void> {
    for (const one of this.#taken) checkSnapshot(one, this.random, this.context)
    await this.views.store.close()
  }

  #release(index: number): void {
    this.#taken.splice(index, 1)[0]?.snapshot.close()
  }

  #open(): Views {
    const views = new Views(Store.open(this.path))
    views.storeWith({
      store: () => {
        if (--this.#failAfter > 0) return
        this.#failAfter = Number.POSITIVE_INFINITY
        throw new Error('in the middle')
      },
    })
    return views
  }
}

async function worldOf(t: TestContext, seed: number, integers: number): Promise<World> {
  const world = new World(seed, `${await temporaryDirectory(t)}/store.mdb`, integers)
  t.after(() => world.close())
  return world
}

test('collections equal a naive model of the events, now and in every snapshot, through failures and restarts', async (t) => {
  for (let run = 0; run < RUNS; run++) {
    const world = await worldOf(t, SEED + run, run % 2 === 0 ? 30 : 1200)
    const { random, state, maker } = world
    for (let write = 0; write < WRITES; write++) {
      const before = state.copy()
      const writes = Array.from({ length: random.chance(0.2) ? 5 : 1 }, () => {
        const isLarge = random.chance(0.08)
        return recordOf(
          state.head + 1,
          maker.write(isLarge ? LARGE + random.integer(3 * LARGE) : 1 + random.integer(20)),
        )
      })
      if (random.chance(0.1)) await world.failingFirst(writes, before)
      else await world.apply(writes, before)
      world.check()
      if (random.chance(0.1)) world.take(state)
      while (random.chance(0.7)) world.pack()
      if (random.chance(0.05)) await world.reopen()
    }
  }
})

test('a large write that a process leaves incomplete is completed by the next process', async (t) => {
  const world = await worldOf(t, SEED, 1500)
  const { random, state, maker, path } = world
  await world.apply([recordOf(1, maker.write(1000))], new NaiveState())
  for (let half = 0; half < 3; half++) {
    const write = recordOf(state.head + 1, [...maker.write(LARGE), maker.order(), ...maker.write(LARGE)])
    const applied = put(world.views, [write])
    assert.ok(applied, 'it takes several transactions')
    for (let turns = random.integer(8); turns > 0; turns--) await turn()
    const copy = `${path}.${half}`
    copyFileSync(path, copy)
    await applied
    world.check()
    const views = new Views(Store.open(copy))
    await put(views, [write])
    check(views, state, random, `SEED=${SEED}, ${half}`)
    await views.store.close()
  }
})

test('while the disk is full readers see the state before the write, which is stored when there is space', async () => {
  const random = new Random(SEED)
  const state = new NaiveState()
  const maker = new EventMaker(random, state, { names: NAMES, integers: 30 })
  const views = Views.temporary()
  let left = 0
  views.storeWith({
    store: () => {
      if (left-- === 1) throw Object.assign(new Error('no room'), { code: 'ENOSPC' })
    },
  })
  for (const events of [5, 2 * LARGE]) {
    const before = state.copy()
    const write = recordOf(state.head + 1, maker.write(events))
    left = events - 1
    const applied = put(views, [write])
    await untilFull(views)
    check(views, before, random, 'before there is room')
    await applied
    assert.equal(views.isFull, false)
    check(views, state, random, 'with room')
  }
})

test('places that a write emptied before the disk was full are known when it is stored at last', async () => {
  const items = 1000
  const names = Array.from({ length: items }, (_, id) => id)
  const views = Views.temporary()
  let left = Number.POSITIVE_INFINITY
  views.storeWith({
    store: () => {
      if (--left === 0) throw Object.assign(new Error('no room'), { code: 'ENOSPC' })
    },
  })
  const made = recordOf(1, [begun, ...names.map((id) => created({ id }))])
  const gone = recordOf(
    items + 2,
    names.filter((id) => id % 2 === 0).map((id) => deleted(id, { revision: 2, prior: id + 2 })),
  )
  await put(views, [made])
  left = 400
  const applied = put(views, [gone])
  await untilFull(views)
  await applied
  const things = views.any('things')
  for (const offset of [0, 1, 200, 499]) assert.equal(things && sliceOf(things, offset, 1)[0]?.id, 2 * offset + 1)
  assert.equal(things?.itemAt(things.seek(0))?.id, 1)
})
