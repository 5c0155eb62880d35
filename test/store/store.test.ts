import assert from 'node:assert/strict'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import type { FileEngine } from '../../src/engine/file-engine.ts'
import type { Checkpoint } from '../../src/events/checkpoint.ts'
import type { Position } from '../../src/events/event.ts'
import type { SegmentSpan } from '../../src/events/segment.ts'
import { StoredCheckpoint } from '../../src/projections/store-fold.ts'
import {
  keyedKey,
  numberedKey,
  POSITION_BYTES,
  positionOf,
  prefixEnd,
  putPosition,
  type ScratchBytes,
  TAG,
  type Tag,
  tableKey,
  versionKey,
} from '../../src/store/keys.ts'
import { bytesOf, type Lmdb, META, newestMeta, openLmdb, synced, usedBytes } from '../../src/store/lmdb.ts'
import { type Pin, Store } from '../../src/store/store.ts'
import { until, within } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { DATA_FILE, openTestEngine } from '../support/engine.ts'
import { Random, SEED } from '../support/random.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'

const RUNS = Number(process.env.STORE_RUNS ?? 20)

const keyOf = (text: string): Buffer => Buffer.from(`k${text}`)

function rowOf(position: Position, text: string): Buffer {
  const value = Buffer.alloc(POSITION_BYTES + text.length, text)
  value.write(text, POSITION_BYTES)
  putPosition(value, 0, position)
  return value
}

const textOf = (value: ScratchBytes | undefined): string | undefined =>
  value?.toString('utf8', POSITION_BYTES, value.length)

function put(store: Store, position: Position, ...rows: readonly (readonly [key: string, text: string])[]): void {
  store.transaction(() => {
    for (const [key, text] of rows) store.write(keyOf(key), rowOf(position, text))
  })
}

/** The versions that are kept of rows. */
function versionsIn(store: Store): number {
  const prefix = Buffer.from([TAG.version])
  return store.rows(prefix, prefixEnd(prefix)).length
}

describe('rows', () => {
  test('are read in the order of their keys, also backwards and a few at a time', () => {
    const store = Store.temporary()
    put(store, 1, ['b', 'two'], ['a', 'one'], ['c', 'three'])
    assert.equal(textOf(store.newest(keyOf('a'))), 'one')
    assert.equal(store.newest(keyOf('d')), undefined)
    const texts = (options = {}) =>
      store.rows(keyOf(''), prefixEnd(keyOf('')), options).map(({ value }) => textOf(value))
    assert.deepEqual(texts(), ['one', 'two', 'three'])
    assert.deepEqual(texts({ limit: 2 }), ['one', 'two'])
    assert.deepEqual(
      store.rows(keyOf('a'), keyOf('c')).map(({ key }) => String(key)),
      ['ka', 'kb'],
      'the end is not one of them',
    )
    store.transaction(() => store.remove(keyOf('b')))
    assert.deepEqual(texts(), ['one', 'three'])
  })

  test('a value of any length is read back', () => {
    const store = Store.temporary()
    for (const length of [0, 1, 100, 4096, 70_000, 3_000_000]) put(store, 1, [`${length}`, 'ü'.repeat(length)])
    for (const length of [0, 1, 100, 4096, 70_000, 3_000_000]) {
      assert.equal(store.newest(keyOf(`${length}`))?.length, POSITION_BYTES + length)
    }
  })

  test('a transaction that throws has no effect', () => {
    const store = Store.temporary()
    put(store, 1, ['a', 'old'])
    const fail = () =>
      store.transaction(() => {
        store.write(keyOf('a'), rowOf(2, 'new'))
        store.set(keyOf('b'), rowOf(2, 'new'))
        store.remove(keyOf('a'))
        throw new Error('in the middle')
      })
    assert.throws(fail, { message: 'in the middle' })
    assert.equal(textOf(store.newest(keyOf('a'))), 'old')
    assert.equal(store.newest(keyOf('b')), undefined)
    put(store, 3, ['b', 'later'])
    assert.equal(textOf(store.newest(keyOf('b'))), 'later')
  })

  test('all rows with a key prefix are removed, and no others', async () => {
    const store = Store.temporary()
    const [one, two] = [1, 2].map((table) =>
      Array.from({ length: 1000 }, (_, number) => Buffer.from(numberedKey(TAG.item, table, number))),
    ) as [Buffer[], Buffer[]]
    store.transaction(() => {
      for (const key of [...one, ...two]) store.set(key, rowOf(1, 'x'))
    })
    await store.clear(tableKey(TAG.item, 1))
    const left = (table: number) => store.rows(tableKey(TAG.item, table), prefixEnd(tableKey(TAG.item, table))).length
    assert.deepEqual([left(1), left(2)], [0, 1000])
  })

  test('committed rows are there after a reopen', async (t) => {
    const path = `${await temporaryDirectory(t)}/store.mdb`
    const store = Store.open(path)
    put(store, 1, ['a', 'one'])
    await store.sync()
    await store.close()
    await store.close()
    const again = Store.open(path)
    assert.equal(textOf(again.newest(keyOf('a'))), 'one')
    await again.close()
  })

  test('hundreds of stores may be open together', () => {
    const stores = Array.from({ length: 300 }, () => Store.temporary())
    for (const [index, store] of stores.entries()) put(store, 1, ['a', `${index}`])
    for (const [index, store] of stores.entries()) assert.equal(textOf(store.newest(keyOf('a'))), `${index}`)
  })
})

