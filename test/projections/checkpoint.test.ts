import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { FileEngine } from '../../src/engine.ts'
import { Corruption } from '../../src/errors.ts'
import { segmentName } from '../../src/events/walk.ts'
import { newRun, work } from '../faults/workload.ts'
import { DATA_FILE, JOURNAL, openTestEngine } from '../support/engine.ts'
import { Random, seedFor } from '../support/random.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'
import { until } from '../support/until.ts'

const FLIPS = Number(process.env.CHECKPOINT_FLIPS ?? 80)
const CHECKPOINT = /\.checkpoint$/

const checkpointsOf = (disk: SimulatedDisk) => disk.list(JOURNAL).filter((name) => CHECKPOINT.test(name))
const pathOf = (name: string) => `${JOURNAL}/${name}`

/** Checkpoints as often as can be. */
const OFTEN = { checkpointEvents: 1, segmentBytes: 8 * 1024 }
const NEVER = { ...OFTEN, checkpointEvents: 0 }

/** Everything that a projection of events can be: writes, retries, edits by hand that reorder and remove. */
async function live(engine: FileEngine, disk: SimulatedDisk, random: Random): Promise<void> {
  const { handler } = engine
  await work(engine, random, 60, 3, newRun())
  for (let time = 0; time < 5; time++) {
    const key = `key ${random.integer(8)}`
    const item = { n: random.integer(10) }
    const origin = { actor: 'a', requestId: 'r', key, request: JSON.stringify(item) }
    await handler.handle({ type: 'CreateItem', collection: 'a', item }, origin).catch(() => {})
  }
  await until('the data file to be written', async () => engine.dataFile.status.state === 'current')
  const file = JSON.parse(String(disk.bytes(DATA_FILE))) as Record<string, unknown[]>
  for (const [name, items] of Object.entries(file)) {
    if (random.chance(0.5)) items.reverse()
    if (random.chance(0.2)) delete file[name]
  }
  if (random.chance(0.5)) file[`c${random.integer(3)}`] = [{ id: 'ä', text: '😀"},{"texts":[' }, { n: 1 }]
  disk.put(DATA_FILE, Buffer.from(JSON.stringify(file)))
  await engine.reload()
  await work(engine, random, 20, 2, newRun())
}

/** A journal with a long past and checkpoints from it. */
async function lived(random: Random): Promise<SimulatedDisk> {
  const disk = new SimulatedDisk()
  disk.put(DATA_FILE, Buffer.from(JSON.stringify({ a: [{ id: 0, n: 0 }], b: [] })))
  for (let time = 0; time < 2; time++) {
    const { engine, failures } = await openTestEngine(disk.files(), OFTEN)
    await live(engine, disk, random)
    await engine.close()
    assert.deepEqual(failures, [])
  }
  assert.equal(checkpointsOf(disk).length, 2, 'the newest and the one before')
  return disk
}

async function without(disk: SimulatedDisk): Promise<SimulatedDisk> {
  const bare = disk.killed()
  for (const name of checkpointsOf(bare)) await bare.files().remove(pathOf(name))
  return bare
}

/** Opens it, goes on the same way each time, and says all that there is then: the checkpoint is the whole state. */
async function stateAfter(
  disk: SimulatedDisk,
  seed: number,
): Promise<{ state: string; journal: string; began: number }> {
  const { engine, failures } = await openTestEngine(disk.files(), NEVER)
  const began = engine.checkpoints.status.position
  const served = JSON.stringify([...engine.views.snapshot()])
  await live(engine, disk, new Random(seed))
  await engine.close()
  assert.deepEqual(failures, [])
  for (const name of checkpointsOf(disk)) await disk.files().remove(pathOf(name))
  const again = await openTestEngine(disk.files(), OFTEN)
  await again.engine.close()
  const [name = ''] = checkpointsOf(disk)
  const segments = disk.list(JOURNAL).filter((one) => one.endsWith('.ndjson'))
  const journal = segments.map((segment) => String(disk.bytes(pathOf(segment)))).join('')
  return { state: `${served}\n${disk.bytes(pathOf(name))}`, journal, began }
}

/** The same, read back without writing anything that was not there. */
async function pictureOf(disk: SimulatedDisk): Promise<{ picture: string; began: number }> {
  const { engine, failures } = await openTestEngine(disk.files(), NEVER)
  const began = engine.checkpoints.status.position
  const pieces = engine.checkpoints.pieces().map((piece) => JSON.stringify(piece))
  await engine.close()
  assert.deepEqual(failures, [])
  return { picture: pieces.join('\n'), began }
}

