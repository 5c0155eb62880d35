import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Settings } from '../../src/settings/settings.ts'
import { snapshotOf } from '../support/collections.ts'
import { directoryUntilExit } from '../support/directory.ts'
import { DATA_FILE, openTestEngine, storeLeftIn } from '../support/engine.ts'
import { Random, SEED } from '../support/random.ts'
import { type Fault, type Operation, SimulatedDisk } from '../support/simulated-files.ts'
import { checkKept, newRun, type Run, work } from './workload.ts'

const FIRST = Buffer.from(JSON.stringify({ a: [{ id: 0, n: 0 }], b: [] }))

/** Runs a workload until it is done or a fault stops it; resolves with what was acknowledged by then. */
async function runUntil(
  disk: SimulatedDisk,
  seed: number,
  operations: number,
  fault: (operation: Operation, path: string, call: number) => Fault | undefined,
  settings: Partial<Settings> = {},
): Promise<{ run: Run; calls: number; done: boolean; failures: readonly unknown[] }> {
  const files = disk.files(fault)
  const random = new Random(seed)
  const run = newRun()
  let failures: readonly unknown[] = []
  const finished = (async () => {
    const opened = await openTestEngine(files, settings)
    failures = opened.failures
    await work(opened.engine, random, operations, 1 + random.integer(4), run)
    await opened.engine.close()
    return true
  })()
  const done = await Promise.race([finished, files.stopped.then(() => false)])
  return { run, calls: files.calls(), done, failures }
}

async function checkAfter(
  disk: SimulatedDisk,
  run: Run,
  context: string,
  settings: Partial<Settings> = {},
): Promise<void> {
  const { engine } = await openTestEngine(disk.files(), settings)
  await checkKept(engine, [run], context)
  await engine.handler.handle(
    { type: 'CreateItem', collection: 'a', item: {} },
    { actor: 'client', requestId: 'after' },
  )
  const served = snapshotOf(engine.views)
  await engine.close()
  assert.equal(engine.dataFile.status.state, 'current', `${context}: ${JSON.stringify(engine.dataFile.status)}`)
  const again = await openTestEngine(disk.files(), settings)
  assert.deepEqual(snapshotOf(again.engine.views), served, context)
  await again.engine.close()
}

function newDisk(): SimulatedDisk {
  const disk = new SimulatedDisk()
  disk.put(DATA_FILE, FIRST)
  return disk
}

test('stopped at any system call, it recovers to a prefix with every acknowledged write', async () => {
  const operations = Number(process.env.STOPS_OPERATIONS ?? 15)
  const { calls, done } = await runUntil(newDisk(), SEED, operations, () => undefined)
  assert.ok(done && calls > 50, `${calls} calls`)
  for (let stop = 1; stop <= calls; stop++) {
    const disk = newDisk()
    const store = directoryUntilExit()
    const { run } = await runUntil(
      disk,
      SEED,
      operations,
      (_operation, _path, call) => (call === stop ? { type: 'stop' } : undefined),
      { store: store.path },
    )
    // Half of the starts go on from the store.
    const left = stop % 2 === 0 ? storeLeftIn(store.path) : directoryUntilExit()
    await store.remove()
    await checkAfter(disk.killed(), run, `SEED=${SEED}, stopped at call ${stop}`, { store: left.path })
    await left.remove()
  }
})

test('after a power loss every acknowledged write is there, whatever unsynced sectors and entries survived', async () => {
  const seeds = Number(process.env.POWER_SEEDS ?? 25)
  for (let seed = SEED; seed < SEED + seeds; seed++) {
    const random = new Random(seed)
    const stop = 5 + random.integer(250)
    const disk = newDisk()
    const { run } = await runUntil(disk, seed, 60, (_operation, _path, call) =>
      call === stop ? { type: 'stop' } : undefined,
    )
    await checkAfter(disk.powerLost(random), run, `SEED=${seed}`)
  }
})

test('the same seed of a power loss gives the same bytes', async () => {
  const lose = async (): Promise<(Buffer | undefined)[]> => {
    const disk = newDisk()
    await runUntil(disk, SEED, 60, (_operation, _path, call) => (call === 90 ? { type: 'stop' } : undefined))
    const left = disk.powerLost(new Random(SEED))
    return left.list('/data/db.journal').map((name) => left.bytes(`/data/db.journal/${name}`))
  }
  const once = await lose()
  assert.ok(once.length > 0)
  assert.deepEqual(await lose(), once)
})

test('it survives repeated power losses, even during recovery', async () => {
  const rounds = Number(process.env.POWER_ROUNDS ?? 10)
  const random = new Random(SEED)
  for (let round = 0; round < rounds; round++) {
    let disk = newDisk()
    let store = directoryUntilExit()
    const runs: Run[] = []
    for (let loss = 0; loss < 6; loss++) {
      const stop = 3 + random.integer(120)
      const { run } = await runUntil(
        disk,
        random.integer(2 ** 30),
        40,
        (_operation, _path, call) => (call === stop ? { type: 'stop' } : undefined),
        { store: store.path },
      )
      runs.push(run)
      const isKilled = random.chance(0.3)
      disk = isKilled ? disk.killed() : disk.powerLost(random)
      const left = isKilled ? storeLeftIn(store.path) : directoryUntilExit()
      await store.remove()
      store = left
    }
    const { engine } = await openTestEngine(disk.files(), { store: store.path })
    await checkKept(engine, runs, `SEED=${SEED}, round ${round}`)
    await engine.close()
    await store.remove()
  }
})
