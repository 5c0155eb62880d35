import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import type { Settings } from '../../src/settings/settings.ts'
import { snapshotOf } from '../support/collections.ts'
import { directoryUntilExit } from '../support/directory.ts'
import { DATA_FILE, diskWith, openTestEngine } from '../support/engine.ts'
import { Random, SEED } from '../support/random.ts'
import type { SimulatedDisk } from '../support/simulated-files.ts'

const ITEMS = 8
const FIRST = { a: Array.from({ length: ITEMS }, (_, id) => ({ id, n: 0 })) }
/** As a large file is not written whenever it is behind, so is this small one not. */
const BEHIND = { dataFile: { write: 'never', maxDelaySeconds: undefined } } as const

interface Item {
  readonly id: number
  readonly n: number
}

/** Writes, of which the data file shows those before a snapshot; resolves with the values that were acknowledged. */
async function run(disk: SimulatedDisk, stop: number, settings: Partial<Settings>) {
  const files = disk.files((_operation, _path, call) => (call === stop ? { type: 'stop' } : undefined))
  const acknowledged = new Map<number, number>()
  const finished = (async () => {
    const { engine } = await openTestEngine(files, { ...BEHIND, ...settings })
    for (let n = 1; n <= 9; n++) {
      const [key, item] = [String(n % 4), { n }]
      await engine.handler.handle({ type: 'ReplaceItem', collection: 'a', key, item }, { actor: 'a', requestId: 'r' })
      acknowledged.set(n % 4, n)
      if (n % 3 === 0 && n < 9) await engine.snapshot()
    }
    await engine.close()
  })()
  await Promise.race([finished, files.stopped])
  return { acknowledged, calls: files.calls() }
}

/** Whether the state file says that the data file was written, or merged, as it is. */
function isConfirmed(disk: SimulatedDisk): boolean {
  const state = JSON.parse(String(disk.bytes('/data/.recollect/db.json.state') ?? '{}')) as {
    confirmed?: { hash: string }
  }
  const hash = createHash('sha256').update(disk.bytes(DATA_FILE) ?? '')
  return state.confirmed?.hash === hash.digest('hex')
}

test('an edit of an outdated data file after a crash applies only what was edited, and reverts no write', async () => {
  const random = new Random(SEED)
  const { calls } = await run(diskWith(FIRST), 0, {})
  assert.ok(calls > 80, `${calls} calls`)
  for (let stop = 1; stop <= calls; stop++) {
    const context = `SEED=${SEED}, stopped at call ${stop} of ${calls}`
    const store = directoryUntilExit()
    const stopped = diskWith(FIRST)
    const { acknowledged } = await run(stopped, stop, { store: store.path })
    await store.remove()
    const disk = random.chance(0.5) ? stopped.killed() : stopped.powerLost(random)
    if (random.chance(0.3)) {
      // The first start after the crash sees no edit, and does not write a file that it knows.
      const before = disk.bytes(DATA_FILE)
      const isKnown = isConfirmed(disk)
      const { engine } = await openTestEngine(disk.files(), BEHIND)
      await engine.close()
      if (isKnown) assert.deepEqual(disk.bytes(DATA_FILE), before, context)
    }
    const data = JSON.parse(String(disk.bytes(DATA_FILE))) as { a: Item[] }
    data.a[5] = { id: 5, n: 55 }
    disk.put(DATA_FILE, Buffer.from(JSON.stringify(data)))
    const { engine } = await openTestEngine(disk.files(), BEHIND)
    const items = snapshotOf(engine.views).get('a') as unknown as Item[]
    assert.equal(items.length, ITEMS, context)
    assert.equal(items[5]?.n, 55, context)
    for (const [id, n] of acknowledged) assert.ok((items[id]?.n ?? 0) >= n, `${context}: item ${id} lost ${n}`)
    const served = Object.fromEntries(snapshotOf(engine.views))
    await engine.close()
    assert.deepEqual(JSON.parse(String(disk.bytes(DATA_FILE))), served, `${context}: the edit is shown`)
  }
})