describe('versions', () => {
  test('a row is read as it was at a pinned position, even if it was missing then', () => {
    const store = Store.temporary()
    put(store, 1, ['a', 'one'])
    const pin = store.pin(1)
    put(store, 2, ['a', 'two'], ['b', 'two'])
    const later = store.pin(2)
    put(store, 3, ['a', 'three'], ['b', 'three'])
    const told = (at: Position) => [textOf(store.read(keyOf('a'), at)), textOf(store.read(keyOf('b'), at))]
    assert.deepEqual(told(1), ['one', undefined])
    assert.deepEqual(told(2), ['two', 'two'])
    assert.deepEqual(told(3), ['three', 'three'])
    pin.release()
    later.release()
  })

  test('a transaction that throws keeps the earlier versions', () => {
    const store = Store.temporary()
    put(store, 1, ['a', 'one'])
    const pin = store.pin(1)
    const fail = () =>
      store.transaction(() => {
        store.write(keyOf('a'), rowOf(2, 'two'))
        throw new Error('in the middle')
      })
    assert.throws(fail)
    put(store, 2, ['a', 'two again'])
    assert.equal(textOf(store.read(keyOf('a'), 1)), 'one')
    assert.equal(textOf(store.read(keyOf('a'), 2)), 'two again')
    pin.release()
  })

  test('versions are kept only for pins, and removed with the last one', async () => {
    const store = Store.temporary()
    put(store, 1, ['a', 'one'])
    put(store, 2, ['a', 'two'])
    assert.equal(versionsIn(store), 0)
    const pins = [store.pin(2), store.pin(2)] as const
    for (let position = 3; position < 1000; position++) put(store, position, [`${position % 7}`, 'x'], ['a', 'x'])
    assert.equal(versionsIn(store), 1, 'of each row only what was so at the pin')
    pins[0].release()
    pins[0].release()
    assert.equal(textOf(store.read(keyOf('a'), 2)), 'two')
    pins[1].release()
    await until('the versions to be removed', async () => versionsIn(store) === 0)
  })

  test('a removed row has a version at the positions before, and none after', () => {
    const store = Store.temporary()
    put(store, 1, ['a', 'one'])
    const pin = store.pin(1)
    put(store, 2, ['a', 'two'])
    store.transaction(() => store.removeAt(keyOf('a'), 3))
    const told = (at: Position) => store.versions.find(keyOf('a'), at)?.toString('utf8', 6)
    assert.deepEqual([told(1), told(2), told(3)], ['one', undefined, undefined])
    const later = store.pin(3)
    put(store, 4, ['a', 'four'])
    store.transaction(() => store.removeAt(keyOf('a'), 5))
    assert.deepEqual([told(1), told(3), told(4)], ['one', undefined, undefined])
    pin.release()
    later.release()
  })

  test('a row whose key extends that of another one has versions of its own', () => {
    const store = Store.temporary()
    const keys = ['', 'a', 'ab', 'a\0', 'a\0\0\0\0\0\0\x01', 'a\0\0\0\0\0\x01']
    put(store, 1, ...keys.map((key) => [key, `one of ${key}`] as const))
    const pin = store.pin(1)
    for (const [index, key] of keys.entries()) put(store, 2 + index, [key, 'new'])
    for (const key of keys) assert.equal(textOf(store.read(keyOf(key), 1)), `one of ${key}`, JSON.stringify(key))
    pin.release()
  })

  test('each pinned position reads as it was, for random writes, pins and releases', () => {
    for (let run = 0; run < RUNS; run++) {
      const random = new Random(SEED + run)
      const store = Store.temporary()
      const now = new Map<string, string>()
      const pins: { readonly pin: Pin; readonly texts: ReadonlyMap<string, string> }[] = []
      const check = (at: Position, then: ReadonlyMap<string, string>, context: string): void => {
        for (const key of now.keys()) assert.equal(textOf(store.read(keyOf(key), at)), then.get(key), context)
      }
      for (let position = 1; position < 60; position++) {
        const rows = Array.from({ length: random.integer(4) }, () => {
          return [random.pick(['a', 'aa', 'b', 'b\0', 'c']) + random.integer(3), `${position}`] as const
        })
        put(store, position, ...rows)
        for (const [key, text] of rows) now.set(key, text)
        if (random.chance(0.2)) pins.push({ pin: store.pin(position), texts: new Map(now) })
        if (random.chance(0.15)) pins.splice(random.integer(pins.length), 1)[0]?.pin.release()
        const context = `SEED=${SEED + run}, position ${position}`
        check(position, now, context)
        for (const { pin, texts } of pins) check(pin.position, texts, `${context}, read at ${pin.position}`)
      }
      for (const { pin } of pins) pin.release()
    }
  })
})

