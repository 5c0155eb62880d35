import assert from 'node:assert/strict'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { FileEngine } from '../../src/engine/file-engine.ts'
import { Views } from '../../src/projections/views.ts'
import { Store } from '../../src/store/store.ts'
import { newRun, work } from '../faults/workload.ts'
import { snapshotOf } from '../support/collections.ts'
import { until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { DATA_FILE, openTestEngine, storeLeftIn } from '../support/engine.ts'
import { Random, SEED } from '../support/random.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'

const LOSSES = Number(process.env.STORE_POWER_LOSSES ?? 8)
const ENDS = Number(process.env.STORE_ENDS ?? 4)
const ITEMS = 1000
const PAGE = 4096
const STORE = 'store.mdb'
const NOTED = 'store.json'

function someItems(random: Random): { readonly id: number; readonly n: number }[] {
  return Array.from({ length: ITEMS }, (_, id) => ({ id, n: random.integer(10) }))
}

/** Changes and moves every item, while what reads at an earlier position makes the store keep what was. */
async function change(engine: FileEngine, disk: SimulatedDisk, random: Random): Promise<void> {
  await until('the data file to be written', () => engine.dataFile.status.state === 'current')
  const before = engine.views.snapshot()
  const items = someItems(random)
  if (random.chance(0.5)) items.reverse()
  disk.put(DATA_FILE, Buffer.from(JSON.stringify({ a: items, b: [] })))
  await engine.reload()
  await work(engine, random, 20, 2, newRun())
  before.close()
}

async function folded({ journal }: FileEngine): Promise<Views> {
  const views = Views.temporary()
  for await (const recorded of journal.read(1)) views.replay(recorded)
  views.replayed()
  return views
}

/** The store after a loss of power: of each page the synced version or a later one. */
function mixOf(synced: Buffer, later: Buffer, random: Random): Buffer {
  const mixed = Buffer.alloc(random.chance(0.5) ? later.length : synced.length)
  const share = random.next()
  for (let at = 0; at < mixed.length; at += PAGE) {
    const from = at >= synced.length || (at < later.length && random.chance(share)) ? later : synced
    // Bytes that were not written within a file that is longer already are zero.
    if (at < synced.length || random.chance(share)) from.copy(mixed, at, at, at + PAGE)
  }
  return mixed
}

test('a store that was damaged by a power loss is never served, but rebuilt', async (t) => {
  const random = new Random(SEED)
  const store = await temporaryDirectory(t)
  const disk = new SimulatedDisk()
  disk.put(DATA_FILE, Buffer.from(JSON.stringify({ a: someItems(random), b: [] })))
  const first = await openTestEngine(disk.files(), { store })
  await change(first.engine, disk, random)
  await first.engine.close()
  const synced = readFileSync(join(store, STORE))
  const { engine } = await openTestEngine(disk.files(), { store })
  await change(engine, disk, random)
  const later = storeLeftIn(store).path
  const killed = disk.killed()
  await engine.close()

  const noted = JSON.parse(readFileSync(join(later, NOTED), 'utf8')) as { isOpen: boolean }
  assert.equal(noted.isOpen, true)
  for (let loss = 0; loss < LOSSES; loss++) {
    const context = `SEED=${SEED}, loss ${loss}`
    const left = storeLeftIn(later).path
    writeFileSync(join(left, STORE), mixOf(synced, readFileSync(join(later, STORE)), random))
    rmSync(join(left, `${STORE}-lock`), { force: true })
    writeFileSync(join(left, NOTED), JSON.stringify({ ...noted, boot: 'that of the system before' }))
    const again = await openTestEngine(killed.killed().files(), { store: left })
    assert.ok(existsSync(join(left, `${STORE}.aside`)), context)
    assert.deepEqual(snapshotOf(again.engine.views), snapshotOf(await folded(again.engine)), context)
    await again.engine.close()
    assert.deepEqual(again.failures, [], context)
  }
})

test('a store is marked as closed only after all of it was synced', async (t) => {
  const random = new Random(SEED)
  const store = await temporaryDirectory(t)
  let synced: Buffer | undefined
  const sync = Store.prototype.sync
  t.mock.method(Store.prototype, 'sync', async function (this: Store): Promise<void> {
    // A commit that comes while it runs may be in it or not.
    const before = this.directory === store ? readFileSync(join(store, STORE)) : undefined
    await sync.call(this)
    if (before) synced = before
  })
  const disk = new SimulatedDisk()
  disk.put(DATA_FILE, Buffer.from(JSON.stringify({ a: someItems(random), b: [] })))
  for (let end = 0; end < ENDS; end++) {
    const { engine, failures } = await openTestEngine(disk.files(), { store })
    await change(engine, disk, random)
    await engine.close()
    assert.deepEqual(failures, [])
    assert.equal((JSON.parse(readFileSync(join(store, NOTED), 'utf8')) as { isOpen: boolean }).isOpen, false)
    assert.ok(synced?.equals(readFileSync(join(store, STORE))), `SEED=${SEED}, end ${end}`)
  }
})
