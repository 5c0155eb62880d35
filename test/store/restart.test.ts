import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { existsSync, statSync } from 'node:fs'
import { cp, mkdir, readdir, readFile, rm, stat, truncate, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { pino } from 'pino'
import type { Collection } from '../../src/collections/collection.ts'
import { FileEngine } from '../../src/engine/file-engine.ts'
import { JournalDamage } from '../../src/events/damage.ts'
import type { DomainEvent, Position } from '../../src/events/event.ts'
import { FileJournal } from '../../src/events/file-journal.ts'
import { frame } from '../../src/events/record-writer.ts'
import { segmentName } from '../../src/events/segment.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { Document } from '../../src/json/document.ts'
import { JournalMismatch } from '../../src/runtime/errors.ts'
import { LimitedLog } from '../../src/runtime/limited-log.ts'
import { MemoryBudget } from '../../src/runtime/memory.ts'
import type { Schedule } from '../../src/runtime/turns.ts'
import type { Settings } from '../../src/settings/settings.ts'
import { RecoveryFile, type RecoveryPoint } from '../../src/store/recovery-file.ts'
import { Store } from '../../src/store/store.ts'
import { StoreDirectory } from '../../src/store/store-directory.ts'
import { newRun, work } from '../faults/workload.ts'
import { fetch, until } from '../support/deadline.ts'
import { directoryUntilExit, temporaryDirectory } from '../support/directory.ts'
import { DATA_FILE, JOURNAL, type OpenedEngine, openTestEngine, SETTINGS, storeLeftIn } from '../support/engine.ts'
import { makeFormat5, makeFormat6, makeFormat7 } from '../support/format-5.ts'
import { openJournal } from '../support/journal.ts'
import { Random, SEED } from '../support/random.ts'
import { startHere } from '../support/service.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'

const SEGMENTS = { segmentBytes: 8 * 1024 }

interface Service {
  readonly disk: SimulatedDisk
  /** The directory of its store. */
  readonly store: string
}

function open({ disk, store }: Service, settings: Partial<Settings> = {}): Promise<OpenedEngine> {
  return openTestEngine(disk.files(), { ...SEGMENTS, store, ...settings })
}

/** The same, whose store nobody has yet. */
async function withoutStore(t: TestContext, { disk }: Service): Promise<Service> {
  return { disk: disk.killed(), store: await temporaryDirectory(t) }
}

function copyOf({ disk, store }: Service): Service {
  return { disk: disk.killed(), store: storeLeftIn(store).path }
}

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

/** A journal with a long past, and its store. */
async function lived(t: TestContext, random: Random): Promise<Service> {
  const service = { disk: new SimulatedDisk(), store: await temporaryDirectory(t) }
  service.disk.put(DATA_FILE, Buffer.from(JSON.stringify({ a: [{ id: 0, n: 0 }], b: [] })))
  for (let time = 0; time < 2; time++) {
    const { engine, failures } = await open(service)
    await live(engine, service.disk, random)
    await engine.close()
    assert.deepEqual(failures, [])
  }
  return service
}

/** All that can be asked of the collections, their pasts and their items' histories. */
async function told({ views, history, journal }: FileEngine): Promise<string> {
  const collections: unknown[] = []
  for (const name of views.namesEver()) {
    const collection = views.any(name) as Collection
    const { exists, nextId, textIds, position, size } = collection
    const lives = Array.from({ length: journal.head + 1 }, (_, at) => (history.existed(name, at) ? 1 : 0)).join('')
    const items: unknown[] = []
    for (const { id, key, text, revision, position: last } of collection.items()) {
      const positions: number[] = []
      for await (const found of history.eventsOf(journal, name, key, 1, journal.head)) positions.push(found.position)
      items.push({ id, text, revision, last, positions })
    }
    const reach = history.reachOf(name)
    collections.push({ name, exists, nextId, textIds, position, size, reach, lives, items })
  }
  return JSON.stringify({ position: views.position, namesPosition: views.namesPosition, collections }, null, 1)
}

async function toldBy(service: Service): Promise<string> {
  const { engine, failures } = await open(service)
  const state = await told(engine)
  await engine.close()
  assert.deepEqual(failures, [])
  return state
}

/** Opens it, goes on the same way each time, and tells what there is then. */
async function toldAfter(service: Service, seed: number): Promise<{ state: string; journal: string }> {
  const { engine, failures } = await open(service)
  await live(engine, service.disk, new Random(seed))
  const state = await told(engine)
  await engine.close()
  assert.deepEqual(failures, [])
  const segments = service.disk.list(JOURNAL).filter((one) => one.endsWith('.ndjson'))
  return { state, journal: segments.map((segment) => String(service.disk.bytes(`${JOURNAL}/${segment}`))).join('') }
}

test('a server with a store gives the same responses and events as one without', async (t) => {
  const service = await lived(t, new Random(SEED))
  const one = await toldAfter(copyOf(service), SEED)
  const other = await toldAfter(await withoutStore(t, service), SEED)
  assert.ok(one.state.length > 1000)
  assert.equal(one.state, other.state, `SEED=${SEED}`)
  assert.equal(one.journal, other.journal, `SEED=${SEED}`)
})

test('a start continues from the store, killed at any moment, and reads only later events', async (t) => {
  const random = new Random(SEED)
  const service = await lived(t, random)
  const { engine } = await open(service)
  for (let kill = 0; kill < 10; kill++) {
    await work(engine, random, random.integer(10), 3, newRun())
    const killed = copyOf(service)
    const expected = await toldBy(await withoutStore(t, killed))
    assert.equal(await toldBy(killed), expected, `SEED=${SEED}, kill ${kill}`)
  }
  await engine.close()
})

test('a store that was set back to an earlier state catches up', async (t) => {
  const random = new Random(SEED)
  const service = await lived(t, random)
  const earlier: string[] = []
  for (let time = 0; time < 3; time++) {
    earlier.push(storeLeftIn(service.store).path)
    const { engine } = await open(service)
    await live(engine, service.disk, random)
    await engine.close()
  }
  const expected = await toldBy(copyOf(service))
  for (const [time, store] of earlier.entries()) {
    const state = await toldBy({ disk: service.disk.killed(), store })
    assert.equal(state, expected, `SEED=${SEED}, ${time}`)
  }
})

test('a start with a store reads little of the journal before it answers', async (t) => {
  const service = await lived(t, new Random(SEED))
  const readsOf = async ({ disk, store }: Service): Promise<number> => {
    let isOpening = true
    let reads = 0
    const files = disk.files((operation, path) => {
      if (isOpening && operation === 'read' && path.endsWith('.ndjson')) reads++
      return undefined
    })
    const opened = await openTestEngine(files, { ...SEGMENTS, store })
    isOpening = false
    await opened.engine.close()
    return reads
  }
  const segments = service.disk.list(JOURNAL).filter((one) => one.endsWith('.ndjson')).length
  const from = await readsOf(copyOf(service))
  const whole = await readsOf(await withoutStore(t, service))
  assert.ok(segments > 3)
  assert.ok(from < whole, `${from} reads with a store, ${whole} without, ${segments} segments`)
})

test('idempotency keys of earlier requests are known to the next start', async (t) => {
  const service = await lived(t, new Random(1))
  const origin = { actor: 'a', requestId: 'r', key: 'once', request: 'hash' }
  const create = { type: 'CreateItem', collection: 'a', item: { n: 1 } } as const
  const { engine } = await open(service)
  const first = await engine.handler.handle(create, origin)
  await engine.close()
  const again = await open(service)
  const second = await again.engine.handler.handle(create, origin)
  assert.deepEqual([second.position, second.event], [first.position, first.event])
  await again.engine.close()
})

test('damage before the position of the store is found after the start, which serves all that needs other events', async (t) => {
  const random = new Random(SEED)
  const service = await lived(t, random)
  for (let run = 0; run < 10; run++) {
    const damaged = copyOf(service)
    const path = `${JOURNAL}/${segmentName(1)}`
    const whole = damaged.disk.bytes(path) as Buffer
    const bytes = Buffer.from(whole)
    const at = random.integer(bytes.length - 200)
    bytes[at] = (bytes[at] as number) ^ (1 << random.integer(8))
    damaged.disk.put(path, bytes)
    const context = `SEED=${SEED}, run ${run}`
    // The second start is like the first one.
    for (let start = 0; start < 2; start++) {
      const { engine, failures } = await open(damaged)
      await until('the damage to be found', async () => engine.health().status === 'degraded')
      const { damage } = engine.health().journal
      assert.equal(damage?.places, 1, context)
      assert.match(damage?.repair ?? '', /^recollect repair /)
      const [place] = damage?.first ?? []
      assert.ok(place?.segment === path && place.offset <= at && place.next !== undefined, context)
      const { position, next } = place as { position: Position; next: Position }
      await read(engine, 1, position - 1)
      await read(engine, next, engine.journal.head)
      if (next > position)
        await assert.rejects(read(engine, position, next - 1), (error: unknown) => {
          assert.ok(error instanceof JournalDamage, String(error))
          assert.deepEqual([error.damage.position, error.damage.next], [position, next], context)
          return true
        })
      await work(engine, new Random(start), 3, 1, newRun())
      await engine.close()
      assert.deepEqual(failures, [], context)
    }
    const without = { ...damaged, store: await temporaryDirectory(t) }
    await assert.rejects(open(without), /recollect repair --from/, context)
    damaged.disk.put(path, whole)
    const mended = await open(damaged)
    await read(mended.engine, 1, mended.engine.journal.head)
    assert.equal(mended.engine.health().status, 'ok', context)
    await mended.engine.close()
  }
})

async function read({ journal }: FileEngine, from: Position, to: Position): Promise<void> {
  let next = from
  for await (const { position, events } of journal.read(from, to)) {
    assert.equal(position, next)
    next += events.length
  }
  assert.equal(next, to + 1)
}

test('the check of the journal after a start begins again when it finds no file descriptor', async (t) => {
  const { disk, store } = await lived(t, new Random(SEED))
  let isOpen = false
  let refused = 0
  let begun = 0
  const files = disk.files((operation, path) => {
    if (!isOpen || operation !== 'open' || !path.endsWith('.ndjson')) return undefined
    if (refused++ === 0) return { type: 'error', code: 'EMFILE' }
    if (path === `${JOURNAL}/${segmentName(1)}`) begun++
    return undefined
  })
  // The check rests after its first segment until the server has started.
  const schedule: Schedule = (work) => {
    const timer = setInterval(() => {
      if (!isOpen) return
      clearInterval(timer)
      work()
    }, 1)
    return { cancel: () => clearInterval(timer) }
  }
  const { engine, failures } = await openTestEngine(files, { ...SEGMENTS, store }, undefined, schedule)
  isOpen = true
  await until('it begins again', async () => begun > 0 || failures.length > 0)
  assert.deepEqual(failures, [])
  await engine.close()
})

test('a store of a journal that lost its end, or of another one, is rejected until the journal is accepted', async (t) => {
  const random = new Random(SEED)
  const service = await lived(t, random)
  const before = service.disk.killed()
  const { engine } = await open(service)
  await work(engine, random, 40, 2, newRun())
  await engine.close()
  const ahead: Service = { disk: before, store: service.store }
  const refused = copyOf(ahead)
  for (let again = 0; again < 4; again++) await assert.rejects(open(refused), JournalMismatch, 'it lost its end')
  const other = await lived(t, random)
  await assert.rejects(open({ disk: other.disk.killed(), store: copyOf(service).store }), JournalMismatch, 'another')

  const expected = await toldBy(await withoutStore(t, ahead))
  const accepted = await open(ahead, { acceptJournal: true })
  assert.equal(await told(accepted.engine), expected)
  await work(accepted.engine, random, 80, 2, newRun())
  await accepted.engine.close()
  assert.equal(await toldBy(copyOf(ahead)), await toldBy(await withoutStore(t, ahead)), `SEED=${SEED}`)
})

test('the store of an empty journal that was removed is rebuilt when the new journal is accepted', async (t) => {
  const service = { disk: new SimulatedDisk(), store: await temporaryDirectory(t) }
  service.disk.put(DATA_FILE, Buffer.from('{}'))
  await (await open(service)).engine.close()
  service.disk.take(`${JOURNAL}/${segmentName(1)}`)
  await assert.rejects(open(service), JournalMismatch)
  const header = { format: 1, journal: 'another', first: 1, previous: '00000000' }
  service.disk.put(`${JOURNAL}/${segmentName(1)}`, frame(JSON.stringify(header)).bytes)
  const accepted = await open(service, { acceptJournal: true })
  await accepted.engine.handler.handle(
    { type: 'CreateItem', collection: 'a', item: {} },
    { actor: 'a', requestId: 'r' },
  )
  await accepted.engine.close()
  assert.deepEqual(accepted.failures, [])
})

/** Checks what a start tells, and whether it uses the store that it finds or builds another one. */
async function checkStart(service: Service, expected: string, isUsed: boolean, what: string): Promise<void> {
  const path = `${service.store}/store.mdb`
  const before = statSync(path, { throwIfNoEntry: false })?.ino
  assert.equal(await toldBy(service), expected, what)
  assert.equal(statSync(path).ino === before, isUsed, what)
}

async function changePoint(store: string, changes: Partial<RecoveryPoint>): Promise<void> {
  const file = new RecoveryFile(`${store}/recovery-point`)
  await file.write({ ...(file.read() as RecoveryPoint), ...changes })
}

test('a store that is missing, cut, of another format, or without a recovery point is rebuilt', async (t) => {
  const service = await lived(t, new Random(SEED))
  const expected = await toldBy(copyOf(service))
  const damages: Readonly<Record<string, (store: string) => Promise<void>>> = {
    missing: (store) => rm(`${store}/store.mdb`),
    cut: (store) => truncate(`${store}/store.mdb`, 8192),
    empty: (store) => truncate(`${store}/store.mdb`, 0),
    'no database': (store) => writeFile(`${store}/store.mdb`, Buffer.alloc(200_000, 'no database')),
    'no recovery point': (store) => rm(`${store}/recovery-point`),
    'an empty recovery point': (store) => truncate(`${store}/recovery-point`, 0),
    'rubbish as recovery point': (store) => writeFile(`${store}/recovery-point`, Buffer.alloc(8192, '{"format":5}')),
    'written to': (store) => writeFile(`${store}/store.mdb`, 'x', { flag: 'a' }),
    'another format': (store) => changePoint(store, { format: 1000 }),
    doubted: (store) => changePoint(store, { doubt: 'it was found damaged' }),
    'two early ends': (store) => changePoint(store, { ended: 2 }),
  }
  for (const [damage, make] of Object.entries(damages)) {
    const damaged = copyOf(service)
    await make(damaged.store)
    await checkStart(damaged, expected, false, damage)
    await checkStart(damaged, expected, true, `${damage}, the start after`)
  }
})

test('a store that was open when the system stopped is used, and so is one after other ends', async (t) => {
  const service = await lived(t, new Random(SEED))
  const expected = await toldBy(copyOf(service))
  const boot = 'that of the system before'
  const changes: readonly Partial<RecoveryPoint>[] = [
    { writtenMs: undefined, boot },
    { writtenMs: undefined, boot, ended: 2 },
    { writtenMs: undefined, ended: 1 },
  ]
  for (const change of changes) {
    const left = copyOf(service)
    await changePoint(left.store, change)
    await checkStart(left, expected, true, JSON.stringify(change))
  }
})

test('a damaged copy of the recovery point is replaced by the other one', async (t) => {
  const service = await lived(t, new Random(SEED))
  const expected = await toldBy(copyOf(service))
  for (const at of [10, 4500]) {
    const damaged = copyOf(service)
    const path = `${damaged.store}/recovery-point`
    const bytes = await readFile(path)
    bytes[at] = (bytes[at] as number) ^ 1
    await writeFile(path, bytes)
    await checkStart(damaged, expected, true, `byte ${at}`)
    const repaired = await readFile(path)
    assert.ok(repaired.subarray(0, 4096).equals(repaired.subarray(4096)))
  }
})

/** Makes a store as the format before left it. */
async function makeFormat4(store: string, state: object): Promise<void> {
  const { bytes, boot, writtenMs } = new RecoveryFile(`${store}/recovery-point`).read() as RecoveryPoint
  await rm(`${store}/recovery-point`)
  await writeFile(`${store}/store.json`, JSON.stringify({ format: 4, isOpen: false, boot, bytes, writtenMs, ...state }))
}

test('a store of format 5, 6 or 7 is used as it is, and continued', async (t) => {
  const service = await lived(t, new Random(SEED))
  const expected = await toldBy(copyOf(service))
  for (const [format, change] of [
    [5, makeFormat5],
    [6, makeFormat6],
    [7, makeFormat7],
  ] as const) {
    const left = copyOf(service)
    const directory = new StoreDirectory(left.store)
    const store = directory.open()
    store.transaction(() => change(store))
    await directory.close(store)
    await changePoint(left.store, { format })
    await checkStart(left, expected, true, `format ${format}`)
    assert.equal(new RecoveryFile(`${left.store}/recovery-point`).read()?.format, 8)
    await checkStart(left, expected, true, `format ${format}, the start after`)
  }
})

test('a store of format 4 is converted from itself, unless it was open when the system stopped', async (t) => {
  const service = await lived(t, new Random(SEED))
  const expected = await toldBy(copyOf(service))
  const open = { isOpen: true, writtenMs: undefined }
  const states: readonly (readonly [state: object, isUsed: boolean])[] = [
    [{}, true],
    [open, true],
    [{ ...open, boot: 'that of the system before' }, false],
    [{ doubt: 'it was found damaged' }, false],
    [{ writtenMs: 1 }, false],
    [{ format: 3 }, false],
  ]
  for (const [state, isUsed] of states) {
    const left = copyOf(service)
    await makeFormat4(left.store, state)
    await checkStart(left, expected, isUsed, JSON.stringify(state))
    assert.equal(existsSync(`${left.store}/store.json`), false)
    await checkStart(left, expected, true, `${JSON.stringify(state)}, the start after`)
  }
})

test('a store that was set aside is removed when the rebuilt one is complete and synced, if need be by the next start', async (t) => {
  const service = await lived(t, new Random(SEED))
  const aside = `${service.store}/store.mdb.aside`
  const sync = Store.prototype.sync
  let synced = 0
  let isFailing = true
  t.mock.method(Store.prototype, 'sync', async function (this: Store): Promise<void> {
    assert.equal(existsSync(aside), true)
    synced++
    if (isFailing) throw Object.assign(new Error('the disk is full'), { code: 'ENOSPC' })
    await sync.call(this)
    assert.equal(existsSync(aside), true)
  })
  await truncate(`${service.store}/store.mdb`, 8192)
  const failing = await open(service)
  await until('the store to be synced', () => synced > 0)
  await failing.engine.close()
  assert.equal(existsSync(aside), true)

  isFailing = false
  const { engine, failures } = await open(service)
  await until('the store that was set aside to be removed', () => !existsSync(aside))
  t.mock.restoreAll()
  await engine.close()
  assert.deepEqual(failures, [])
})

test('a damaged item in the store is never returned; it ends the service, and the next start rebuilds it', async (t) => {
  const service = await lived(t, new Random(SEED))
  const { engine } = await open(service)
  const origin = { actor: 'a', requestId: 'r' }
  const text = 'a text that no other item has'
  // A start reads the first 20 items of each collection.
  for (let key = 1; key <= 20; key++) {
    await engine.handler.handle({ type: 'ReplaceItem', collection: 'long', key: `${key}`, item: {} }, origin)
  }
  await engine.handler.handle({ type: 'ReplaceItem', collection: 'long', key: 'damaged', item: { text } }, origin)
  const expected = await told(engine)
  await engine.close()
  const path = `${service.store}/store.mdb`
  const bytes = await readFile(path)
  for (let at = bytes.indexOf(text); at >= 0; at = bytes.indexOf(text, at + 1)) bytes[at] = 'A'.charCodeAt(0)
  // As a medium does that forgets; a program that changes the file leaves another time.
  const { atime, mtime } = await stat(path)
  await writeFile(path, bytes)
  await utimes(path, atime, mtime)
  const damaged = await open(service)
  assert.throws(() => damaged.engine.views.find('long')?.item('damaged'), { code: 'Unavailable' })
  assert.match(String(damaged.failures[0]), /damaged item/)
  await damaged.engine.close().catch(() => {})
  assert.equal(await toldBy(service), expected)
})

const WRITES = 60
const EVENTS = 1000

/** A journal that no store was built from. */
async function writeJournal(directory: string): Promise<void> {
  const journal = await FileJournal.open({
    files: nodeFiles,
    directory,
    now: () => new Date(),
    log: new LimitedLog(pino({ level: 'silent' }), () => 0),
    newId: randomUUID,
    segmentBytes: 2 ** 20,
    failed: (error) => assert.fail(error as Error),
  })
  const author = { actor: 'a', requestId: 'r' }
  await journal.append({ expected: 1, ...author, events: [{ type: 'CollectionCreated', collection: 'c' }] })
  for (let write = 0; write < WRITES; write++) {
    const events = Array.from({ length: EVENTS }, (_, index): DomainEvent => {
      const id = write * EVENTS + index
      return { type: 'ItemCreated', collection: 'c', id, revision: 1, prior: 0, item: Document.of({ id }) }
    })
    await journal.append({ expected: 2 + write * EVENTS, ...author, events })
  }
  await journal.close()
}

/** Files whose first segment can be read only once before `release`: a start verifies it, or opens it, and then builds the store. */
function heldFiles(): { readonly files: typeof nodeFiles; readonly release: () => void } {
  let release = (): void => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  let opened = 0
  const open: typeof nodeFiles.open = async (path, how, mode) => {
    const file = await nodeFiles.open(path, how, mode)
    if (how !== 'read' || !path.endsWith(segmentName(1)) || opened++ === 0) return file
    return { ...file, read: async (into, offset) => released.then(() => file.read(into, offset)) }
  }
  return { files: { ...nodeFiles, open }, release }
}

test('a store with a damaged item is read while the next start rebuilds it, but not after a crash', async (t) => {
  const json = { 'Content-Type': 'application/json' }
  const ends: (() => Promise<unknown>)[] = []
  const newDirectory = () => temporaryDirectory({ after: (end) => void ends.push(end) })
  const directory = await newDirectory()
  await writeJournal(join(directory, 'db.journal'))
  const flags = ['--DataFile.Write', 'never', '--Journal.Compress', 'off', '--Limits.IndexBytes', '100000000']
  const first = await startHere(t, { directory, flags: [...flags, '--accept-journal'] })
  const secret = 'a text that no other item has'
  await fetch(`${first.url}/api/c/500`, { method: 'PUT', headers: json, body: JSON.stringify({ secret }) })
  await fetch(`${first.url}/api/c/59990`, { method: 'PUT', headers: json, body: '{"n":6}' })
  const { position: head } = (await (await fetch(`${first.url}/health`)).json()) as { position: number }
  await first.stop()
  const store = join(directory, 'db.journal', 'store')
  const path = join(store, 'store.mdb')
  const bytes = await readFile(path)
  for (let at = bytes.indexOf(secret); at >= 0; at = bytes.indexOf(secret, at + 1)) bytes[at] = 'A'.charCodeAt(0)
  const { atime, mtime } = await stat(path)
  await writeFile(path, bytes)
  await utimes(path, atime, mtime)

  const damaged = await startHere(t, { directory, flags })
  assert.equal((await fetch(`${damaged.url}/api/c/500`)).status, 503)
  assert.equal(damaged.failures.length, 1)
  await damaged.stop()

  // The timers of a server do not keep the process alive.
  const alive = setInterval(() => {}, 1000)
  t.after(() => clearInterval(alive))
  const startHeld = async (where: string) => {
    const { files, release } = heldFiles()
    const server = await startHere(t, { directory: where, flags, files, waitsForStore: false, delay: (ms) => ms / 100 })
    const health = (await (await fetch(`${server.url}/health`)).json()) as { status: string; store: { state: string } }
    assert.deepEqual([health.status, health.store.state], ['unavailable', 'building'])
    return { ...server, release }
  }
  const assertRead = async (url: string): Promise<void> => {
    const found = await fetch(`${url}/api/c/59990`)
    assert.deepEqual([found.status, await found.json()], [200, { id: 59_990, n: 6 }])
    assert.equal(found.headers.get('Journal-Position'), String(head))
    assert.deepEqual(await (await fetch(`${url}/api/c?skip=59999`)).json(), [{ id: 59_999 }])
    const item = await fetch(`${url}/api/c/500`)
    assert.equal(item.status, 503)
    assert.match(await item.text(), /This part of the store is damaged/)
    const written = await fetch(`${url}/api/c`, { method: 'POST', headers: json, body: '{}' })
    assert.equal(written.status, 503)
    assert.match(await written.text(), /The store is being built/)
  }
  const stopped = await startHeld(directory)
  await assertRead(stopped.url)
  const crashed = await newDirectory()
  await cp(directory, crashed, { recursive: true })
  stopped.release()
  await stopped.stop()
  assert.deepEqual(stopped.failures, [])

  const again = await startHeld(directory)
  await assertRead(again.url)
  again.release()
  await until('the store to be built', async () => (await fetch(`${again.url}/api/c/500`)).status === 200)
  assert.deepEqual(await (await fetch(`${again.url}/api/c/500`)).json(), { id: 500, secret })
  assert.equal((await fetch(`${again.url}/api/c`, { method: 'POST', headers: json, body: '{}' })).status, 201)
  const others = async () =>
    (await readdir(store)).filter((name) => !/^(store(-2)?\.mdb(-lock)?|recovery-point)$/.test(name))
  await until('the former store to be removed', async () => (await others()).length === 0)
  await again.stop()
  assert.deepEqual(again.failures, [])

  const after = await startHeld(crashed)
  assert.equal((await fetch(`${after.url}/api/c/59990`)).status, 503)
  after.release()
  await until('the store to be built', async () => (await fetch(`${after.url}/api/c/500`)).status === 200)
  await after.stop()
  for (const end of ends) t.after(end)
})

test('while the store is built only the journal can be read, and afterwards everything', async (t) => {
  const ends: (() => Promise<unknown>)[] = []
  const directory = await temporaryDirectory({ after: (end) => void ends.push(end) })
  await writeJournal(join(directory, 'db.journal'))
  // A start does not wait for it.
  const { url, failures } = await startHere(t, {
    directory,
    waitsForStore: false,
    delay: (delayMs) => (delayMs === 5000 ? 0 : delayMs),
  })
  for (const end of ends) t.after(end)
  const json = { 'Content-Type': 'application/json' }
  // All at once: the store is complete after some tens of turns of the event loop.
  const [health, events, ...refused] = await Promise.all([
    fetch(`${url}/health`),
    fetch(`${url}/events?collection=c&id=7`),
    fetch(`${url}/api/c?id=5`),
    fetch(`${url}/api/c/500`),
    fetch(`${url}/api/c`, { method: 'POST', headers: json, body: '{}' }),
    fetch(`${url}/admin/reload`, { method: 'POST' }),
    fetch(`${url}/admin/restore`, { method: 'POST', headers: json, body: '{"to":1}' }),
    fetch(`${url}/socket.io/?EIO=4&transport=polling`),
  ])
  assert.deepEqual(
    refused.map(({ status }) => status),
    [503, 503, 503, 503, 503, 403],
  )
  assert.equal(refused[0]?.headers.get('Retry-After'), '1')
  assert.match(
    await (refused[0] as Response).text(),
    /The store is being built from the journal; it has \d+ of 60001 events/,
  )
  const { status, store } = (await health.json()) as { status: string; store: { state: string } }
  assert.deepEqual([status, store.state], ['unavailable', 'building'])
  assert.equal(events.status, 200)
  assert.match(await events.text(), /"id":7/)

  await until('the store to be built', async () => (await fetch(`${url}/api/c/500`)).status === 200)
  const page = await fetch(`${url}/api/c?skip=59999`)
  assert.equal(page.headers.get('X-Total-Count'), '60000')
  assert.deepEqual(await page.json(), [{ id: 59_999 }])
  assert.equal((await fetch(`${url}/api/c`, { method: 'POST', headers: json, body: '{}' })).status, 201)
  assert.deepEqual(failures, [])
})

test('a start without a store logs how much of the journal it has read', async (t) => {
  const disk = new SimulatedDisk()
  const files = disk.files()
  const { journal } = await openJournal(files, JOURNAL, { segmentBytes: 1000 })
  await journal.append({
    expected: 1,
    actor: 'a',
    requestId: 'r',
    events: [{ type: 'CollectionCreated', collection: 'a' }],
  })
  for (let id = 1; id <= 20; id++) {
    const event = { collection: 'a', id, revision: 1, prior: 0, item: Document.of({ id }) }
    await journal.append({ expected: id + 1, actor: 'a', requestId: 'r', events: [{ type: 'ItemCreated', ...event }] })
  }
  await journal.close()

  const lines: Record<string, unknown>[] = []
  let seconds = 0
  const store = directoryUntilExit()
  const engine = await FileEngine.open(
    { ...SETTINGS, file: DATA_FILE, acceptJournal: true, store: store.path },
    {
      files,
      now: () => new Date('2026-11-20T12:00:00.000Z'),
      newId: () => 'id',
      schedule: () => ({ cancel: () => {} }),
      elapsedMs: () => 1000 * seconds++,
      log: pino({ level: 'info' }, { write: (line) => void lines.push(JSON.parse(line)) }),
      memory: new MemoryBudget(),
      sampleFile: '/nowhere',
      failed: (error) => assert.fail(String(error)),
    },
  )
  t.after(async () => {
    await engine.close()
    await store.remove()
  })
  const told = lines.filter(({ msg }) => msg === 'the journal is being read and checked')
  const segments = told.map((line) => line.segments as number)
  assert.ok(segments.length > 1, JSON.stringify(lines))
  assert.deepEqual(
    segments,
    [...new Set(segments)].sort((a, b) => a - b),
  )
  for (const { of } of told) assert.ok(Number(of) > 5)
  // A segment takes as long as the clock advances meanwhile.
  for (const { secondsLeft, segments: read, of } of told.slice(1))
    assert.ok((secondsLeft as number) >= (of as number) - (read as number), JSON.stringify(told))
})

test('a former store that cannot be removed stops neither the start nor the writes', async (t) => {
  const directory = await temporaryDirectory(t)
  const former = join(directory, 'db.journal', 'store', 'store.mdb.former-another-boot')
  await mkdir(join(former, 'not a store'), { recursive: true })
  const server = await startHere(t, { directory, data: { c: [] } })
  const posted = await fetch(`${server.url}/api/c`, {
    method: 'POST',
    body: '{}',
    headers: { 'Content-Type': 'application/json' },
  })
  assert.equal(posted.status, 201)
  await server.stop()
  assert.deepEqual(server.failures, [])
  const again = await startHere(t, { directory })
  assert.equal(((await (await fetch(`${again.url}/api/c`)).json()) as unknown[]).length, 1)
  assert.ok(existsSync(former))
})
