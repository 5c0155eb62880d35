import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { walk } from '../../src/events/walk.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { json, type RunningServer } from '../support/server.ts'
import { startServer } from '../support/service.ts'

const REPLACE = ['--DataFile.Edits', 'replace']
const ANN = { id: 0, name: 'Ann', age: 30 }
const BOB = { id: 1, name: 'Bob', age: 40 }

async function write(server: RunningServer, method: string, path: string, body?: unknown): Promise<void> {
  const response = await server.fetch(path, body === undefined ? { method } : json(method, body))
  assert.ok(response.ok, `${method} ${path}: ${response.status}`)
}

async function snapshot(server: RunningServer): Promise<void> {
  await write(server, 'POST', '/admin/snapshot')
}

const things = async (server: RunningServer) => (await server.fetch('/api/things')).json()

interface Reloaded {
  readonly events: number
  readonly basedOn: number
  readonly conflicts: readonly unknown[]
}

async function reload(server: RunningServer): Promise<Reloaded> {
  const response = await server.fetch('/admin/reload', { method: 'POST' })
  assert.equal(response.status, 200)
  return (await response.json()) as Reloaded
}

test('with DataFile.Edits replace, a saved file is the state, also if the editor opened it before other writes', async (t) => {
  for (const [flags, expected] of [
    [REPLACE, [{ ...ANN, name: 'Anna' }, BOB]],
    [
      [],
      [
        { ...ANN, name: 'Anna' },
        { ...BOB, age: 41 },
        { id: 2, name: 'Eve' },
      ],
    ],
  ] as const) {
    const server = await startServer(t, { data: { things: [ANN, BOB] }, flags: [...flags] })
    const opened = await readFile(server.file, 'utf8')
    await write(server, 'PATCH', '/api/things/1', { age: 41 })
    await write(server, 'POST', '/api/things', { name: 'Eve' })
    await snapshot(server)
    await writeFile(server.file, opened.replace('Ann', 'Anna'))
    await reload(server)
    assert.deepEqual(await things(server), expected)
    assert.equal(await server.stop(), 0)
  }
})

test('with DataFile.Edits replace, writes after the file was written stay, and events have the changes', async (t) => {
  const server = await startServer(t, {
    data: { things: [ANN, BOB], others: [{ id: 7 }] },
    flags: [...REPLACE, '--DataFile.Write', 'never'],
  })
  await snapshot(server)
  await write(server, 'POST', '/api/things', { name: 'Eve' })
  await write(server, 'PATCH', '/api/things/1', { age: 41 })
  await writeFile(server.file, JSON.stringify({ things: [{ ...ANN, age: 31 }, BOB] }))
  const { events, basedOn, conflicts } = await reload(server)
  assert.deepEqual({ events, basedOn, conflicts }, { events: 3, basedOn: 5, conflicts: [] })
  assert.deepEqual(await things(server), [
    { ...ANN, age: 31 },
    { ...BOB, age: 41 },
    { id: 2, name: 'Eve' },
  ])
  assert.equal((await server.fetch('/api/others')).status, 404)
  assert.equal(await server.stop(), 0)
  const types: string[] = []
  await walk(nodeFiles, join(server.directory, 'db.journal'), ({ actor, position, events }) => {
    if (actor === 'data-file' && position > 5) for (const { type } of events) types.push(type)
  })
  assert.deepEqual(types.sort(), ['CollectionRemoved', 'ItemDeleted', 'ItemReplaced'])
})

test('a file that is empty, truncated or malformed is never an edit, in each mode', async (t) => {
  for (const flags of [REPLACE, []]) {
    const server = await startServer(t, { data: { things: [ANN, BOB] }, flags })
    const whole = await readFile(server.file, 'utf8')
    const wrong = { empty: '', blank: ' \n', truncated: whole.slice(0, whole.indexOf('Bob')), malformed: `${whole},` }
    for (const [what, text] of Object.entries(wrong)) {
      await writeFile(server.file, text)
      const response = await server.fetch('/admin/reload', { method: 'POST' })
      assert.equal(response.status, 422, what)
      assert.match(((await response.json()) as { detail: string }).detail, /^The data file is not well-formed JSON/)
      assert.deepEqual(await things(server), [ANN, BOB], what)
      assert.equal(await readFile(server.file, 'utf8'), text, `${what}: it is left alone`)
    }
    await writeFile(server.file, '{}')
    assert.equal((await reload(server)).events, 3)
    assert.equal(await server.stop(), 0)
  }
})

test('a file of more than DataFile.EditBytes is compared with the version written last, which the answer tells', async (t) => {
  const server = await startServer(t, { data: { things: [ANN, BOB] }, flags: ['--DataFile.EditBytes', '50'] })
  const opened = await readFile(server.file, 'utf8')
  await write(server, 'PATCH', '/api/things/1', { age: 41 })
  await snapshot(server)
  const { position } = (await (await server.fetch('/health')).json()) as { position: number }
  await writeFile(server.file, opened.replace('Ann', 'Anna'))
  assert.equal((await reload(server)).basedOn, position)
  assert.deepEqual(await things(server), [{ ...ANN, name: 'Anna' }, BOB])
})
