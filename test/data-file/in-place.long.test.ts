import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { FileEngine } from '../../src/engine/file-engine.ts'
import { snapshotOf } from '../support/collections.ts'
import { DEADLINE_MS, until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { DATA_FILE, diskWith, SETTINGS as ENGINE_SETTINGS, openTestEngine } from '../support/engine.ts'
import { json, startProgram } from '../support/server.ts'
import type { Fault, Operation, SimulatedDisk } from '../support/simulated-files.ts'

/** The journal is elsewhere, as the data file's directory may not be written to. */
const SETTINGS = { journal: '/journal' }
const FIRST = { things: [{ id: 0, n: 0, text: 'x'.repeat(2000) }] }
const BESIDE = '/data/.recollect'
const NEW = `${BESIDE}/db.json.new`

type Faults = (operation: Operation, path: string, call: number) => Fault | undefined

/** A file that is mounted by itself. */
const mounted: Faults = (operation, path) =>
  operation === 'rename' && path === NEW ? { type: 'error', code: 'EBUSY' } : undefined

/** A directory that nothing can be created in. */
const readOnly: Faults = (operation, path) =>
  operation === 'makeDirectory' && path === BESIDE ? { type: 'error', code: 'EACCES' } : undefined

async function write(engine: FileEngine, item: { readonly [name: string]: string | number }): Promise<void> {
  await engine.handler.handle({ type: 'CreateItem', collection: 'things', item }, { actor: 'client', requestId: 'r' })
}

async function current(engine: FileEngine): Promise<void> {
  await until('the data file to be current', async () => engine.dataFile.status.state === 'current')
}

/** The disk of a server that was killed when it had truncated the data file for its second write in place. */
async function diskAfterCrash(): Promise<SimulatedDisk> {
  const disk = diskWith(FIRST)
  let writes = 0
  const files = disk.files((operation, path, call) =>
    operation === 'write' && path === DATA_FILE && ++writes === 2 ? { type: 'stop' } : mounted(operation, path, call),
  )
  const { engine } = await openTestEngine(files, SETTINGS)
  await write(engine, { n: 1 })
  await current(engine)
  await write(engine, { n: 2 })
  await files.stopped
  return disk.killed()
}

function fileOf(disk: SimulatedDisk): unknown {
  return JSON.parse(String(disk.bytes(DATA_FILE)))
}

async function byHand(engine: FileEngine): Promise<number> {
  let events = 0
  for await (const recorded of engine.journal.read(1))
    if (recorded.actor === 'data-file') events += recorded.events.length
  return events
}

for (const [what, faults] of [
  ['is mounted by itself', mounted],
  ['is in a directory that cannot be written to', readOnly],
] as const) {
  test(`a data file that ${what} is written in place, edited, and written again after a restart`, async () => {
    const disk = diskWith(FIRST)
    const { engine } = await openTestEngine(disk.files(faults), SETTINGS)
    await write(engine, { n: 1 })
    await current(engine)
    assert.deepEqual(fileOf(disk), Object.fromEntries(snapshotOf(engine.views)))
    const edited = fileOf(disk) as { things: object[] }
    edited.things.push({ id: 9, n: 9 })
    disk.put(DATA_FILE, Buffer.from(JSON.stringify(edited)))
    assert.equal((await engine.dataFile.reload()).events, 1)
    await write(engine, { n: 10 })
    await engine.close()
    assert.deepEqual(
      disk.list('/data/.recollect').filter((name) => name.endsWith('.new')),
      [],
    )
    const again = await openTestEngine(disk.files(faults), SETTINGS)
    assert.equal(await byHand(again.engine), 3)
    await write(again.engine, { n: 11 })
    await current(again.engine)
    assert.equal(again.engine.health().status, 'ok')
    const served = Object.fromEntries(snapshotOf(again.engine.views))
    await again.engine.close()
    assert.deepEqual(fileOf(disk), served)
  })
}

test('after a stop at any system call of a write in place, the file is written again without an event', async () => {
  const run = async (disk: SimulatedDisk, stop: number): Promise<number> => {
    const files = disk.files((operation, path, call) =>
      call === stop ? { type: 'stop' } : mounted(operation, path, call),
    )
    const finished = (async () => {
      const { engine } = await openTestEngine(files, SETTINGS)
      for (let n = 1; n < 4; n++) {
        await write(engine, { n, text: 'y'.repeat(1000 * n) })
        await current(engine)
      }
      await engine.close()
    })()
    await Promise.race([finished, files.stopped])
    return files.calls()
  }
  const calls = await run(diskWith(FIRST), Number.POSITIVE_INFINITY)
  assert.ok(calls > 50, `${calls} calls`)
  let torn = 0
  for (let stop = 1; stop <= calls; stop++) {
    const stopped = diskWith(FIRST)
    await run(stopped, stop)
    const disk = stopped.killed()
    if (isMalformed(String(disk.bytes(DATA_FILE)))) torn++
    // It may be stopped while it recovers, too.
    const recovering = disk.files((operation, path, call) =>
      call === 20 + (stop % 40) ? { type: 'stop' } : mounted(operation, path, call),
    )
    await Promise.race([openTestEngine(recovering, SETTINGS).then(({ engine }) => engine.close()), recovering.stopped])
    const after = disk.killed()
    const { engine } = await openTestEngine(after.files(mounted), SETTINGS)
    assert.equal(await byHand(engine), 2, `stopped at call ${stop}: an edit that nobody made`)
    await write(engine, { n: 5 })
    const served = Object.fromEntries(snapshotOf(engine.views))
    await engine.close()
    assert.equal(engine.dataFile.status.state, 'current', `stopped at call ${stop}`)
    assert.deepEqual(fileOf(after), served)
  }
  assert.ok(torn > 3, `${torn} torn files`)
})

function isMalformed(text: string): boolean {
  try {
    JSON.parse(text)
    return false
  } catch {
    return true
  }
}

test('a full disk during a write in place leaves the file truncated until there is space', async () => {
  const disk = diskWith(FIRST)
  let isFull = false
  const files = disk.files((operation, path, call) =>
    isFull && operation === 'write' && path === DATA_FILE
      ? { type: 'error', code: 'ENOSPC' }
      : mounted(operation, path, call),
  )
  const { engine } = await openTestEngine(files, SETTINGS)
  await write(engine, { n: 1 })
  await current(engine)
  isFull = true
  await write(engine, { n: 2 })
  await until('the data file to fail', async () => engine.dataFile.status.state === 'failing')
  assert.equal((await engine.dataFile.reload()).events, 0)
  isFull = false
  await current(engine)
  assert.deepEqual(fileOf(disk), Object.fromEntries(snapshotOf(engine.views)))
  await engine.close()
  assert.equal(await byHand(engine), 2)
})

test('a stop with a data file that cannot be written fails with the reason, and loses nothing', async () => {
  const disk = diskWith(FIRST)
  let isReadOnly = false
  const files = disk.files((operation, path, call) =>
    isReadOnly && operation === 'truncate' && path === DATA_FILE
      ? { type: 'error', code: 'EROFS' }
      : mounted(operation, path, call),
  )
  const { engine } = await openTestEngine(files, SETTINGS)
  await write(engine, { n: 1 })
  await current(engine)
  isReadOnly = true
  await write(engine, { n: 2 })
  await until('the data file to fail', async () => engine.dataFile.status.state === 'failing')
  const served = Object.fromEntries(snapshotOf(engine.views))
  await assert.rejects(engine.close(), /data file \/data\/db\.json could not be written: EROFS/)
  const again = await openTestEngine(disk.files(mounted), SETTINGS)
  await again.engine.close()
  assert.deepEqual(fileOf(disk), served)
  assert.equal(await byHand(again.engine), 2)
})

test('the remains of a write in place are written again by a read-only start', async () => {
  const after = await diskAfterCrash()
  after.put(DATA_FILE, Buffer.from(`{\n  "things": [\n    {"id"${'\0'.repeat(512)}`))
  const again = await openTestEngine(after.files(mounted), {
    ...SETTINGS,
    api: { ...ENGINE_SETTINGS.api, readOnly: true },
  })
  await current(again.engine)
  assert.deepEqual(fileOf(after), Object.fromEntries(snapshotOf(again.engine.views)))
  await again.engine.close()
  assert.equal(await byHand(again.engine), 2)
})

test('a file that a crash truncated and somebody repaired counts as edited', async () => {
  const after = await diskAfterCrash()
  assert.equal(after.bytes(DATA_FILE)?.length, 0)
  after.put(DATA_FILE, Buffer.from('{"things":[{"id":0,"n":77},{"id":1,"n":1},{"id":2,"n":2}]}'))
  const again = await openTestEngine(after.files(mounted), SETTINGS)
  assert.deepEqual(snapshotOf(again.engine.views).get('things'), [
    { id: 0, n: 77 },
    { id: 1, n: 1 },
    { id: 2, n: 2 },
  ])
  await again.engine.close()
})

test('a file that is mounted alone into a namespace is kept up to date, even after SIGKILL', async (t) => {
  const directory = await temporaryDirectory(t)
  const inner = join(directory, 'inner')
  await mkdir(inner)
  const outer = join(directory, 'outer.json')
  await writeFile(outer, JSON.stringify(FIRST))
  await writeFile(join(inner, 'db.json'), '')
  const missing = bind(t, outer, join(inner, 'db.json'))
  if (missing !== undefined) return t.skip(missing)
  const server = await startProgram(t, { directory: inner })
  assert.equal((await server.fetch('/api/things', json('POST', { n: 1 }))).status, 201)
  await until('the file to show it', async () => (await readFile(outer, 'utf8')).includes('"n": 1\n'))
  assert.ok(existsSync(join(inner, 'db.journal', 'data-file.recollect')))
  assert.equal((await server.fetch('/api/things', json('POST', { n: 2 }))).status, 201)
  await server.stop('SIGKILL')
  const again = await startProgram(t, { directory: inner })
  await until('the file to show all', async () => (await readFile(outer, 'utf8')).includes('"n": 2\n'))
  const events = (await (await again.fetch('/events')).json()) as { readonly actor: string }[]
  assert.equal(events.filter(({ actor }) => actor === 'data-file').length, 2)
  const edited = (await readFile(outer, 'utf8')).replace('"n": 2\n', '"n": 22\n')
  await writeFile(outer, edited)
  const taken = (await (await again.fetch('/admin/reload', { method: 'POST' })).json()) as { readonly events: number }
  assert.equal(taken.events, 1)
  assert.equal(await again.stop(), 0)
  const { things } = JSON.parse(await readFile(outer, 'utf8')) as { things: { n: number }[] }
  assert.deepEqual(
    things.map(({ n }) => n),
    [0, 1, 22],
  )
})

/** Mounts a file over another until the test ends; says why it cannot. With CI=true it must be possible. */
function bind(t: TestContext, from: string, to: string): string | undefined {
  const { status, stderr, error } = spawnSync('mount', ['--bind', from, to], { timeout: DEADLINE_MS })
  if (status === 0) {
    t.after(() => void spawnSync('umount', [to], { timeout: DEADLINE_MS }))
    return undefined
  }
  const why = `no file can be mounted here (it takes root): ${error?.message ?? String(stderr).trim()}`
  assert.notEqual(process.env.CI, 'true', why)
  return why
}
