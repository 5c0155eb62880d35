import assert from 'node:assert/strict'
import { closeSync, openSync, readSync, statSync, truncateSync, utimesSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { DomainEvent } from '../../src/events/event.ts'
import { Document } from '../../src/json/document.ts'
import { Views } from '../../src/projections/views.ts'
import type { Store } from '../../src/store/store.ts'
import { StoreDirectory } from '../../src/store/store-directory.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { storeLeftIn } from '../support/engine.ts'
import { Random, SEED } from '../support/random.ts'

const CUTS = Number(process.env.STORE_CUTS ?? 60)
const TRANSACTIONS = 400
const ITEMS = 1000
const FILE = 'store.mdb'
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
  const killed = storeLeftIn(directory.path).path
  await directory.close(store)
  return { killed, ended: directory.path }
}

/** Changes the file of a copy, as a medium does that forgets: its time stays. */
function copyWith(left: string, change: (path: string) => void): StoreDirectory {
  const copy = storeLeftIn(left).path
  const path = join(copy, FILE)
  const { atime, mtime } = statSync(path)
  change(path)
  utimesSync(path, atime, mtime)
  return new StoreDirectory(copy)
}

async function checkIsBuiltAgain(directory: StoreDirectory, context: string): Promise<void> {
  const store = directory.open()
  assert.notEqual(directory.whyNot, undefined, context)
  assert.deepEqual(new Views(store).namesEver(), [], context)
  assert.equal(statSync(join(directory.path, `${FILE}.aside`)).isFile(), true, context)
  await directory.close(store)
}

test('a truncated file is set aside before LMDB opens it, even after a kill', async (t) => {
  const random = new Random(SEED)
  for (const [how, left] of Object.entries(await lived(t))) {
    const size = statSync(join(left, FILE)).size
    for (let cut = 0; cut < CUTS / 2; cut++) {
      const bytes = random.chance(0.5) ? random.integer(size) : size - 1 - random.integer(10 * PAGE)
      const directory = copyWith(left, (path) => truncateSync(path, bytes))
      await checkIsBuiltAgain(directory, `SEED=${SEED}: ${how}, cut to ${bytes} of ${size} bytes`)
    }
  }
})

test('a file with damaged first pages is set aside before LMDB opens it', async (t) => {
  const random = new Random(SEED)
  const left = await lived(t)
  const rubbish = (bytes: number): Buffer => Buffer.from(Array.from({ length: bytes }, () => random.integer(256)))
  const number = (value: bigint): Buffer => {
    const bytes = Buffer.alloc(8)
    bytes.writeBigUInt64LE(value)
    return bytes
  }
  const damages: Readonly<Record<string, readonly [offset: number, bytes: Buffer]>> = {
    rubbish: [0, rubbish(PAGE)],
    zeros: [0, Buffer.alloc(PAGE)],
    'another page size': [48, Buffer.from([0, 0, 1, 0])],
    'no page size': [48, Buffer.alloc(4)],
    'other flags': [100, Buffer.from([4])],
    'a list of free pages beyond the file': [88, number(2n ** 40n)],
    'a root beyond the file': [136, number(2n ** 40n)],
    'a last page beyond the file': [144, number(2n ** 40n)],
  }
  for (const [how, path] of Object.entries(left)) {
    for (const [what, [offset, bytes]] of Object.entries(damages)) {
      const directory = copyWith(path, (copy) => {
        const file = openSync(copy, 'r+')
        for (const page of [0, 1]) writeSync(file, bytes, 0, bytes.length, page * PAGE + offset)
        closeSync(file)
      })
      await checkIsBuiltAgain(directory, `SEED=${SEED}: ${how}, ${what}`)
    }
  }
})

test('any change of the meta pages of LMDB since the store was closed is detected', async (t) => {
  const random = new Random(SEED)
  const { ended } = await lived(t)
  for (let run = 0; run < CUTS / 2; run++) {
    const at = random.integer(2) * PAGE + 24 + random.integer(136)
    const directory = copyWith(ended, (path) => {
      const file = openSync(path, 'r+')
      const byte = Buffer.alloc(1)
      readSync(file, byte, 0, 1, at)
      byte[0] = (byte[0] as number) ^ (1 + random.integer(255))
      writeSync(file, byte, 0, 1, at)
      closeSync(file)
    })
    await checkIsBuiltAgain(directory, `SEED=${SEED}: byte ${at}`)
  }
})

test('pages that transactions allocate and free at the end of the file do not make it look truncated', async (t) => {
  const random = new Random(SEED)
  const directory = new StoreDirectory(await temporaryDirectory(t))
  const store = directory.open()
  for (let transaction = 0; transaction < TRANSACTIONS; transaction++) {
    store.transaction(() => {
      for (let row = random.integer(20); row >= 0; row--) {
        const key = Buffer.from(`k${transaction}-${random.integer(3)}`)
        if (random.chance(0.3)) store.remove(key)
        else store.set(key, Buffer.alloc(random.integer(random.chance(0.5) ? 60_000 : 500)))
      }
    })
    assert.equal(directory.whyNotUsable(), undefined, `SEED=${SEED}: transaction ${transaction}`)
  }
  await directory.close(store)
})
