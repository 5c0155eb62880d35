import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Position } from '../../src/events/event.ts'
import {
  keyedKey,
  numberedKey,
  POSITION_BYTES,
  positionOf,
  prefixEnd,
  putPosition,
  type ScratchBytes,
  TAG,
  tableKey,
  versionKey,
} from '../../src/store/keys.ts'
import { Store } from '../../src/store/store.ts'
import type { Pin } from '../../src/store/versions.ts'
import { until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { Random, SEED } from '../support/random.ts'

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
