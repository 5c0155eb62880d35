import assert from 'node:assert/strict'
import { cpSync, existsSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setImmediate, setTimeout as sleep } from 'node:timers/promises'
import type { FileEngine } from '../../src/engine/file-engine.ts'
import { Views } from '../../src/projections/views.ts'
import { Refusal } from '../../src/runtime/errors.ts'
import { TAG, tableKey } from '../../src/store/keys.ts'
import { StoreDirectory } from '../../src/store/store-directory.ts'
import { snapshotOf } from '../support/collections.ts'
import { until } from '../support/deadline.ts'
import { fill, mountSmallDisk } from '../support/directory.ts'
import { DATA_FILE, diskWith, openTestEngine } from '../support/engine.ts'
import { Random, SEED } from '../support/random.ts'
import { json, ofOneServer, type RunningProgram, startProgram, storeBuilt } from '../support/server.ts'

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
  const disk = diskWith({ a: [{ id: 0, n: 0 }], b: [] })
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

const START_KIB = 6000
const START_ITEMS = 200
const skip = ofOneServer('it is about the store of one process')

interface Health {
  readonly status: string
  readonly store: { readonly state: string }
  readonly dataFile: { readonly state: string; readonly detail?: string }
}

/** A server whose data is on a small disk. It is stopped before the disk is filled. */
interface OnSmallDisk {
  readonly directory: string
  readonly store: string
  readonly file: string
  start(): Promise<RunningProgram>
  fillDisk(): Promise<void>
  freeDisk(): Promise<void>
}

async function onSmallDisk(t: TestContext, work: (disk: OnSmallDisk) => Promise<void>): Promise<void> {
  const disk = await mountSmallDisk(t, START_KIB)
  if ('missing' in disk) return t.skip(disk.missing)
  const { directory } = disk
  const filler = join(directory, 'filler')
  const data = { a: Array.from({ length: START_ITEMS }, (_, id) => ({ id, n: 0, text: 'x'.repeat(200) })) }
  try {
    await work({
      directory,
      store: join(directory, 'db.journal', 'store'),
      file: join(directory, 'db.json'),
      start: () => startProgram(t, { directory, data }),
      fillDisk: () => fill(filler),
      freeDisk: () => rm(filler),
    })
  } finally {
    disk.unmount()
  }
}

async function healthOf(server: RunningProgram): Promise<Health> {
  return (await (await server.fetch('/health')).json()) as Health
}

async function post(server: RunningProgram): Promise<number> {
  return (await server.fetch('/api/a', json('POST', { n: 1 }))).status
}

async function countOf(server: RunningProgram): Promise<number> {
  const answer = await server.fetch('/api/a?take=1')
  assert.equal(answer.status, 200)
  await answer.arrayBuffer()
  return Number(answer.headers.get('X-Total-Count'))
}

/** The promises while the store has no space for the records of the journal. */
async function checkFull(server: RunningProgram): Promise<void> {
  const health = await until('the store to be full', async () => {
    const found = await healthOf(server)
    return found.store.state === 'full' && found
  })
  const [api, events] = [await server.fetch('/api/a'), await server.fetch('/events?limit=1')]
  assert.deepEqual([api.status, events.status, health.status], [503, 200, 'unavailable'])
}

async function allIsWell(server: RunningProgram, items: number): Promise<void> {
  await until('all to be well', async () => (await healthOf(server)).status === 'ok')
  assert.equal(await countOf(server), items)
  assert.equal(await post(server), 201)
  assert.equal(await server.stop(), 0, server.stderr())
}

test(
  'a start on a full disk with a complete store and no mark of the journal serves reads and rejects writes',
  {
    skip,
  },
  (t) =>
    onSmallDisk(t, async ({ store, start, fillDisk, freeDisk }) => {
      await (await start()).stop()
      const directory = new StoreDirectory(store)
      const opened = directory.open()
      opened.transaction(() => opened.remove(tableKey(TAG.segment, 0)))
      await directory.close(opened)
      await fillDisk()
      const server = await start()
      assert.equal(await countOf(server), START_ITEMS)
      assert.equal(await post(server), 507)
      await freeDisk()
      await allIsWell(server, START_ITEMS)
    }),
)

test(
  'a start on a full disk with an outdated store answers /api with 503, can be stopped, and continues when there is space',
  {
    skip,
  },
  (t) =>
    onSmallDisk(t, async ({ store, start, fillDisk, freeDisk }) => {
      await (await start()).stop()
      cpSync(store, `${store}.before`, { recursive: true, preserveTimestamps: true })
      let server = await start()
      for (let write = 0; write < START_ITEMS; write++) assert.equal(await post(server), 201)
      await server.stop()
      rmSync(store, { recursive: true })
      renameSync(`${store}.before`, store)
      await fillDisk()
      server = await start()
      await checkFull(server)
      assert.equal(await server.stop(), 0, server.stderr())
      await fillDisk()
      server = await start()
      await checkFull(server)
      await freeDisk()
      await allIsWell(server, 2 * START_ITEMS)
    }),
)

test(
  'a start on a full disk without a store answers /api with 503, and builds one when there is space',
  { skip },
  (t) =>
    onSmallDisk(t, async ({ store, start, fillDisk, freeDisk }) => {
      await (await start()).stop()
      rmSync(store, { recursive: true })
      await fillDisk()
      let server = await start()
      await checkFull(server)
      assert.equal(await server.stop(), 0, server.stderr())
      server = await start()
      await checkFull(server)
      await freeDisk()
      await allIsWell(server, START_ITEMS)
    }),
)

test('a damaged store is removed when there is no space to build another one', { skip }, (t) =>
  onSmallDisk(t, async ({ store, start, fillDisk }) => {
    await (await start()).stop()
    const file = join(store, 'store.mdb')
    writeFileSync(file, Buffer.alloc(2 ** 21, 'x'))
    await fillDisk()
    const server = await start()
    await until('the store to be built', async () => (await healthOf(server)).store.state === 'current')
    await storeBuilt(server.url)
    assert.equal(await countOf(server), START_ITEMS)
    assert.equal(existsSync(`${file}.aside`), false)
    assert.equal(await server.stop(), 0, server.stderr())
  }),
)

test('an edit of the data file found by a start on a full disk is merged when there is space', { skip }, (t) =>
  onSmallDisk(t, async ({ file, start, fillDisk, freeDisk }) => {
    await (await start()).stop()
    let server = await start()
    assert.equal(await post(server), 201)
    // The data file probably does not show the write yet.
    await server.stop('SIGKILL')
    const edited = JSON.parse(await readFile(file, 'utf8')) as { a: { n: number }[] }
    for (const item of edited.a) item.n = 5
    await writeFile(file, JSON.stringify(edited))
    await fillDisk()
    server = await start()
    assert.equal(await countOf(server), START_ITEMS + 1)
    const { dataFile } = await healthOf(server)
    assert.match(dataFile.state, /failing|edited/)
    assert.equal(await post(server), 507)
    await freeDisk()
    await until('the edit to be merged', async () => (await healthOf(server)).status === 'ok')
    assert.equal(await (await server.fetch('/api/a?n=5&take=1')).headers.get('X-Total-Count'), String(edited.a.length))
    await allIsWell(server, START_ITEMS + 1)
  }),
)