describe('keys', () => {
  test('positions and numbers are ordered by their bytes', () => {
    const numbers = [0, 1, 255, 256, 65_535, 2 ** 32 - 1, 2 ** 32, 2 ** 47, 2 ** 48 - 1]
    const keys = numbers.map((number) => Buffer.from(numberedKey(TAG.item, 1, number)))
    assert.deepEqual([...keys].sort(Buffer.compare), keys)
    for (const [index, key] of keys.entries())
      assert.equal(positionOf(key, key.length - POSITION_BYTES), numbers[index])
  })

  test('ids of any length and characters have keys of their own, none a prefix of another', () => {
    const megabyte = 'ü'.repeat(2 ** 19)
    const ids = [
      ...['', '0', '00', '7', '007', '-7', '7.0', '1e3', '99999999999999', '999999999999999', '9007199254740993'],
      ...['a', 'ab', 'a\0', '\0', '\0\0', 'ä', '😀', '\ufeff', '__proto__', '7\0', `${megabyte}1`, `${megabyte}2`],
      ...['x'.repeat(255), 'x'.repeat(256), 'x'.repeat(257), megabyte],
    ]
    const keys = ids.map((id) => Buffer.from(keyedKey(TAG.place, 1, id)))
    for (const [index, key] of keys.entries()) {
      assert.ok(versionKey(key, 1).length < 500, `the key of ${ids[index]?.slice(0, 20)} is short`)
      for (const [other, another] of keys.entries()) {
        if (index === other) continue
        assert.ok(
          !another.subarray(0, key.length).equals(key),
          `${JSON.stringify([ids[index], ids[other]]).slice(0, 99)}`,
        )
      }
    }
  })

  test('the end of a prefix sorts after all keys with it, and before all later ones', () => {
    assert.deepEqual(prefixEnd(Buffer.from([1, 2])), Buffer.from([1, 3]))
    assert.deepEqual(prefixEnd(Buffer.from([1, 255, 255])), Buffer.from([2]))
    assert.throws(() => prefixEnd(Buffer.from([255, 255])))
  })
})

