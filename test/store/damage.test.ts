import assert from 'node:assert/strict'
import { closeSync, openSync, statSync, truncateSync, utimesSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { itemBlockOf } from '../../src/collections/blocks.ts'
import type { Collection } from '../../src/collections/collection.ts'
import { Table } from '../../src/collections/table.ts'
import { tombstoneBlockOf } from '../../src/collections/tombstones.ts'
import type { DomainEvent, ItemId } from '../../src/events/event.ts'
import { Document } from '../../src/json/document.ts'
import { Views } from '../../src/projections/views.ts'
import { blockKey, keyedKey, numberedKey, TAG, tombstonesKey } from '../../src/store/keys.ts'
import type { Store } from '../../src/store/store.ts'
import { StoreDirectory } from '../../src/store/store-directory.ts'
import { sliceOf } from '../support/collections.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { storeLeftIn } from '../support/engine.ts'
import { makeFormat7 } from '../support/format-5.ts'
import { Random, SEED } from '../support/random.ts'

const CUTS = Number(process.env.STORE_CUTS ?? 60)
const ITEMS = 1000
const STORE = 'store.mdb'
const PAGE = 4096

function fill(store: Store): void {
  const views = new Views(store)
  const written = { time: '2026-11-20T12:00:00.000Z', actor: 'a', requestId: 'r' }
  const events: DomainEvent[] = [{ type: 'CollectionCreated', collection: 'c' }]
  for (let id = 0; id < ITEMS; id++) {
    const item = Document.of({ id, text: 'x'.repeat(id % 50 === 0 ? 20_000 : 200) })
    events.push({ type: 'ItemCreated', collection: 'c', id, revision: 1, prior: 0, item })
  }
  for (const [index, event] of events.entries()) views.replay({ position: index + 1, ...written, events: [event] })
  views.replayed()
}

/** The stores that a process leaves when it is killed, and when it ends. */
async function lived(t: TestContext): Promise<Readonly<Record<'killed' | 'ended', string>>> {
  const directory = new StoreDirectory(await temporaryDirectory(t))
  const store = directory.open()
  fill(store)
  await directory.advance(store)
  const killed = storeLeftIn(directory.path).path
  await directory.close(store)
  return { killed, ended: directory.path }
}

/** Changes the file of a copy, as a medium does that forgets: its time stays. */
function copyWith(left: string, change: (path: string) => void): StoreDirectory {
  const copy = storeLeftIn(left).path
  const path = join(copy, STORE)
  const { atime, mtime } = statSync(path)
  change(path)
  utimesSync(path, atime, mtime)
  return new StoreDirectory(copy)
}

async function checkIsBuiltAgain(directory: StoreDirectory, context: string): Promise<void> {
  const store = directory.open()
  assert.notEqual(directory.whyNot, undefined, context)
  assert.deepEqual(new Views(store).namesEver(), [], context)
  assert.equal(statSync(join(directory.path, `${STORE}.aside`)).isFile(), true, context)
  await directory.close(store)
}

test('a truncated file is set aside before LMDB opens it, even after a kill', async (t) => {
  const random = new Random(SEED)
  for (const [how, left] of Object.entries(await lived(t))) {
    const size = statSync(join(left, STORE)).size
    for (let cut = 0; cut < CUTS / 2; cut++) {
      const bytes = random.chance(0.5) ? random.integer(size) : size - 1 - random.integer(10 * PAGE)
      const directory = copyWith(left, (path) => truncateSync(path, bytes))
      await checkIsBuiltAgain(directory, `SEED=${SEED}: ${how}, cut to ${bytes} of ${size} bytes`)
    }
  }
})

/** Bytes that are written to both first pages. */
type PageDamage = readonly [what: string, offset: number, bytes: Buffer]

test('damage of the first pages, which refer to all others, is repaired by the recovery point', async (t) => {
  const random = new Random(SEED)
  const left = await lived(t)
  const rubbish = (bytes: number): Buffer => Buffer.from(Array.from({ length: bytes }, () => random.integer(256)))
  const number = (value: bigint): Buffer => {
    const bytes = Buffer.alloc(8)
    bytes.writeBigUInt64LE(value)
    return bytes
  }
  const damages: readonly PageDamage[] = [
    ['rubbish', 0, rubbish(PAGE)],
    ['zeros', 0, Buffer.alloc(PAGE)],
    ['another page size', 48, Buffer.from([0, 0, 1, 0])],
    ['other flags', 100, Buffer.from([4])],
    ['a list of free pages beyond the file', 88, number(2n ** 40n)],
    ['a root beyond the file', 136, number(2n ** 40n)],
    ['a last page beyond the file', 144, number(2n ** 40n)],
  ]
  // After a kill the system has the pages in its cache.
  const anyDamages = Array.from({ length: CUTS }, (): PageDamage => ['any byte', random.integer(168), rubbish(1)])
  for (const [how, path] of Object.entries(left)) {
    for (const [what, offset, bytes] of how === 'ended' ? [...damages, ...anyDamages] : damages) {
      const directory = copyWith(path, (copy) => {
        const file = openSync(copy, 'r+')
        for (const page of [0, 1]) writeSync(file, bytes, 0, bytes.length, page * PAGE + offset)
        closeSync(file)
      })
      const context = `SEED=${SEED}: ${how}, ${what}`
      const store = directory.open()
      assert.equal(directory.whyNot, undefined, context)
      assert.equal(new Views(store).find('c')?.size, ITEMS, context)
      await directory.close(store)
    }
  }
})

const ROWS = 200

function created(id: ItemId): DomainEvent {
  return { type: 'ItemCreated', collection: 'c', id, revision: 1, prior: 0, item: Document.of({ id }) }
}

/** A collection of numbered and named items, one of which was deleted. They have rows, or are in blocks. */
function filled(isPacked: boolean): Views {
  const views = Views.temporary()
  const ids: ItemId[] = Array.from({ length: ROWS }, (_, index) => (index % 2 === 0 ? index : `k${index}`))
  const events: DomainEvent[] = [
    { type: 'CollectionCreated', collection: 'c' },
    ...ids.map(created),
    { type: 'ItemDeleted', collection: 'c', id: 'k51', revision: 2, prior: 53 },
  ]
  let position = 1
  for (const event of events) {
    const written = { time: '2026-11-20T12:00:00.000Z', actor: 'a', requestId: 'r' }
    views.replay({ position: position++, ...written, events: [event] })
  }
  views.replayed()
  if (!isPacked) views.store.transaction(() => makeFormat7(views.store))
  return views
}

/** Reads of a collection, and whether each rests on the row of place 50, which item 50 has, or 51, which `k51` had. */
const READS: Readonly<Record<string, (views: Views) => unknown>> = {
  'an item by its number': (views) => views.find('c')?.item('50'),
  'an item by its name': (views) => views.find('c')?.item('k51'),
  'all items': (views) => Array.from(views.find('c')?.items() ?? []),
  'a page': (views) => sliceOf(views.find('c') as Collection, 40, 20),
  'the next place': (views) => [views.find('c')?.seek(50), views.find('c')?.seek(51)],
  'an item at its place': (views) => [views.find('c')?.itemAt(50), views.find('c')?.itemAt(51)],
  'all items of a snapshot': (views) => Array.from(views.snapshot().get('c')?.items() ?? []),
}

type Damage = (views: Views, table: number) => void

interface DamageOf {
  readonly damage: Damage
  readonly isPacked?: boolean
  /** Reads that do not depend on it. */
  readonly exceptFor?: readonly string[]
}

const DAMAGES: Readonly<Record<string, DamageOf>> = {
  'a block of items is missing': {
    isPacked: true,
    damage: ({ store }, table) => store.transaction(() => store.remove(blockKey(table, itemBlockOf(50)))),
    exceptFor: ['an item by its name'],
  },
  'a bit of a block of items is another one': {
    isPacked: true,
    damage: ({ store }, table) => changeBit(store, blockKey(table, itemBlockOf(50)), 20),
  },
  'the record of an item is missing': {
    damage: ({ store }, table) => store.transaction(() => store.remove(numberedKey(TAG.item, table, 50))),
    exceptFor: ['an item by its name'],
  },
  'the record of a deleted item is missing': {
    damage: ({ store }, table) => store.transaction(() => store.remove(tombstonesKey(table, tombstoneBlockOf(51)))),
    exceptFor: ['an item by its number'],
  },
  'a bit of the record of a deleted item is another one': {
    damage: ({ store }, table) => changeBit(store, tombstonesKey(table, tombstoneBlockOf(51)), 20),
    exceptFor: ['an item by its number'],
  },
  'the record of an item says that it was deleted': {
    damage: (views, table) => flip(views, table, 50),
    exceptFor: ['an item by its name'],
  },
  'a key has the place of another item': {
    damage: ({ store }, table) => {
      const elsewhere = Buffer.from(store.newest(keyedKey(TAG.place, table, 'k61')) as Buffer)
      store.transaction(() => store.set(keyedKey(TAG.place, table, 'k51'), elsewhere))
    },
    exceptFor: Object.keys(READS).filter((read) => read !== 'an item by its name'),
  },
}

/** Changes the flag of one that is gone. */
function flip({ store }: Views, table: number, place: number): void {
  changeBit(store, numberedKey(TAG.item, table, place), 32)
}

/** Changes a bit of a byte of a row. */
function changeBit(store: Store, key: Buffer, at: number): void {
  const row = Buffer.from(store.newest(key) as Buffer)
  row[at] = (row[at] as number) ^ 1
  store.transaction(() => store.set(key, row))
}

for (const [what, { damage, isPacked = false, exceptFor = [] }] of Object.entries(DAMAGES)) {
  test(`${what}: nothing that depends on it is answered`, () => {
    for (const [read, ask] of Object.entries(READS)) {
      const views = filled(isPacked)
      const damages: Error[] = []
      views.store.damaged = (error) => damages.push(error)
      damage(views, views.find('c')?.facts.table as number)
      if (exceptFor.includes(read)) ask(views)
      else assert.throws(() => ask(views), { code: 'Unavailable' }, read)
      assert.equal(damages.length, exceptFor.includes(read) ? 0 : 1, read)
    }
  })
}

test('a write that moves a damaged record does not give it a valid checksum', () => {
  const views = filled(false)
  flip(views, views.find('c')?.facts.table as number, 50)
  const ids = Array.from({ length: 20 }, (_, index) => 40 - 2 * index)
  const written = { time: '2026-11-20T12:00:00.000Z', actor: 'a', requestId: 'r' }
  views.replay({
    position: views.position + 1,
    ...written,
    events: [{ type: 'CollectionOrdered', collection: 'c', ids }],
  })
  assert.throws(() => views.replayed(), { code: 'Unavailable' })
})

test('packing a damaged record, and removing an item from a damaged block, give neither a valid checksum', () => {
  const unpacked = filled(false)
  const table = unpacked.find('c')?.facts.table as number
  flip(unpacked, table, 50)
  const pack = (): unknown => new Table(unpacked.store, table).pack(itemBlockOf(50), [49, 50])
  assert.throws(() => unpacked.store.transaction(pack), { code: 'Unavailable' })

  const packed = filled(true)
  const at = packed.position + 1
  changeBit(packed.store, blockKey(table, itemBlockOf(50)), 20)
  const written = { time: '2026-11-20T12:00:00.000Z', actor: 'a', requestId: 'r' }
  const event: DomainEvent = { type: 'ItemDeleted', collection: 'c', id: 50, revision: 2, prior: 52 }
  packed.replay({ position: at, ...written, events: [event] })
  assert.throws(() => packed.replayed(), { code: 'Unavailable' })
})
