import assert from 'node:assert/strict'
import { test } from 'node:test'
import { positioned } from '../../src/events/journal.ts'
import { Corruption, JournalMismatch, Refusal } from '../../src/runtime/errors.ts'
import { snapshotOf } from '../support/collections.ts'
import { until } from '../support/deadline.ts'
import { DATA_FILE, diskWith, JOURNAL, openTestEngine } from '../support/engine.ts'
import { Random, SEED } from '../support/random.ts'
import type { Fault, Operation, SimulatedDisk } from '../support/simulated-files.ts'
import { checkKept, newRun, work } from './workload.ts'

type Faults = (operation: Operation, path: string, call: number) => Fault | undefined

/** The number of syncs that fail, one after the other; the workload has about as many. */
const SYNCS = Number(process.env.FAILED_SYNCS ?? 25)
const PARTIAL_WRITES = Number(process.env.PARTIAL_WRITES ?? 40)
const LOST_SYNCS = Number(process.env.LOST_SYNCS ?? 50)
const ORIGIN = { actor: 'client', requestId: 'r' }

function isOfJournal(path: string): boolean {
  return path.startsWith(JOURNAL)
}

/** The engine on a disk whose faults begin when it has been opened. */
async function opened(disk: SimulatedDisk, fault: Faults) {
  let call = 0
  let armed = false
  const files = disk.files((operation, path) => (armed ? fault(operation, path, ++call) : undefined))
  const made = await openTestEngine(files)
  armed = true
  return {
    ...made,
    calls: () => call,
    disarm: () => {
      armed = false
    },
  }
}

test('a sync of the journal that fails ends the service: nothing is acknowledged after it, no file is synced twice', async () => {
  let failedOnce = 0
  for (let nth = 1; nth <= SYNCS; nth++) {
    const disk = diskWith('{"a":[]}')
    let seen = 0
    let failedFile: string | undefined
    const syncsAfter: string[] = []
    const { engine, failures } = await opened(disk, (operation, path) => {
      if (operation !== 'sync' || !isOfJournal(path)) return undefined
      if (failedFile !== undefined) syncsAfter.push(path)
      if (++seen !== nth) return undefined
      failedFile = path
      return { type: 'error', code: 'EIO' }
    })
    const run = newRun()
    await work(engine, new Random(SEED), 120, 3, run)
    if (failedFile === undefined) continue
    failedOnce++
    assert.equal(failures.length, 1, 'the process is told to end')
    assert.ok(run.refused.includes('Unavailable'))
    const acknowledged = run.acknowledged.length
    await assert.rejects(engine.handler.handle({ type: 'CreateItem', collection: 'a', item: {} }, ORIGIN), {
      code: 'Unavailable',
    })
    assert.equal(run.acknowledged.length, acknowledged)
    assert.deepEqual(syncsAfter, [], `SEED=${SEED}: sync ${nth}`)
    const after = await openTestEngine(disk.powerLost(new Random(SEED + nth)).files())
    await checkKept(after.engine, [run], `SEED=${SEED}: sync ${nth} failed`)
    await after.engine.close()
  }
  assert.ok(failedOnce > 20, `${failedOnce} syncs were reached`)
})

test('a failed write of the journal, other than a full disk, ends the service', async () => {
  const disk = diskWith('{"a":[]}')
  const { engine, failures } = await opened(disk, (operation, path) =>
    operation === 'write' && isOfJournal(path) ? { type: 'error', code: 'EIO' } : undefined,
  )
  await assert.rejects(engine.handler.handle({ type: 'CreateItem', collection: 'a', item: {} }, ORIGIN), {
    code: 'Unavailable',
  })
  assert.equal((failures[0] as NodeJS.ErrnoException).code, 'EIO')
})

test('short writes of any length are completed', async () => {
  const random = new Random(SEED)
  const disk = diskWith('{"a":[]}')
  const { engine, failures } = await opened(disk, (operation) =>
    operation === 'write' && random.chance(0.7) ? { type: 'short', bytes: 1 + random.integer(200) } : undefined,
  )
  const run = newRun()
  await work(engine, new Random(SEED), 300, 4, run)
  await engine.close()
  assert.deepEqual(failures, [])
  const after = await openTestEngine(disk.files())
  await checkKept(after.engine, [run], `SEED=${SEED}`)
  await after.engine.close()
})

