import assert from 'node:assert/strict'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setImmediate, setTimeout as sleep } from 'node:timers/promises'
import type { FileEngine } from '../../src/engine/file-engine.ts'
import { Views } from '../../src/projections/views.ts'
import { Refusal } from '../../src/runtime/errors.ts'
import { snapshotOf } from '../support/collections.ts'
import { until } from '../support/deadline.ts'
import { fill, mountSmallDisk } from '../support/directory.ts'
import { DATA_FILE, openTestEngine } from '../support/engine.ts'
import { Random, SEED } from '../support/random.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'

const ROUNDS = Number(process.env.STORE_DISK_ROUNDS ?? 2)
const KIB = 8000
const WRITERS = 8
const ITEMS = 5000
const ORIGIN = { actor: 'a', requestId: 'r' }

test('while the disk of the store is full writes wait or fail and reads continue; writes resume when there is space', async (t) => {
  const mounted = await mountSmallDisk(t, KIB)
  if ('missing' in mounted) return t.skip(mounted.missing)
  try {
    await fillAndFree(t, mounted.directory)
  } finally {
    mounted.unmount()
  }
})

/** The journal is on another disk, which has room. */
async function fillAndFree(t: TestContext, directory: string): Promise<void> {
  const random = new Random(SEED)
  const store = join(directory, 'store')
  const filler = join(directory, 'filler')
  const disk = new SimulatedDisk()
  disk.put(DATA_FILE, Buffer.from(JSON.stringify({ a: [{ id: 0, n: 0 }], b: [] })))
  let { engine, failures } = await openTestEngine(disk.files(), { store })
  for (let round = 0; round < ROUNDS; round++) {
    await fill(filler)
    const load = new Load(engine, random)
    t.after(() => load.end())
    await until('writes to be refused', () => load.refused > 0)
    assert.notEqual(engine.health().status, 'ok')
    const { acknowledged } = load
    assert.equal(engine.views.find('a')?.item('0')?.text, '{"id":0,"n":0}')
    assert.equal(Array.from(engine.views.find('a')?.items() ?? []).length, engine.views.find('a')?.size)
    if (round % 2 === 1) {
      // The start that finds space stores the records of the journal.
      const killed = disk.killed()
      await rm(filler)
      load.end()
      await load.ended
      await engine.close()
      assert.ok(killed.list('/data/db.journal').length > 0)
      ;({ engine, failures } = await openTestEngine(disk.files(), { store }))
    } else {
      await rm(filler)
      await until('writes to be answered again', () => load.acknowledged > acknowledged + WRITERS)
      load.end()
      await load.ended
    }
    assert.deepEqual(failures, [])
    await until('all to be well', () => engine.health().store?.state === 'current')
    assert.deepEqual(snapshotOf(engine.views), snapshotOf(await folded(engine)))
  }

  // Only a part of a large write may have room.
  await until('the data file to be current', () => engine.dataFile.status.state === 'current')
  const items = Array.from({ length: ITEMS }, (_, n) => ({ n, text: 'x'.repeat(200) }))
  disk.put(DATA_FILE, Buffer.from(JSON.stringify({ a: [{ id: 0, n: 0 }], b: items })))
  await fill(filler)
  const before = engine.views.find('b')?.size
  // The base of the edit may have no room either: then the edit is rejected, and read again later.
  const edited = engine.reload().then(
    () => 'merged',
    (error: NodeJS.ErrnoException) => error.code,
  )
  let isRejected = false
  void edited.then((result) => {
    isRejected = result !== 'merged'
  })
  await until('the edit to meet the full disk', () => isRejected || engine.health().store?.state !== 'current')
  assert.equal(engine.views.find('b')?.size, before)
  await rm(filler)
  const result = await edited
  if (result !== 'merged') {
    assert.ok(['ENOSPC', 'DiskFull', 'OutcomeUnknown'].includes(result ?? ''), result)
    assert.ok((await engine.reload()).events >= ITEMS)
  }
  assert.equal(engine.views.find('b')?.size, ITEMS)
  assert.deepEqual(snapshotOf(engine.views), snapshotOf(await folded(engine)))
  await engine.close()
  assert.deepEqual(failures, [])
}

/** Writers that each wait for their answer. */
class Load {
  acknowledged = 0
  refused = 0
  readonly ended: Promise<unknown>
  #isEnding = false

  constructor({ handler }: FileEngine, random: Random) {
    const write = async (): Promise<void> => {
      while (!this.#isEnding) {
        const item = { n: random.integer(1e9), text: 'x'.repeat(random.integer(400)) }
        const key = `${1 + random.integer(200)}`
        try {
          await handler.handle({ type: 'ReplaceItem', collection: 'a', key, item }, ORIGIN)
          this.acknowledged++
        } catch (error) {
          assert.ok(error instanceof Refusal && ['DiskFull', 'OutcomeUnknown'].includes(error.code), String(error))
          this.refused++
          await sleep(5)
        }
        // The simulated disk takes no time.
        await setImmediate()
      }
    }
    this.ended = Promise.all(Array.from({ length: WRITERS }, write))
  }

  end(): void {
    this.#isEnding = true
  }
}

async function folded({ journal }: FileEngine): Promise<Views> {
  const views = Views.temporary()
  for await (const recorded of journal.read(1)) views.replay(recorded)
  views.replayed()
  return views
}
