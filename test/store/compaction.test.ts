import assert from 'node:assert/strict'
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { IdleCompaction } from '../../src/store/idle-compaction.ts'
import { Store } from '../../src/store/store.ts'
import { FILES, StoreDirectory } from '../../src/store/store-directory.ts'
import { until } from '../support/deadline.ts'
import { type Scope, temporaryDirectory } from '../support/directory.ts'
import { storeLeftIn } from '../support/engine.ts'
import { Random, SEED } from '../support/random.ts'

/** More than a slice copies. */
const ROWS = 12_000
/** More than the least that is compacted in the hours for it. */
const KILOBYTES = 20_000
const START = Buffer.alloc(1)
const END = Buffer.from([0xff])

type Model = Map<string, string>

/** Puts and removes rows in a store and in a model of it. */
class Writer {
  readonly model: Model = new Map()
  /** Rows as they were after each write. */
  readonly states = new Set<string>()
  readonly #store: Store
  readonly #random: Random

  constructor(store: Store, random: Random) {
    this.#store = store
    this.#random = random
  }

  write(rows: number): void {
    const random = this.#random
    this.#store.transaction(() => {
      for (let row = 0; row < rows; row++) {
        const key = Buffer.from(`${String.fromCharCode(1 + random.integer(200))}${random.integer(2000)}`, 'latin1')
        const name = key.toString('latin1')
        if (random.chance(0.3)) {
          this.#store.remove(key)
          this.model.delete(name)
        } else {
          const value = 'v'.repeat(random.integer(random.chance(0.02) ? 20_000 : 200)) + random.integer(1e9)
          this.#store.set(key, Buffer.from(value))
          this.model.set(name, value)
        }
      }
    })
    this.states.add(textOf(this.model))
  }

  /** The room that these rows take stays in the file when they are gone. */
  grow(kilobytes: number): void {
    const key = (row: number): Buffer => Buffer.from([250, row >> 8, row & 255])
    for (let row = 0; row < kilobytes; row++) {
      this.#store.transaction(() => this.#store.set(key(row), Buffer.alloc(1024, 'g')))
    }
    this.#store.transaction(() => {
      for (let row = 0; row < kilobytes; row++) this.#store.remove(key(row))
    })
  }
}

function rowsOf(store: Store): Model {
  return new Map(store.rows(START, END).map(({ key, value }) => [key.toString('latin1'), value.toString()]))
}

function textOf(model: Model): string {
  return JSON.stringify([...model].sort(([one], [other]) => (one < other ? -1 : 1)))
}

function check(store: Store, model: Model, what: string): void {
  assert.equal(textOf(rowsOf(store)), textOf(model), what)
}

async function grown(
  t: Scope,
  kilobytes: number,
): Promise<{ directory: StoreDirectory; store: Store; writer: Writer; random: Random }> {
  const random = new Random(SEED)
  const directory = new StoreDirectory(join(await temporaryDirectory(t), 'store'))
  const store = directory.open()
  const writer = new Writer(store, random)
  for (let written = 0; written < ROWS; written += 500) writer.write(500)
  writer.grow(kilobytes)
  return { directory, store, writer, random }
}

test('a store that is written during its compaction has the same rows in a smaller file, and after a kill those of a commit before', async (t) => {
  const { directory, store, writer, random } = await grown(t, 5000)
  const checkKilled = async (what: string): Promise<void> => {
    const left = storeLeftIn(directory.path)
    const next = new StoreDirectory(left.path)
    const opened = next.open()
    assert.equal(next.whyNot, undefined, what)
    assert.ok(writer.states.has(textOf(rowsOf(opened))), what)
    await next.close(opened)
    assert.equal(existsSync(join(left.path, FILES[0])), !existsSync(join(left.path, FILES[1])), what)
    await left.remove()
  }
  let rests = 0
  const compacted = await directory.compactOpen(store, async () => {
    rests++
    if (rests < 40) writer.write(random.integer(200))
    if (rests % 10 === 1) await checkKilled(`killed in rest ${rests}`)
    return true
  })
  assert.ok(compacted && compacted.after < compacted.before / 2, JSON.stringify(compacted))
  check(store, writer.model, 'when it was compacted')
  await checkKilled('killed after it')
  writer.write(300)
  check(store, writer.model, 'after another write')
  assert.equal(await directory.advance(store), true)
  await checkKilled('killed after another write')
  await directory.close(store)
  const again = directory.open()
  assert.equal(directory.whyNot, undefined)
  check(again, writer.model, 'after an end')
  await directory.close(again)
})