/** Results of public functions of LMDB. */
interface Stats {
  readonly pageSize: number
  readonly lastPageNumber: number
  readonly lastTxnId: number
}

function fill(db: Lmdb, rows: number): void {
  db.transactionSync(() => {
    for (let row = 0; row < rows; row++) db.put(Buffer.from(`key ${row}`), Buffer.alloc(500))
  })
}

test('the private parts of LMDB that the store reads are where this version has them', async (t) => {
  const path = join(await temporaryDirectory(t), 'a.mdb')
  const db = openLmdb(path)
  t.after(() => db.close())
  for (const rows of [1, 100, 3000]) {
    fill(db, rows)
    const { pageSize, lastPageNumber, lastTxnId } = db.getStats() as Stats
    const bytes = readFileSync(path)
    const pages = [bytes, bytes.subarray(pageSize)]
    const transactions = pages.map((page) => Number(page.readBigUInt64LE(META.transaction)))
    const newest = pages[transactions.indexOf(lastTxnId)]
    assert.ok(newest, `${transactions} are the transactions of the meta pages, and ${lastTxnId} was the last`)
    assert.equal(newest.readUInt32LE(META.pageBytes), pageSize)
    assert.equal(Number(newest.readBigUInt64LE(META.lastPage)), lastPageNumber)
    // A page begins with its own number.
    const root = Number(newest.readBigUInt64LE(META.mainRoot))
    assert.equal(Number(bytes.readBigUInt64LE(root * pageSize)), root)
    assert.equal(bytesOf(newestMeta(path) as Buffer), (lastPageNumber + 1) * pageSize)
    assert.deepEqual(newestMeta(path), newest.subarray(0, 168))
    assert.ok(usedBytes(db) > rows * 500 && usedBytes(db) < statSync(path).size)
  }
  await within('a sync', synced(db))
})

function segment(first: number, records: number): SegmentSpan {
  const positions = Array.from({ length: records }, (_, at) => first + at * 10)
  return { first, size: 1000 + records, index: { positions, offsets: positions.map((position) => position * 100) } }
}

function checkpoint(...segments: readonly SegmentSpan[]): Checkpoint {
  const position = (segments.at(-1)?.index.positions.at(-1) ?? 0) + 1
  const next = { position, previous: '0123abcd', flush: position }
  return { journal: 'j', next, time: '2026-01-01T00:00:00.000Z', lastOffset: position * 100, segments }
}

test('a checkpoint is loaded as it was saved, after any aborted saves', () => {
  const store = Store.temporary()
  const save = (one: Checkpoint): void => store.transaction(() => new StoredCheckpoint(store).save(one))
  const kept = new StoredCheckpoint(store)
  const giveUp = (one: Checkpoint): void => {
    const failing = () =>
      store.transaction(() => {
        kept.save(one)
        throw new Error('given up')
      })
    assert.throws(failing, /given up/)
  }
  assert.equal(kept.load(), undefined)
  save(checkpoint(segment(1, 3)))
  store.transaction(() => kept.save(checkpoint(segment(1, 5))))
  giveUp(checkpoint(segment(1, 8)))
  giveUp(checkpoint(segment(1, 8), segment(500, 2)))
  store.transaction(() => kept.save(checkpoint(segment(1, 8), segment(500, 3))))
  assert.deepEqual(new StoredCheckpoint(store).load(), checkpoint(segment(1, 8), segment(500, 3)))
  giveUp(checkpoint(segment(1, 8), segment(500, 4), segment(900, 1), segment(950, 1)))
  store.transaction(() => kept.save(checkpoint(segment(1, 8), segment(500, 4), segment(900, 1), segment(950, 2))))
  assert.deepEqual(kept.load(), checkpoint(segment(1, 8), segment(500, 4), segment(900, 1), segment(950, 2)))
})

const ITEMS = 300
const ROUNDS = Number(process.env.STORE_ROUNDS ?? 24)
const ORIGIN = { actor: 'a', requestId: 'r' }