test('a start from a checkpoint and what follows it is byte for byte one without', async () => {
  const seed = seedFor('checkpoint')
  const disk = await lived(new Random(seed))
  const { picture } = await pictureOf(await without(disk))
  assert.ok(picture.length > 1000)
  const names = checkpointsOf(disk)
  for (const name of names) {
    const own = disk.killed()
    for (const other of names) if (other !== name) await own.files().remove(pathOf(other))
    const found = await pictureOf(own)
    assert.equal(found.began, Number(name.slice(0, 20)))
    assert.equal(found.picture, picture, `CHECKPOINT_SEED=${seed}, from ${name}`)
  }
  const [one, other] = [await stateAfter(disk.killed(), seed), await stateAfter(await without(disk), seed)]
  assert.ok(one.began > 0)
  assert.equal(other.began, 0)
  assert.equal(one.state, other.state, `CHECKPOINT_SEED=${seed}`)
  assert.equal(one.journal, other.journal, `CHECKPOINT_SEED=${seed}`)
})

test('what is written while a checkpoint is being written does not show in it', async () => {
  const seed = seedFor('checkpoint_meanwhile')
  const random = new Random(seed)
  for (let run = 0; run < 20; run++) {
    const disk = await lived(random)
    const { engine } = await openTestEngine(disk.files(), OFTEN)
    // Each write of the workload may start one, and goes on beside it.
    await work(engine, random, 60, 4, newRun())
    const killed = disk.killed()
    await engine.close()
    const { picture } = await pictureOf(await without(killed))
    const found = await pictureOf(killed)
    assert.equal(found.picture, picture, `CHECKPOINT_MEANWHILE_SEED=${seed}, run ${run}`)
    assert.ok(found.began > 0)
  }
})

test('a damaged checkpoint is passed over, whatever the damage: the state is the same', async () => {
  const seed = seedFor('checkpoint_damage')
  const random = new Random(seed)
  const disk = await lived(random)
  const { picture } = await pictureOf(await without(disk))
  const [older = '', newest = ''] = checkpointsOf(disk)
  const bytes = disk.bytes(pathOf(newest)) as Buffer
  const kinds = { bit: 0, cut: 0, longer: 0, line: 0, both: 0 }
  for (let run = 0; run < FLIPS; run++) {
    const damaged = disk.killed()
    const kind = random.pick(Object.keys(kinds) as (keyof typeof kinds)[])
    kinds[kind]++
    let changed = Buffer.from(bytes)
    const at = random.integer(bytes.length)
    if (kind === 'cut') changed = changed.subarray(0, at)
    else if (kind === 'longer') changed = Buffer.concat([bytes, bytes.subarray(at)])
    else if (kind === 'line') {
      const from = bytes.lastIndexOf('\n', Math.max(0, at - 1)) + 1
      changed = Buffer.concat([bytes.subarray(0, from), bytes.subarray(bytes.indexOf('\n', from) + 1)])
    } else changed[at] = (changed[at] as number) ^ (1 << random.integer(8))
    damaged.put(pathOf(newest), changed)
    if (kind === 'both') damaged.put(pathOf(older), Buffer.alloc(100))
    const found = await pictureOf(damaged)
    const context = `CHECKPOINT_DAMAGE_SEED=${seed}, run ${run}, ${kind} at ${at}`
    assert.equal(found.began, kind === 'both' ? 0 : Number(older.slice(0, 20)), context)
    assert.equal(found.picture, picture, context)
  }
  assert.ok(Object.values(kinds).every((count) => count > 0))
})

test('a checkpoint of another journal, of a longer one, of another past or of a newer version is passed over', async () => {
  const seed = seedFor('checkpoint_foreign')
  const random = new Random(seed)
  const disk = await lived(random)
  const name = checkpointsOf(disk).at(-1) as string
  const bytes = disk.bytes(pathOf(name)) as Buffer

  const other = await without(await lived(random))
  const { picture } = await pictureOf(other.killed())
  other.put(pathOf(name), bytes)
  assert.deepEqual(await pictureOf(other), { picture, began: 0 })

  // The journal as it was before, put back under the checkpoint of what came later; then it goes another way.
  const past = await without(disk)
  const before = past.killed()
  const { engine } = await openTestEngine(past.files(), NEVER)
  await work(engine, random, 40, 2, newRun())
  await engine.close()
  const later = await openTestEngine(past.files(), OFTEN)
  await later.engine.close()
  const [ahead = ''] = checkpointsOf(past)
  before.put(pathOf(ahead), past.bytes(pathOf(ahead)) as Buffer)
  assert.equal((await pictureOf(before.killed())).began, 0)
  const branched = await openTestEngine(before.files(), { ...NEVER, acceptJournal: true })
  await work(branched.engine, random, 80, 2, newRun())
  assert.ok(branched.engine.journal.head > Number(ahead.slice(0, 20)))
  await branched.engine.close()
  const { picture: branch } = await pictureOf(await without(before))
  assert.deepEqual(await pictureOf(before), { picture: branch, began: 0 }, `CHECKPOINT_FOREIGN_SEED=${seed}`)
})