test('an aborted compaction leaves the store unchanged', async (t) => {
  const { directory, store, writer } = await grown(t, 5000)
  const [file, other] = FILES.map((name) => join(directory.path, name)) as [string, string]
  const { size } = statSync(file)
  let rests = 0
  const compacted = await directory.compactOpen(store, async () => {
    writer.write(20)
    rests++
    return false
  })
  assert.equal(compacted, undefined)
  assert.equal(rests, 1)
  assert.ok(statSync(file).size >= size)
  assert.equal(existsSync(other), false)
  check(store, writer.model, 'when it was given up')
  writer.write(300)
  check(store, writer.model, 'after another write')
  await directory.close(store)
})

test('a store is compacted once in the configured hours when it has grown', async (t) => {
  const { directory, store, writer } = await grown(t, KILOBYTES)
  let time = '02:59'
  const log: string[] = []
  const looks: (() => void)[] = []
  const note = (_: unknown, message?: string): void => void log.push(message ?? String(_))
  const compaction = new IdleCompaction({
    directory,
    store,
    at: { from: 3 * 60, until: 5 * 60 },
    load: () => 1,
    now: () => new Date(`2026-11-20T${time}:00`),
    schedule: (work, delayMs) => {
      if (delayMs === 60_000) looks.push(work)
      else void setImmediate().then(work)
      return { cancel: () => {} }
    },
    log: { info: note, warn: note, error: note },
  })
  const look = async (at: string): Promise<void> => {
    time = at
    looks.shift()?.()
    await setImmediate()
  }
  const { bytes } = directory
  compaction.begin()
  await look('05:00')
  await look('23:59')
  assert.ok(directory.bytes >= bytes)
  await look('03:00')
  await until('it to be compacted', () => log.length === 1)
  assert.deepEqual(log, ['the store was compacted'])
  assert.ok(directory.bytes < bytes / 2)
  await look('03:01')
  await look('04:59')
  assert.equal(log.length, 1)

  writer.grow(KILOBYTES)
  await look('03:02')
  time = '05:01'
  await until('it to be given up', () => log.length === 2)
  assert.match(log[1] as string, /ended too soon/)
  writer.grow(1000)
  await look('03:03')
  await compaction.end()
  assert.equal(log.length, 2)
  check(store, writer.model, 'at the end')
  await directory.close(store)
})

test('a store of which a third is free is compacted in a quiet minute, which is given up when the server becomes busy', async (t) => {
  const { directory, store, writer } = await grown(t, KILOBYTES)
  const log: string[] = []
  const looks: (() => void)[] = []
  const rests: (() => void)[] = []
  const note = (_: unknown, message?: string): void => void log.push(message ?? String(_))
  let load = 0
  const compaction = new IdleCompaction({
    directory,
    store,
    at: 'auto',
    load: () => load,
    now: () => new Date('2026-11-20T12:00:00'),
    schedule: (work, delayMs) => {
      ;(delayMs === 60_000 ? looks : rests).push(work)
      return { cancel: () => {} }
    },
    log: { info: note, warn: note, error: note },
  })
  const look = (now: number): void => {
    load = now
    looks.shift()?.()
  }
  // Nothing is known about the minute before the start.
  compaction.begin()
  look(0.3)
  await setImmediate()
  assert.equal(rests.length, 0)
  look(0.1)
  await until('the compaction to rest', () => rests.length === 1)
  look(0.7)
  rests.shift()?.()
  await until('it to be given up', () => log.length === 1)
  assert.match(log[0] as string, /became busy/)
  check(store, writer.model, 'when it was given up')

  const { bytes } = directory
  look(0.1)
  await until('it to be compacted', () => {
    rests.shift()?.()
    return log.length === 2
  })
  assert.equal(log[1], 'the store was compacted')
  assert.ok(directory.bytes < bytes / 2)
  await compaction.end()
  check(store, writer.model, 'at the end')
  await directory.close(store)
})

