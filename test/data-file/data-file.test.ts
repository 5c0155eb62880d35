import assert from 'node:assert/strict'
import { chmod, lstat, mkdir, readdir, readFile, rename, rm, rmdir, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, describe, type TestContext, test } from 'node:test'
import type { DomainEvent } from '../../src/events/event.ts'
import { until } from '../support/deadline.ts'
import { type Scope, temporaryDirectory } from '../support/directory.ts'
import { json, type RunningServer, runToEnd, startProgram } from '../support/server.ts'
import { startServer } from '../support/service.ts'

type Data = Record<string, { [name: string]: unknown }[]>
type Event = DomainEvent & { readonly position: number; readonly actor: string; readonly id?: unknown }

const ANN = { id: 0, name: 'Ann' }
const BOB = { id: 1, name: 'Bob' }

const formatted = (data: unknown) => `${JSON.stringify(data, null, 2)}\n`

async function edit(file: string, change: Data | string): Promise<void> {
  await writeFile(file, typeof change === 'string' ? change : JSON.stringify(change))
}

async function get<T>(server: RunningServer, path: string): Promise<T> {
  const response = await server.fetch(path)
  assert.equal(response.status, 200, path)
  return (await response.json()) as T
}

async function events(server: RunningServer, from = 1): Promise<Event[]> {
  return get(server, `/events?from=${from}&limit=1000`)
}

/** The events of an edit: type and id of each. */
async function madeByHand(server: RunningServer, from = 1): Promise<[string, unknown][]> {
  const made = await events(server, from)
  return made.filter(({ actor }) => actor === 'data-file').map(({ type, id }) => [type, id])
}