test('without a descriptor for a new segment, writes fail as Unavailable, and resume later', async () => {
  const random = new Random(SEED)
  let refusedAt = 0
  // A segment takes several opens: its temporary file, its directory, itself.
  for (let nth = 1; nth <= 4; nth++) {
    const disk = diskWith('{"a":[]}')
    let left = Number.POSITIVE_INFINITY
    const { engine, failures } = await opened(disk, (operation, path) => {
      const opens = operation === 'open' || operation === 'syncDirectory'
      return opens && isOfJournal(path) && --left < 0 ? { type: 'error', code: 'EMFILE' } : undefined
    })
    const run = newRun()
    for (let round = 0; round < 5; round++) {
      left = Number.POSITIVE_INFINITY
      const before = run.acknowledged.length
      await work(engine, random, 30, 4, run)
      assert.ok(run.acknowledged.length > before, `SEED=${SEED}: it resumed`)
      assert.equal(engine.journal.writable, true)
      left = nth - 1
      await work(engine, random, 60, 4, run)
      assert.ok((engine.views.find('a')?.items().next().value ?? undefined) !== undefined, 'reads go on')
    }
    refusedAt += run.refused.filter((code) => code === 'Unavailable').length
    assert.deepEqual(failures, [], `SEED=${SEED}, open ${nth}`)
    left = Number.POSITIVE_INFINITY
    await engine.close()
    const after = await openTestEngine(disk.files())
    await checkKept(after.engine, [run], `SEED=${SEED}, open ${nth}`)
    await after.engine.close()
  }
  assert.ok(refusedAt > 20, `${refusedAt} writes were refused`)
})

test('on a full disk writes fail with DiskFull, reads continue, and writes resume when there is space', async () => {
  const random = new Random(SEED)
  const disk = diskWith('{"a":[]}')
  let full = false
  const { engine, failures } = await opened(disk, (operation, path) => {
    if (!full || !isOfJournal(path)) return undefined
    if (operation === 'write') {
      return random.chance(0.5) ? { type: 'error', code: 'ENOSPC' } : { type: 'short', bytes: 1 + random.integer(30) }
    }
    return operation === 'open' ? { type: 'error', code: 'ENOSPC' } : undefined
  })
  const run = newRun()
  for (let round = 0; round < 20; round++) {
    full = false
    const before = run.acknowledged.length
    await work(engine, random, 30, 4, run)
    assert.ok(run.acknowledged.length > before, 'it resumed')
    assert.equal(engine.journal.writable, true)
    full = true
    const head = engine.journal.head
    await work(engine, random, 10, 4, run)
    const items = [...(engine.views.find('a')?.items() ?? [])]
    assert.ok(items.length > 0)
    if (engine.journal.head === head) assert.equal(engine.journal.writable, false)
  }
  assert.deepEqual(failures, [])
  assert.ok(run.refused.includes('DiskFull'))
  full = false
  await engine.close()
  const after = await openTestEngine(disk.files())
  await checkKept(after.engine, [run], `SEED=${SEED}`)
  assert.equal(after.engine.journal.cut, undefined, 'no half record was left behind')
  await after.engine.close()
})

test('a disk that accepts only parts of a write counts as full', async () => {
  let isPartial = true
  const { engine, failures } = await opened(diskWith('{"a":[]}'), (operation, path) =>
    isPartial && operation === 'write' && isOfJournal(path) ? { type: 'short', bytes: 40 } : undefined,
  )
  const create = () => engine.handler.handle({ type: 'CreateItem', collection: 'a', item: {} }, ORIGIN)
  await assert.rejects(create(), { code: 'DiskFull' })
  assert.equal(engine.journal.writable, false)
  isPartial = false
  const { position } = await create()
  assert.equal(position, engine.journal.head)
  assert.deepEqual(failures, [])
  await engine.close()
})

test('after a power loss during a partial write the next start finds it complete or cuts it off', async () => {
  for (let seed = SEED; seed < SEED + PARTIAL_WRITES; seed++) {
    const random = new Random(seed)
    const disk = diskWith('{"a":[]}')
    let writes = 0
    const files = disk.files((operation, path) => {
      if (!isOfJournal(path)) return undefined
      if (operation === 'write' && ++writes === 10) return { type: 'short', bytes: 1 + random.integer(250) }
      // The bytes that are written anew are not on the medium yet.
      return operation === 'sync' && writes > 10 ? { type: 'stop' } : undefined
    })
    const { engine } = await openTestEngine(files)
    const run = newRun()
    await Promise.race([work(engine, random, 60, 1, run), files.stopped])
    assert.ok(writes > 10, 'the part was taken')
    const after = await openTestEngine(disk.powerLost(random).files())
    await checkKept(after.engine, [run], `SEED=${seed}`)
    await after.engine.close()
  }
})