test('a compaction fills the pages that removals left half empty', async (t) => {
  const path = join(await temporaryDirectory(t), 'store')
  const directory = new StoreDirectory(path)
  const store = directory.open()
  const keyOf = (row: number): Buffer => Buffer.from([1, row >> 8, row & 255])
  store.transaction(() => {
    for (let row = 0; row < ROWS; row++) store.set(keyOf(row), Buffer.alloc(200))
  })
  const { usedBytes } = store
  store.transaction(() => {
    for (let row = 0; row < ROWS; row += 2) store.remove(keyOf(row))
  })
  assert.ok(store.usedBytes > 0.9 * usedBytes)
  await directory.compactOpen(store, async () => true)
  assert.ok(store.usedBytes < 0.52 * usedBytes, `${usedBytes} before, ${store.usedBytes} after`)
  await directory.close(store)
})

test('the end does not wait for a rest of a compaction, whose timer keeps no process alive', async (t) => {
  const { directory, store, writer } = await grown(t, KILOBYTES)
  let rests = 0
  const compaction = new IdleCompaction({
    directory,
    store,
    at: { from: 0, until: 24 * 60 },
    load: () => 1,
    now: () => new Date('2026-11-20T12:00:00'),
    schedule: (_, delayMs) => {
      if (delayMs !== 60_000) rests++
      return { cancel: () => {} }
    },
    log: { info: () => {}, warn: () => {}, error: () => {} },
  })
  compaction.begin()
  await until('the compaction to rest', () => rests === 1)
  await compaction.end()
  check(store, writer.model, 'at the end')
  await directory.close(store)
})

test('a store in doubt is not compacted, and the next start rebuilds it', async (t) => {
  const { directory, store } = await grown(t, 100)
  await directory.settle(store)
  directory.doubt('it could not be synced')
  assert.equal(await directory.compactOpen(store, async () => true), undefined)
  await directory.settle(store)
  const left = new StoreDirectory(storeLeftIn(directory.path).path)
  assert.equal(left.whyNotUsable(), 'it could not be synced')
  await directory.close(store)
  assert.equal(directory.whyNotUsable(), 'it could not be synced')
})

const KEY = Buffer.from([250])

/** A closed store whose file has free pages. */
async function grownPath(t: Scope): Promise<string> {
  const path = join(await temporaryDirectory(t), 'store')
  const directory = new StoreDirectory(path)
  const store = directory.open()
  store.transaction(() => store.set(KEY, Buffer.alloc(1024 * 1024, 'g')))
  store.transaction(() => store.set(KEY, Buffer.from('kept')))
  await directory.close(store)
  return path
}

async function checkKept(path: string): Promise<void> {
  const directory = new StoreDirectory(path)
  const store = directory.open()
  assert.equal(directory.whyNot, undefined)
  assert.equal(String(store.newest(KEY)), 'kept')
  await directory.close(store)
}

test('a store that could not be compacted stays usable, and no copy takes the last space of the disk', async (t) => {
  const path = await grownPath(t)
  t.mock.method(Store.prototype, 'append', () => {
    throw new Error('No space left on device')
  })
  for (let attempt = 0; attempt < 3; attempt++) {
    await assert.rejects(new StoreDirectory(path).compact(), /unchanged.*No space left on device/)
    assert.equal(existsSync(join(path, FILES[1])), false)
  }
  await checkKept(path)
})

test('a store whose compaction was killed at any step is not built again', async (t) => {
  const path = await grownPath(t)
  const left: string[] = []
  const noting = (): void => void left.push(storeLeftIn(path).path)
  const { append, become } = Store.prototype
  t.mock.method(Store.prototype, 'append', function (this: Store, ...args: Parameters<typeof append>) {
    noting()
    append.call(this, ...args)
  })
  t.mock.method(Store.prototype, 'become', async function (this: Store, ...args: Parameters<typeof become>) {
    noting()
    await become.call(this, ...args)
    noting()
  })
  const { before, after } = await new StoreDirectory(path).compact()
  t.mock.restoreAll()
  assert.ok(after < before)
  assert.equal(left.length, 3)
  for (const one of [...left, path]) await checkKept(one)
})