test('on a full disk no checkpoint is written, the service goes on and says so, and writes one when it can', async () => {
  const random = new Random(seedFor('checkpoint_full'))
  const disk = await without(await lived(random))
  let full = true
  const files = disk.files((operation, path) =>
    full && operation === 'write' && path.endsWith('checkpoint.tmp') ? { type: 'error', code: 'ENOSPC' } : undefined,
  )
  const { engine, failures } = await openTestEngine(files, OFTEN)
  await until('the checkpoint to fail', async () => engine.checkpoints.status.state === 'failing')
  assert.equal(engine.health().status, 'degraded')
  assert.deepEqual(engine.health().checkpoint, { state: 'failing', position: 0, detail: 'The disk is full.' })
  await work(engine, random, 20, 2, newRun())
  full = false
  await until('a checkpoint to be written', async () => engine.checkpoints.status.state === 'written')
  assert.equal(engine.health().status, 'ok')
  await engine.close()
  assert.deepEqual(failures, [])
  assert.ok(!disk.list(JOURNAL).includes('checkpoint.tmp'))
})

test('damage before a checkpoint is never served: it is found behind the start, ends the service, and refuses the next start', async () => {
  const seed = seedFor('checkpoint_before')
  const random = new Random(seed)
  const disk = await lived(random)
  for (let run = 0; run < 20; run++) {
    const damaged = disk.killed()
    const path = pathOf(segmentName(1))
    const bytes = Buffer.from(damaged.bytes(path) as Buffer)
    const header = bytes.indexOf('\n') + 1
    const at = header + random.integer(bytes.length - header - 200)
    bytes[at] = (bytes[at] as number) ^ (1 << random.integer(8))
    damaged.put(path, bytes)
    const context = `CHECKPOINT_BEFORE_SEED=${seed}, run ${run}`
    const { engine, failures } = await openTestEngine(damaged.files(), NEVER)
    assert.ok(engine.checkpoints.status.position > 0, context)
    const read = (async () => {
      for await (const { position, events } of engine.journal.read(1)) assert.ok(position > 0 && events.length > 0)
    })()
    await assert.rejects(read, Corruption, context)
    await until('the damage to be found', async () => failures.length > 0)
    assert.match((failures[0] as Error).message, new RegExp(`^${path}, offset \\d+, position \\d+: `), context)
    await engine.close().catch(() => {})
    assert.deepEqual(checkpointsOf(damaged), [], context)
    await assert.rejects(openTestEngine(damaged.files(), NEVER), Corruption, context)
  }
})

test('a checkpoint that is being written when damage before it is found does not stay either', async () => {
  const disk = await lived(new Random(seedFor('checkpoint_writing')))
  const segments = disk.list(JOURNAL).filter((name) => name.endsWith('.ndjson'))
  const path = pathOf(segments[1] as string)
  const bytes = Buffer.from(disk.bytes(path) as Buffer)
  bytes[bytes.length - 10] = (bytes[bytes.length - 10] as number) ^ 1
  disk.put(path, bytes)
  const turns = async (most: number, isOver: () => boolean): Promise<void> => {
    for (let turn = 0; turn < most && !isOver(); turn++) await new Promise((resolve) => setImmediate(resolve))
  }
  let isOpen = false
  let isRenaming = false
  let isFound = () => false
  const files = disk.files()
  const { engine, failures } = await openTestEngine(
    {
      ...files,
      async open(opened, mode) {
        if (isOpen && opened === path) await turns(100_000, () => isRenaming)
        return files.open(opened, mode)
      },
      async rename(from, to) {
        if (CHECKPOINT.test(to)) {
          isRenaming = true
          await turns(500, () => isFound())
        }
        return files.rename(from, to)
      },
    },
    OFTEN,
  )
  isOpen = true
  isFound = () => failures.length > 0
  for (let n = 0; n < 500; n++) {
    const origin = { actor: 'a', requestId: 'r' }
    await engine.handler.handle({ type: 'CreateItem', collection: 'a', item: { n } }, origin)
  }
  await until('the damage to be found', async () => isFound())
  assert.ok(isRenaming)
  await engine.close().catch(() => {})
  assert.deepEqual(checkpointsOf(disk), [])
})