/** The number of versions, of all rows or of those with a tag. */
function versionsOf({ views: { store } }: FileEngine, tag?: Tag): number {
  const from = Buffer.from([TAG.version])
  // The key of the row begins behind a tag and a length.
  return store.rows(from, prefixEnd(from)).filter(({ key }) => tag === undefined || key[3] === tag).length
}

async function checkNothingKept(engine: FileEngine, when: string): Promise<void> {
  await until(`no version to be left ${when}`, () => {
    const pinned = [...engine.views.store.versions.pinned]
    return pinned.length === 0 && versionsOf(engine) === 0
  })
}

async function opened(t: { after(end: () => Promise<unknown>): void }) {
  const ends: (() => Promise<unknown>)[] = []
  const store = await temporaryDirectory({ after: (end) => void ends.push(end) })
  const disk = new SimulatedDisk()
  const text = 'x'.repeat(300)
  const a = Array.from({ length: ITEMS }, (_, id) => ({ id, n: 0, text }))
  disk.put(DATA_FILE, Buffer.from(JSON.stringify({ a, b: [] })))
  const { engine, failures } = await openTestEngine(disk.files(), { store })
  t.after(async () => {
    await engine.close()
    for (const end of ends) await end()
    assert.deepEqual(failures, [])
  })
  const bytes = (): number => engine.views.store.usedBytes
  const changeAll = async (n: number): Promise<void> => {
    const item = { n, text }
    await Promise.all(
      a.map(({ id }) => engine.handler.handle({ type: 'ReplaceItem', collection: 'a', key: `${id}`, item }, ORIGIN)),
    )
  }
  return { engine, disk, bytes, changeAll }
}

test('a reader at an earlier position releases it part by part, and leaves no version behind', async (t) => {
  const { engine, disk, changeAll } = await opened(t)
  await changeAll(1)
  await until('the data file to be written', () => engine.dataFile.status.state === 'current')
  await checkNothingKept(engine, 'by the data file')

  const file = JSON.parse(String(disk.bytes(DATA_FILE))) as { a: { n: number }[] }
  for (const item of file.a) item.n = -1
  disk.put(DATA_FILE, Buffer.from(JSON.stringify(file)))
  assert.ok((await engine.reload()).events > 0)
  await checkNothingKept(engine, 'by an edit')

  file.a.reverse()
  disk.put(DATA_FILE, Buffer.from(JSON.stringify(file)))
  assert.ok((await engine.reload()).events > 0)
  await until('the data file to be written', () => engine.dataFile.status.state === 'current')
  await checkNothingKept(engine, 'by an edit that moves all')

  disk.put(DATA_FILE, Buffer.from('{"a": [{"id": 1'))
  await assert.rejects(engine.reload())
  await checkNothingKept(engine, 'by an edit that is no JSON')
  disk.put(DATA_FILE, Buffer.from(JSON.stringify(file)))
  await engine.reload()
  await checkNothingKept(engine, 'by an edit that changes nothing')
})

test('for one reader at an earlier position the store keeps one version of each item, however often it changes', async (t) => {
  const { engine, bytes, changeAll } = await opened(t)
  await changeAll(1)
  const reader = engine.views.snapshot()
  const seen = Array.from(reader.get('a')?.items() ?? [], ({ text }) => text)
  const sizes: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    await changeAll(2 + round)
    sizes.push(bytes())
  }
  assert.deepEqual(
    Array.from(reader.get('a')?.items() ?? [], ({ text }) => text),
    seen,
  )
  // The data file that is being written is a reader, too, for a while.
  await until('one version of each to be left', () => versionsOf(engine, TAG.item) === ITEMS)
  const [half, end] = [sizes[ROUNDS / 2 - 1] as number, sizes.at(-1) as number]
  // The position of each event is kept, which takes a small part of what a version of its item would take.
  const grown = (end - half) / ((ROUNDS / 2) * ITEMS)
  assert.ok(grown < 200, `${grown} bytes for each change`)
  reader.close()
  await checkNothingKept(engine, 'by the reader')
})