test('when truncating after a full disk fails, the service ends', async () => {
  for (const broken of ['truncate', 'sync'] as const) {
    const { engine, failures } = await opened(diskWith('{"a":[]}'), (operation, path) => {
      if (!isOfJournal(path)) return undefined
      if (operation === 'write') return { type: 'error', code: 'ENOSPC' }
      return operation === broken ? { type: 'error', code: 'EIO' } : undefined
    })
    await assert.rejects(engine.handler.handle({ type: 'CreateItem', collection: 'a', item: {} }, ORIGIN), {
      code: 'Unavailable',
    })
    assert.equal(failures.length, 1, broken)
  }
})

test('a data file that cannot be written never stops the service, which reports and retries it', async () => {
  const disk = diskWith('{"a":[]}')
  const { engine, failures, disarm } = await opened(disk, (_operation, path) =>
    isOfJournal(path) ? undefined : { type: 'error', code: 'EIO' },
  )
  const run = newRun()
  await work(engine, new Random(1), 60, 3, run)
  assert.equal(run.refused.includes('Unavailable'), false)
  assert.equal(engine.dataFile.status.state, 'failing')
  assert.deepEqual(failures, [])
  disarm()
  const served = Object.fromEntries(snapshotOf(engine.views))
  await engine.close()
  assert.equal(engine.dataFile.status.state, 'current')
  assert.deepEqual(JSON.parse((disk.bytes(DATA_FILE) as Buffer).toString()), served)
})

test('a data file that does not fit on the disk leaves the space that it took to the journal', async () => {
  const disk = diskWith('{"a":[]}')
  const temporary = '/data/.recollect/db.json.new'
  const { engine, failures } = await opened(disk, (operation, path) =>
    path === temporary && operation === 'sync' ? { type: 'error', code: 'ENOSPC' } : undefined,
  )
  await engine.handler.handle({ type: 'CreateItem', collection: 'a', item: { text: 'x'.repeat(10_000) } }, ORIGIN)
  await until('the data file to fail', () => engine.dataFile.status.state === 'failing')
  assert.equal(disk.bytes(temporary), undefined)
  await engine.close().catch(() => {})
  assert.deepEqual(failures, [])
})

test('on a disk that ignores syncs the journal opens or is rejected with what is missing; damage is never served', async () => {
  const outcomes = { opened: 0, refused: 0 }
  for (let seed = SEED; seed < SEED + LOST_SYNCS; seed++) {
    const random = new Random(seed)
    const disk = diskWith('{"a":[]}')
    const liesFrom = 20 + random.integer(100)
    const { engine } = await opened(disk, (operation, _path, call) =>
      (operation === 'sync' || operation === 'syncDirectory') && call > liesFrom ? { type: 'lie' } : undefined,
    )
    const run = newRun()
    await work(engine, random, 80, 3, run)
    await engine.close()
    try {
      const after = await openTestEngine(disk.powerLost(random).files())
      outcomes.opened++
      for await (const recorded of after.engine.journal.read(1)) {
        for (const [at, event] of positioned(recorded)) {
          const told = run.acknowledged.find(({ position }) => position === at)
          if (told && recorded.actor === 'client') assert.deepEqual(event, told.event, `SEED=${seed}`)
        }
      }
      await after.engine.close()
    } catch (error) {
      const isRefused = error instanceof JournalMismatch || error instanceof Corruption || error instanceof Refusal
      assert.ok(isRefused, `SEED=${seed}: ${error}`)
      outcomes.refused++
    }
  }
  assert.ok(outcomes.refused > 0, JSON.stringify(outcomes))
})

test('when the clock is set back or forward, positions increase strictly and times never decrease', async () => {
  const random = new Random(SEED)
  let now = Date.parse('2026-11-20T12:00:00.000Z')
  const disk = diskWith('{"a":[]}')
  const { engine } = await openTestEngine(disk.files(), {}, () => {
    now += random.integer(5000) - 2500
    return new Date(now)
  })
  const run = newRun()
  for (const years of [0, -10, 0, 10, -10]) {
    now = Date.parse('2026-11-20T12:00:00.000Z') + years * 365.25 * 86_400_000
    await work(engine, random, 60, 4, run)
  }
  let last = ''
  for await (const { time } of engine.journal.read(1)) {
    assert.ok(time >= last, `SEED=${SEED}: ${time} after ${last}`)
    last = time
  }
  await engine.close()
  const after = await openTestEngine(disk.files())
  await checkKept(after.engine, [run], `SEED=${SEED}`)
  await after.engine.close()
})