async function write(server: RunningServer, method: string, path: string, body?: unknown): Promise<number> {
  const response = await server.fetch(path, body === undefined ? { method } : json(method, body))
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${await response.text()}`)
  return Number(response.headers.get('Journal-Position'))
}

interface Health {
  readonly status: string
  readonly position: number
  readonly dataFile: { readonly state: string; readonly position: number; readonly detail?: string }
}

const health = (server: RunningServer) => get<Health>(server, '/health')

/** Waits until the file shows what the service serves. */
async function written(server: RunningServer): Promise<Data> {
  await until('the data file to be current', async () => {
    const { position, dataFile } = await health(server)
    return dataFile.state === 'current' && dataFile.position === position
  })
  const text = await readFile(server.file, 'utf8')
  const data = JSON.parse(text) as Data
  assert.equal(text, formatted(data))
  return data
}

async function reload(
  server: RunningServer,
): Promise<{ status: number; body: { events: number; conflicts: unknown[] } }> {
  const response = await server.fetch('/admin/reload', { method: 'POST' })
  return { status: response.status, body: (await response.json()) as { events: number; conflicts: unknown[] } }
}

/** A scope for what the tests of a suite share. */
function suiteScope(): Scope {
  const ends: (() => Promise<unknown>)[] = []
  after(async () => {
    for (const end of ends.reverse()) await end()
  })
  return { after: (end) => ends.push(end) }
}

describe('the initial items', () => {
  test('a file becomes events, and is unchanged until the first write', async (t) => {
    const text = '{"things":[{"id":0,"name":"Ann"},\n{"id":"x"}],"none":[]}'
    const directory = await temporaryDirectory(t)
    await writeFile(join(directory, 'db.json'), text)
    const server = await startServer(t, { directory })
    assert.deepEqual(await get(server, '/api'), ['things', 'none'])
    assert.deepEqual(await get(server, '/api/things'), [ANN, { id: 'x' }])
    const all = await events(server)
    assert.deepEqual(
      all.map(({ type, actor }) => [type, actor]),
      [
        ['CollectionCreated', 'data-file'],
        ['ItemCreated', 'data-file'],
        ['ItemCreated', 'data-file'],
        ['CollectionCreated', 'data-file'],
      ],
    )
    assert.equal(await server.stop(), 0)
    assert.equal(await readFile(server.file, 'utf8'), text)
  })

  test('items without an id get the next integers, which the file shows', async (t) => {
    const server = await startProgram(t, { data: { things: [{ n: 1 }, { id: 4 }, { n: 2 }] } })
    const expected = [{ id: 5, n: 1 }, { id: 4 }, { id: 6, n: 2 }]
    assert.deepEqual(await get(server, '/api/things'), expected)
    assert.deepEqual(await written(server), { things: expected })
    await server.stop('SIGKILL')
    const again = await startProgram(t, { directory: server.directory })
    assert.equal((await events(again)).length, 4)
  })

  test('a missing file is created: empty at first, later from the journal', async (t) => {
    const server = await startServer(t)
    assert.equal(await readFile(server.file, 'utf8'), '{}\n')
    await write(server, 'POST', '/api/things', { n: 1 })
    await rm(server.file)
    await write(server, 'POST', '/api/things', { n: 2 })
    await until('the file to be there again', () => stat(server.file).catch(() => undefined))
    const things = [
      { id: 0, n: 1 },
      { id: 1, n: 2 },
    ]
    assert.deepEqual(await written(server), { things })
    await rm(server.file)
    assert.equal((await reload(server)).status, 200)
    await until('the file to be there after a reload', () => stat(server.file).catch(() => undefined))
    await server.stop()
    await rm(server.file)
    const again = await startServer(t, { directory: server.directory })
    assert.equal(await readFile(server.file, 'utf8'), formatted({ things }))
    assert.equal((await events(again)).length, 3)
  })

  test('an item that violates its schema is rejected in the same way', async (t) => {
    const directory = await temporaryDirectory(t)
    await edit(join(directory, 'db.json'), { a: [{ n: 1 }, { n: 'one' }] })
    await writeFile(join(directory, 'schema.json'), '{"properties": {"n": {"type": "number"}}}')
    const flags = ['--file', 'db.json', '--urls', 'http://127.0.0.1:0', '--Api.Schemas.a', 'schema.json']
    const { code, stderr } = await runToEnd(t, directory, flags)
    assert.equal(code, 2, stderr)
    assert.match(stderr, /\/a\/1\/n/)
    assert.deepEqual((await readdir(directory)).sort(), ['db.json', 'schema.json'])
  })
})

describe('the file', () => {
  test('is JSON with an indentation of two spaces and a final newline, and keeps its mode', async (t) => {
    const server = await startServer(t, { data: { 'a b': [], ä: [{ id: 'x\n"y"\\', deep: [[], {}, [{}]] }] } })
    await chmod(server.file, 0o600)
    await write(server, 'POST', '/api/things', { text: 'line\nline\u2028😀', n: [1.5e-300, -0.25, null, true], o: {} })
    const data = await written(server)
    assert.deepEqual(Object.keys(data), ['a b', 'ä', 'things'])
    assert.equal((await stat(server.file)).mode & 0o777, 0o600)
    const settled = ['.recollect', 'db.journal', 'db.json'].sort().join()
    await until('nothing temporary to be left', async () => (await readdir(server.directory)).sort().join() === settled)
  })

  test('may be a symbolic link, and stays one', async (t) => {
    const directory = await temporaryDirectory(t)
    await mkdir(join(directory, 'real'))
    await edit(join(directory, 'real', 'target.json'), { things: [ANN] })
    await symlink(join('real', 'target.json'), join(directory, 'db.json'))
    const server = await startServer(t, { directory })
    await write(server, 'POST', '/api/things', { name: 'Bob' })
    assert.deepEqual(await written(server), { things: [ANN, BOB] })
    assert.ok((await lstat(server.file)).isSymbolicLink())
    assert.equal(await readFile(join(directory, 'real', 'target.json'), 'utf8'), formatted({ things: [ANN, BOB] }))
    await edit(join(directory, 'real', 'target.json'), { things: [ANN] })
    assert.equal((await reload(server)).body.events, 1)
  })
})

describe('an edit during a run, without EagerDataReload', () => {
  let server: RunningServer
  const scope = suiteScope()

  test('is not overwritten by writes, shown by /health, and merged by a reload', async () => {
    server = await startServer(scope, { data: { things: [ANN, BOB] } })
    const mine = JSON.stringify({ things: [{ ...ANN, name: 'Anna' }, BOB] })
    await edit(server.file, mine)
    for (let n = 0; n < 5; n++) await write(server, 'PUT', '/api/things/1', { ...BOB, n })
    const { status, dataFile } = await until('health to tell of the edit', async () => {
      const state = await health(server)
      return state.dataFile.state === 'edited' && state
    })
    assert.equal(status, 'degraded')
    assert.match(dataFile.detail ?? '', /reload/)
    for (let n = 5; n < 10; n++) await write(server, 'PUT', '/api/things/1', { ...BOB, n })
    assert.equal(await readFile(server.file, 'utf8'), mine)
    assert.deepEqual(await get(server, '/api/things/0'), ANN)
    assert.match(server.log(), /was edited/)

    const before = (await health(server)).position
    const response = await server.fetch('/admin/reload', { method: 'POST' })
    assert.equal(response.headers.get('Journal-Position'), String(before + 1))
    assert.deepEqual(await response.json(), { position: before + 1, events: 1, basedOn: 3, conflicts: [] })
    const merged = [
      { id: 0, name: 'Anna' },
      { ...BOB, n: 9 },
    ]
    assert.deepEqual(await get(server, '/api/things'), merged)
    assert.deepEqual(await written(server), { things: merged })
    assert.equal((await health(server)).status, 'ok')
  })

  test('that is undone before a reload has no effect', async () => {
    const text = await readFile(server.file, 'utf8')
    await edit(server.file, { things: [] })
    const position = await write(server, 'POST', '/api/others', {})
    await until('the edit to be seen', async () => (await health(server)).dataFile.state === 'edited')
    await edit(server.file, text)
    assert.deepEqual((await reload(server)).body.events, 0)
    assert.equal((await health(server)).position, position)
    await written(server)
  })

  test('of the formatting alone makes no event and is kept', async () => {
    const data = await written(server)
    const { position } = await health(server)
    const text = `${JSON.stringify(data)}   \n\n`
    await edit(server.file, text)
    assert.deepEqual((await reload(server)).body.events, 0)
    assert.equal((await health(server)).position, position)
    assert.equal((await health(server)).dataFile.state, 'current')
    assert.equal(await readFile(server.file, 'utf8'), text)
  })

  test('of an item that was changed meanwhile wins, is reported, and both are in the journal', async () => {
    await write(server, 'PUT', '/api/things/0', { name: 'Ann' })
    const data = await written(server)
    await edit(server.file, {
      ...data,
      things: [
        { id: 0, name: 'by hand' },
        { id: 1, name: 'Robert', n: 9 },
      ],
    })
    const position = await write(server, 'PUT', '/api/things/0', { name: 'by API' })
    const { body } = await reload(server)
    assert.deepEqual(body.conflicts, [{ collection: 'things', id: 0 }])
    const since = await events(server, position)
    assert.deepEqual(
      since.map((event) => [event.actor, event.type, 'item' in event && event.item]),
      [
        ['anonymous', 'ItemReplaced', { id: 0, name: 'by API' }],
        ['data-file', 'ItemReplaced', { id: 0, name: 'by hand' }],
        ['data-file', 'ItemReplaced', { id: 1, name: 'Robert', n: 9 }],
      ],
    )
    assert.deepEqual((await written(server)).things, [
      { id: 0, name: 'by hand' },
      { id: 1, name: 'Robert', n: 9 },
    ])
  })

  test('deletes items that were changed meanwhile, restores items that were deleted, and reports both', async () => {
    await write(server, 'POST', '/api/things', { name: 'seen by the editor' })
    const { things = [] } = await written(server)
    await edit(server.file, { things: [{ id: 0, name: 'changed by hand' }, things[2] as Data[string][number]] })
    const position = await write(server, 'DELETE', '/api/things/0')
    await write(server, 'PUT', '/api/things/1', { name: 'changed by API' })
    const { body } = await reload(server)
    assert.deepEqual(body.conflicts, [
      { collection: 'things', id: 1 },
      { collection: 'things', id: 0 },
    ])
    assert.deepEqual(await madeByHand(server, position), [
      ['ItemDeleted', 1],
      ['ItemCreated', 0],
      ['ItemDeleted', 0],
      ['CollectionRemoved', undefined],
    ])
    const kept = (await written(server)).things as { id: unknown }[]
    assert.deepEqual(new Set(kept.map(({ id }) => id)), new Set([0, things[2]?.id]))
  })

  test('moves items, adds some without an id, and adds and removes collections', async () => {
    await edit(server.file, { things: [{ id: 'a' }, { id: 'b' }], old: [{ id: 1 }] })
    await reload(server)
    const { position } = await health(server)
    await edit(server.file, { things: [{ id: 'b' }, { name: 'new' }, { id: 'a' }], fresh: [] })
    assert.equal((await reload(server)).body.events, 5)
    assert.deepEqual(await madeByHand(server, position + 1), [
      ['ItemCreated', 3],
      ['CollectionOrdered', undefined],
      ['ItemDeleted', 1],
      ['CollectionRemoved', undefined],
      ['CollectionCreated', undefined],
    ])
    const things = [{ id: 'b' }, { id: 3, name: 'new' }, { id: 'a' }]
    assert.deepEqual(await get(server, '/api/things'), things)
    assert.deepEqual(await get(server, '/api'), ['things', 'fresh'])
    assert.equal((await server.fetch('/api/old')).status, 404)
    assert.deepEqual(await written(server), { things, fresh: [] })
  })

  test('that is invalid is rejected with its place; the last good state is served, and the file is unchanged', async () => {
    const good = await written(server)
    for (const broken of ['{"things": [', '{"things": 5}', '{"things": [{"id": 1}, {"id": 1}]}']) {
      await edit(server.file, broken)
      const { status, body } = await reload(server)
      assert.equal(status, 422)
      assert.equal((body as unknown as { errors: unknown[] }).errors.length, 1)
      assert.match(JSON.stringify(body), /things|line 1, column 13/)
      const { status: state, dataFile } = await health(server)
      assert.deepEqual([state, dataFile.state], ['degraded', 'invalid'])
      assert.deepEqual(await get(server, '/api/things'), good.things)
      await write(server, 'PUT', '/api/fresh/x', { broken }).catch(() =>
        write(server, 'POST', '/api/fresh', { broken }),
      )
      assert.equal(await readFile(server.file, 'utf8'), broken)
    }
    await edit(server.file, good as Data)
    assert.equal((await reload(server)).status, 200)
    assert.equal((await health(server)).status, 'ok')
    const { fresh } = await written(server)
    assert.equal(fresh?.length, 3, 'what was written meanwhile is still there')
  })

  test('that puts a directory in place of the file is rejected, and the file is written again when that is gone', async () => {
    const good = await written(server)
    await rm(server.file)
    await mkdir(server.file)
    const response = await server.fetch('/admin/reload', { method: 'POST' })
    assert.equal(response.status, 422)
    const { detail } = (await response.json()) as { detail: string }
    assert.ok(detail.includes(server.file) && detail.includes('directory'), detail)
    await write(server, 'PUT', '/api/things/b', { since: 'then' })
    const { state } = await until('health to tell of it', async () => {
      const { dataFile } = await health(server)
      return dataFile.detail?.includes('directory') && dataFile
    })
    assert.equal(state, 'failing')
    await rmdir(server.file)
    assert.deepEqual((await written(server)).fresh, good.fresh)
    assert.equal((await health(server)).status, 'ok')
  })

  test('that is invalid at a stop leaves the last good state to the next start', async (t) => {
    const good = await written(server)
    await edit(server.file, '{"things": [')
    assert.equal(await server.stop(), 0)
    assert.equal(await readFile(server.file, 'utf8'), '{"things": [')
    const again = await startServer(t, { directory: server.directory })
    assert.deepEqual(await get(again, '/api/things'), good.things)
    assert.deepEqual([(await health(again)).status, (await health(again)).dataFile.state], ['degraded', 'invalid'])
    assert.match(again.log(), /line 1, column 13/)
    await write(again, 'POST', '/api/things', {})
    assert.equal(await readFile(server.file, 'utf8'), '{"things": [')
    await edit(server.file, { ...good, more: [] })
    assert.equal((await reload(again)).body.events, 1)
    assert.equal((await written(again)).things?.length, (good.things?.length ?? 0) + 1)
  })
})

describe('an edit during a run, with EagerDataReload', () => {
  let server: RunningServer
  const scope = suiteScope()

  test('is merged automatically, however the editor saves', async () => {
    const flags = ['--Common.EagerDataReload', 'true']
    server = await startServer(scope, { data: { things: [ANN] }, flags })
    const shown = (name: string) =>
      until(`${name} to be served`, async () => (await get<{ name: string }>(server, '/api/things/0')).name === name)
    await edit(server.file, { things: [{ id: 0, name: 'in place' }] })
    await shown('in place')
    await edit(`${server.file}.swp`, { things: [{ id: 0, name: 'renamed' }] })
    await rename(`${server.file}.swp`, server.file)
    await shown('renamed')
    await rename(server.file, `${server.file}~`)
    await edit(server.file, { things: [{ id: 0, name: 'backed up' }] })
    await shown('backed up')
    await rm(`${server.file}~`)
    assert.deepEqual(await madeByHand(server, 3), Array(3).fill(['ItemReplaced', 0]))
  })

  test('is merged during writes, and no change of either side is lost', async () => {
    const name = 'while writes go on'
    let n = 0
    await edit(server.file, { things: [{ id: 0, name }] })
    await until('the edit to be taken in', async () => {
      await write(server, 'POST', '/api/others', { n: n++ })
      return (await get<{ name: string }>(server, '/api/things/0')).name === name
    })
    const data = await written(server)
    assert.equal(data.others?.length, n)
    assert.deepEqual(data.things, [{ id: 0, name }])
  })

  test('that is invalid is reported, and the next one is merged', async () => {
    await written(server)
    await edit(server.file, '{"things": [')
    await until('health to tell of it', async () => (await health(server)).dataFile.state === 'invalid')
    await until('the log to tell of it', () => server.log().includes('line 1, column 13'))
    await edit(server.file, { things: [{ id: 0, name: 'valid again' }] })
    await until(
      'it to be served',
      async () => (await get<{ name: string }>(server, '/api/things/0')).name === 'valid again',
    )
    assert.equal((await health(server)).status, 'ok')
  })

  test('a removed file is written again', async () => {
    const data = await written(server)
    await rm(server.file)
    await until('the file to be there', () => stat(server.file).catch(() => undefined))
    assert.deepEqual(await written(server), data)
  })

  test('writing the file itself makes no event', async () => {
    const { position } = await health(server)
    for (let n = 0; n < 5; n++) {
      await write(server, 'POST', '/api/things', { n })
      await written(server)
    }
    assert.equal((await health(server)).position, position + 5)
  })
})

describe('an edit during a stop', () => {
  test('is merged at the next start, with only the edited items', async (t) => {
    const server = await startServer(t, { data: { things: [ANN, BOB] } })
    await write(server, 'POST', '/api/things', { name: 'Eve' })
    assert.equal(await server.stop(), 0)
    await edit(server.file, { things: [{ id: 0, name: 'Anna' }, { id: 2, name: 'Eve' }, { name: 'new' }] })
    const again = await startServer(t, { directory: server.directory })
    assert.deepEqual(await madeByHand(again, 5), [
      ['ItemDeleted', 1],
      ['ItemReplaced', 0],
      ['ItemCreated', 3],
    ])
    assert.deepEqual(await written(again), {
      things: [
        { id: 0, name: 'Anna' },
        { id: 2, name: 'Eve' },
        { id: 3, name: 'new' },
      ],
    })
    await again.stop()
    const third = await startServer(t, { directory: server.directory })
    assert.equal((await events(third)).length, 7)
  })

  test('that was made before a write and not merged yet is merged with it', async (t) => {
    const server = await startServer(t, { data: { things: [ANN, BOB] } })
    await edit(server.file, { things: [{ id: 0, name: 'by hand' }, BOB] })
    await write(server, 'PUT', '/api/things/1', { name: 'by API' })
    assert.equal(await server.stop(), 0)
    const again = await startServer(t, { directory: server.directory })
    const things = [
      { id: 0, name: 'by hand' },
      { id: 1, name: 'by API' },
    ]
    assert.deepEqual(await get(again, '/api/things'), things)
    assert.deepEqual(await written(again), { things })
  })

  test('a start directly after a stop changes neither file nor journal', async (t: TestContext) => {
    const server = await startServer(t, { data: { things: [ANN, BOB] } })
    await write(server, 'PUT', '/api/things/1', { name: 'Bill' })
    await server.stop()
    const text = await readFile(server.file, 'utf8')
    for (let round = 0; round < 2; round++) {
      const again = await startServer(t, { directory: server.directory })
      assert.equal((await health(again)).position, 4)
      await again.stop()
      assert.equal(await readFile(server.file, 'utf8'), text)
    }
  })
})
