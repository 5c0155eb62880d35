import assert from 'node:assert/strict'
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { walk } from '../../src/events/walk.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { Refusal } from '../../src/runtime/errors.ts'
import { snapshotOf } from '../support/collections.ts'
import { fetch, turnsUntil, until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { DATA_FILE, diskWith, openTestEngine } from '../support/engine.ts'
import { Random, SEED } from '../support/random.ts'
import { json, spawnServer, startProgram } from '../support/server.ts'

const KILLS = Number(process.env.IMPORT_KILLS ?? 5)
/** Long enough that the files exceed DataFile.EditBytes. */
const TEXT = 'reading '.repeat(40)

interface Row {
  readonly id?: number
  readonly n: number
  readonly text: string
}

const rows = (count: number, of: (n: number) => Partial<Row>): Row[] =>
  Array.from({ length: count }, (_, n) => ({ ...of(n), n, text: TEXT }))

/** The writes that edits of the data file became. */
async function editsIn(journal: string): Promise<{ readonly key: string | undefined; readonly events: number }[]> {
  const found: { key: string | undefined; events: number }[] = []
  await walk(nodeFiles, journal, ({ actor, key, events }) => {
    if (actor === 'data-file') found.push({ key, events: events.length })
  })
  return found
}

async function itemsOf(url: string, collection: string): Promise<Row[]> {
  const found: Row[] = []
  for (let offset = 0; ; offset += 10_000) {
    const response = await fetch(`${url}/api/${collection}?limit=10000&offset=${offset}`)
    assert.equal(response.status, 200)
    const page = (await response.json()) as Row[]
    found.push(...page)
    if (page.length < 10_000) return found
  }
}

test('the first items of an import in parts are there once, after kills at any moment', async (t) => {
  const random = new Random(SEED)
  const directory = await temporaryDirectory(t)
  const named = rows(40_000, (n) => ({ id: n }))
  // Below an id that the file names later no item without an id may get it.
  const unnamed = [...rows(30_000, () => ({})), { id: 10_000, n: -1, text: TEXT }]
  await writeFile(join(directory, 'db.json'), JSON.stringify({ unnamed, named }))
  let kills = 0
  for (let kill = 0; kill < KILLS; kill++) {
    const server = spawnServer(t, directory)
    await Promise.race([sleep(500 + random.integer(4000)), server.ended()])
    server.process.kill('SIGKILL')
    kills += (await server.ended()).signal === 'SIGKILL' ? 1 : 0
  }
  assert.equal(kills, KILLS)
  const server = await startProgram(t, { directory })
  await until('the import to be complete', async () => (await server.fetch('/api/named')).status === 200)
  const context = `SEED=${SEED}`
  assert.deepEqual(await itemsOf(server.url, 'named'), named, context)
  const found = await itemsOf(server.url, 'unnamed')
  assert.deepEqual(
    found.map(({ n }) => n),
    unnamed.map(({ n }) => n),
    context,
  )
  assert.equal(new Set(found.map(({ id }) => id)).size, unnamed.length, context)
  assert.equal(found.at(-1)?.id, 10_000, context)
  assert.equal(await server.stop(), 0)
  const edits = await editsIn(join(directory, 'db.journal'))
  assert.ok(edits.length > 2, `${edits.length} writes`)
  // The last write may be a part, too: nothing is left to be written when a process is killed right after it.
  const parts = edits.filter(({ key }) => key?.endsWith(':part'))
  assert.ok(parts.length >= edits.length - 1, context)
  const events = edits.reduce((sum, one) => sum + one.events, 0)
  assert.equal(events, 40_000 + 30_001 + 2, `${context}: nothing was imported twice`)
})

test('part of the first items is not served when the file is invalid or missing afterwards', async (t) => {
  const directory = await temporaryDirectory(t)
  const file = join(directory, 'db.json')
  const text = JSON.stringify({ things: rows(60_000, () => ({})) })
  await writeFile(file, text)
  const server = spawnServer(t, directory)
  await until('a part to be imported', async () => (await bytesIn(join(directory, 'db.journal'))) > 8 * 1024 * 1024)
  server.process.kill('SIGKILL')
  await server.ended()
  await writeFile(file, text.slice(0, -5))
  const invalid = spawnServer(t, directory)
  assert.equal((await invalid.ended()).code, 2)
  assert.match(invalid.stderr(), /The data file is not well-formed JSON/)
  await rm(file)
  const missing = spawnServer(t, directory)
  assert.equal((await missing.ended()).code, 1)
  assert.match(missing.stderr(), /db\.json is missing\. The first items of .* are not imported completely/)
  await writeFile(file, text)
  const again = await startProgram(t, { directory })
  await until('the import to be complete', async () => (await again.fetch('/api/things')).status === 200)
  const ids = (await itemsOf(again.url, 'things')).map(({ id }) => id)
  assert.deepEqual(
    ids,
    Array.from({ length: 60_000 }, (_, id) => id),
  )
})

async function bytesIn(directory: string): Promise<number> {
  const names = await readdir(directory).catch(() => [])
  const sizes = await Promise.all(names.map(async (name) => (await stat(join(directory, name))).size))
  return sizes.reduce((sum, size) => sum + size, 0)
}

test('a large edit is one write, compared with the version written last; its order is not merged', async (t) => {
  const first = rows(60_000, (n) => ({ id: n }))
  const server = await startProgram(t, { data: { things: first }, flags: ['--DataFile.Write', 'never'] })
  await until('the import to be complete', async () => (await server.fetch('/api/things/0')).status === 200)
  const opened = JSON.parse(await readFile(server.file, 'utf8')) as { things: Row[] }
  // The editor changes all but the first thousand items, deletes one, moves one, and adds one.
  const [moved, ...rest] = opened.things as [Row, ...Row[]]
  const edited = [...rest.filter(({ id }) => id !== 59_999), moved, { n: -1, text: 'new' }].map((item) =>
    (item.id ?? 0) < 1000 ? item : { ...item, text: `${item.text}edited` },
  )
  await writeFile(server.file, JSON.stringify({ things: edited }))
  let isMerged = false
  let writes = 0
  const writing = (async () => {
    for (let id = 0; !isMerged; id = (id + 1) % 1000, writes++) {
      const response = await server.fetch(`/api/things/${id}`, json('PUT', { n: -2, text: 'client' }))
      assert.equal(response.status, 204)
    }
  })()
  const merged = await server.fetch('/admin/reload', { method: 'POST' })
  isMerged = true
  await writing
  assert.equal(merged.status, 200)
  const { events, basedOn, conflicts } = (await merged.json()) as Record<string, unknown>
  assert.ok(writes > 2, `${writes} writes meanwhile`)
  // 58,999 replaced, one deleted, one created.
  assert.deepEqual([events, basedOn, conflicts], [58_999 + 1 + 1, 60_001, []])
  const found = await itemsOf(server.url, 'things')
  const byClient = Math.min(writes, 1000)
  const expected = [...first.slice(0, 59_999), { id: 60_000, n: -1, text: 'new' }].map(({ id = 0, n, text }) =>
    id < byClient ? { id, n: -2, text: 'client' } : { id, n, text: id < 1000 || n < 0 ? text : `${text}edited` },
  )
  assert.deepEqual(found, expected)
  assert.equal(await server.stop(), 0)
  const edits = await editsIn(join(server.directory, 'db.journal'))
  assert.deepEqual(edits.filter(({ key }) => !key?.endsWith(':part')).at(-1)?.events, 58_999 + 2)
})

/** Items of 19 MiB together. */
const LONG = Array.from({ length: 300 }, (_, id) => ({ id, n: 0, text: 'x'.repeat(64 * 1024) }))

test('a large edit for which the disk has no room is not merged partly, and is merged later', async () => {
  const disk = diskWith({ a: LONG })
  let writes = Number.POSITIVE_INFINITY
  const fault = (operation: string, path: string) =>
    operation === 'write' && path.endsWith('.ndjson') && writes-- <= 0
      ? ({ type: 'error', code: 'ENOSPC' } as const)
      : undefined
  const store = await mkdtemp(join(tmpdir(), 'recollect-large-'))
  const { engine } = await openTestEngine(disk.files(fault), { store, segmentBytes: 64 * 2 ** 20 })
  const { head } = engine.journal
  disk.put(DATA_FILE, Buffer.from(JSON.stringify({ a: LONG.map((item) => ({ ...item, n: 1 })) })))
  writes = 5
  await assert.rejects(engine.reload(), (error) => error instanceof Refusal && error.code === 'DiskFull')
  writes = Number.POSITIVE_INFINITY
  const changed = () => (snapshotOf(engine.views).get('a') ?? []).filter(({ n }) => n === 1).length
  assert.deepEqual([engine.journal.head, changed()], [head, 0])
  assert.equal((await engine.reload()).events, LONG.length)
  assert.equal(changed(), LONG.length)
  await engine.close()
  await rm(store, { recursive: true })
})

test('a large edit with an item that violates its schema is rejected as a whole', async (t) => {
  const schema = { properties: { n: { maximum: 5 } }, required: ['id'] }
  const directory = await temporaryDirectory(t)
  const path = join(directory, 'schema.json')
  await writeFile(path, JSON.stringify(schema))
  await writeFile(join(directory, 'db.json'), JSON.stringify({ a: LONG }))
  const server = await startProgram(t, { directory, flags: ['--Api.Schemas.a', path] })
  const before = (await (await server.fetch('/health')).json()) as { position: number }
  const edited = [...LONG.map((item) => ({ ...item, n: item.id === 299 ? 6 : 1 })), { n: 2 }]
  await writeFile(server.file, JSON.stringify({ a: edited }))
  const refused = await server.fetch('/admin/reload', { method: 'POST' })
  assert.equal(refused.status, 422)
  assert.match(await refused.text(), /\/a\/299\/n/)
  const after = (await (await server.fetch('/health')).json()) as { position: number }
  assert.equal(after.position, before.position)
  await writeFile(server.file, JSON.stringify({ a: edited.map((item) => ({ ...item, n: 3 })) }))
  const merged = await server.fetch('/admin/reload', { method: 'POST' })
  assert.equal(merged.status, 200)
  assert.equal(((await merged.json()) as { events: number }).events, 301)
  assert.equal(await server.stop(), 0)
})

test('an engine that is closed while it reads a large edit does not merge it, and the next one does', async () => {
  const all = Array.from({ length: 900 }, (_, id) => ({ ...LONG[0], id }))
  const disk = diskWith('{"a":[]}')
  const settings = { store: await mkdtemp(join(tmpdir(), 'recollect-ending-')), segmentBytes: 64 * 2 ** 20 }
  const { engine } = await openTestEngine(disk.files(), settings)
  const { head } = engine.journal
  disk.put(DATA_FILE, Buffer.from(JSON.stringify({ a: all })))
  const refused = assert.rejects(engine.reload(), (error) => error instanceof Refusal && error.code === 'Unavailable')
  await turnsUntil('the edit to be read', () => engine.dataFile.status.state === 'merging')
  await engine.close()
  await refused
  assert.equal(engine.journal.head, head)
  const again = (await openTestEngine(disk.files(), settings)).engine
  assert.deepEqual(snapshotOf(again.views).get('a'), all)
  assert.equal(again.journal.head, head + all.length)
  await again.close()
  await rm(settings.store, { recursive: true })
})

test('first items that change while they are imported in parts end the start, and the next one imports the new content', async () => {
  const first = Array.from({ length: 900 }, (_, id) => ({ ...LONG[0], id }))
  const second = first.slice(0, 890).map((item) => ({ ...item, isNew: true }))
  const disk = diskWith({ a: first })
  let [openings, reads] = [0, 0]
  const files = disk.files((operation, path) => {
    if (path !== DATA_FILE) return undefined
    if (operation === 'open') openings++
    // The second reading has merged a part then.
    const isToChange = operation === 'read' && openings === 2 && ++reads === 25
    if (isToChange) disk.put(DATA_FILE, Buffer.from(JSON.stringify({ a: second })))
    return undefined
  })
  const settings = { store: await mkdtemp(join(tmpdir(), 'recollect-changing-')), segmentBytes: 64 * 2 ** 20 }
  const isChanged = (error: unknown) =>
    error instanceof Refusal &&
    error.code === 'Unavailable' &&
    error.message.includes('changed while its first items were imported')
  await assert.rejects(openTestEngine(files, settings), isChanged)
  const { engine } = await openTestEngine(disk.files(), settings)
  assert.deepEqual(snapshotOf(engine.views).get('a'), second)
  assert.ok(engine.journal.head > second.length, 'no part of the first content was merged')
  await engine.close()
  await rm(settings.store, { recursive: true })
})

test('first items of a single part that change between the check and the import are not merged, and the next start imports the new content', async () => {
  // Longer than DataFile.EditBytes, and shorter than a part, whose length is that of the text.
  const first = Array.from({ length: 100 }, (_, id) => ({ id, n: 0, text: '€'.repeat(32 * 1024) }))
  const second = first.map((item) => ({ ...item, n: 1 }))
  // The check opens the file once. The fifth stat from then on is the last one before it is opened again.
  const beforeReading = ['stat', 1, 5] as const
  const whileReading = ['read', 2, 10] as const
  const changes = [
    ['changed before it is read again', beforeReading, { a: second }],
    ['has another collection before it is read again', beforeReading, { b: second }],
    ['changed while it is read again', whileReading, { a: second }],
    ['saved unchanged while it is read again', whileReading, { a: first }],
  ] as const
  for (const [what, [changing, opening, call], data] of changes) {
    const disk = diskWith({ a: first })
    let [openings, calls] = [0, 0]
    const files = disk.files((operation, path) => {
      if (path !== DATA_FILE) return undefined
      if (operation === 'open') openings++
      const isToChange = openings === opening && operation === changing && ++calls === call
      if (isToChange) disk.put(DATA_FILE, Buffer.from(JSON.stringify(data)))
      return undefined
    })
    const settings = { store: await mkdtemp(join(tmpdir(), 'recollect-changing-')), segmentBytes: 64 * 2 ** 20 }
    const isChanged = (error: unknown) => error instanceof Refusal && error.code === 'Unavailable'
    await assert.rejects(openTestEngine(files, settings), isChanged, what)
    const { engine } = await openTestEngine(disk.files(), settings)
    assert.deepEqual([...snapshotOf(engine.views)], Object.entries(data), what)
    assert.equal(engine.journal.head, first.length + 1, what)
    await engine.close()
    await rm(settings.store, { recursive: true })
  }
})
