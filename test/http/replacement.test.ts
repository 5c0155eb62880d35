import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { connect } from '../../src/client/index.ts'
import { within } from '../support/deadline.ts'
import { send, sendJson } from '../support/requests.ts'
import { startHere } from '../support/service.ts'

const DATA = {
  users: [
    { id: 1, name: 'Ann' },
    { id: 2, name: 'Bob' },
  ],
  old: [{ id: 1 }],
  profile: { theme: 'dark' },
}

async function everything(url: string): Promise<Record<string, unknown>> {
  const names = (await send(url, 'GET', '/api')).json<string[]>()
  const all = names.map(async (name) => [name, (await send(url, 'GET', `/api/${name}`)).json()] as const)
  return Object.fromEntries(await Promise.all(all))
}

test('POST /api replaces all data in one write, which can be reverted by a restore', async (t) => {
  const { url } = await startHere(t, { data: DATA })
  const before = Number((await send(url, 'GET', '/api')).headers['journal-position'])
  const next = {
    users: [{ id: 2, name: 'Bo' }, { id: 1, name: 'Ann' }, { name: 'New' }],
    settings: { colour: 'red' },
    empty: [],
  }
  const rehearsed = await sendJson(url, 'POST', '/api?dryRun=true', next)
  assert.equal(rehearsed.status, 200)
  assert.deepEqual(await everything(url), DATA)

  const reply = await sendJson(url, 'POST', '/api', next)
  assert.equal(reply.status, 200, reply.text)
  const { position, ...counts } = reply.json<Record<string, number>>()
  assert.equal(Number(reply.headers['journal-position']), position)
  const events = (position as number) - before
  assert.deepEqual(counts, { dryRun: false, events, created: 2, replaced: 1, deleted: 2 })
  const users = [
    { id: 2, name: 'Bo' },
    { id: 1, name: 'Ann' },
    { id: 3, name: 'New' },
  ]
  assert.deepEqual(await everything(url), { ...next, users })
  const written = (await send(url, 'GET', `/events?from=${before + 1}`)).json<{ requestId: string }[]>()
  assert.equal(new Set(written.map(({ requestId }) => requestId)).size, 1)

  const again = (await sendJson(url, 'POST', '/api', { ...next, users })).json<{ events: number }>()
  assert.equal(again.events, 0)
  assert.equal((await sendJson(url, 'POST', '/admin/restore', { to: before })).status, 200)
  assert.deepEqual(await everything(url), DATA)
})

test('a list may replace a single object of the same name, and the reverse', async (t) => {
  const { url } = await startHere(t, { data: DATA })
  const next = { users: { name: 'one' }, profile: [{ id: 'a' }] }
  assert.equal((await sendJson(url, 'POST', '/api', next)).status, 200)
  assert.deepEqual(await everything(url), next)
  assert.equal((await sendJson(url, 'POST', '/api', {})).json<{ deleted: number }>().deleted, 2)
  assert.deepEqual(await everything(url), {})
})

test('an invalid data file is rejected with all mistakes, and changes nothing', async (t) => {
  const { url } = await startHere(t, { data: DATA, flags: ['--Limits.BatchBytes', '2000'] })
  const post = (text: string, headers = {}) =>
    send(url, 'POST', '/api', {
      body: Buffer.from(text, 'latin1'),
      headers: { 'Content-Type': 'application/json', ...headers },
    })
  const wrong = await post('{"users": [{"id": 1}, {"id": 1}, 7], "n": 5, "old": [{"id": {}}]}')
  assert.equal(wrong.status, 400)
  assert.deepEqual(
    wrong.json<{ errors: { pointer: string }[] }>().errors.map(({ pointer }) => pointer),
    ['/users/1/id', '/users/2', '/n', '/old/0/id'],
  )
  for (const text of ['[]', 'null', '"x"', '{', '{"users": [{"id": 1]}', '{"users": [{"id": 1e999}]}', '{}{}', '\xff'])
    assert.equal((await post(text)).status, 400, text)
  assert.equal((await post('')).status, 400)
  assert.equal((await post('{}', { 'Content-Type': 'text/plain' })).status, 415)
  assert.equal((await post('{}', { 'If-Match': '*' })).status, 400)
  assert.equal((await sendJson(url, 'POST', '/api?name=x', {})).status, 400)
  assert.equal((await sendJson(url, 'POST', '/api?dryRun=x', {})).status, 400)
  const long = JSON.stringify({ users: [{ text: 'x'.repeat(3000) }] })
  assert.equal((await post(long)).status, 413)
  const packed = { 'Content-Type': 'application/json', 'Content-Encoding': 'gzip' }
  assert.equal((await send(url, 'POST', '/api', { body: gzipSync(long), headers: packed })).status, 413)
  assert.deepEqual(await everything(url), DATA)
  assert.equal((await send(url, 'POST', '/api', { body: gzipSync('{"users":[]}'), headers: packed })).status, 200)
})

test('the client replaces all data', async (t) => {
  const { url } = await startHere(t, { data: DATA })
  const client = connect(url)
  t.after(() => client.close())
  const data = { users: [{ id: 1, name: 'Ann' }] }
  const { deleted, dryRun } = await within('a response to the client', client.replaceAll(data, { dryRun: true }))
  assert.deepEqual([deleted, dryRun], [3, true])
  await within('a response to the client', client.replaceAll(data))
  assert.deepEqual(await everything(url), data)
})

test('a replacement with many items is one write', async (t) => {
  const { url } = await startHere(t, { data: DATA })
  const users = Array.from({ length: 10_000 }, (_, id) => ({ id, text: `text ${id} ${'x'.repeat(200)}` }))
  const { created, deleted } = (await sendJson(url, 'POST', '/api', { users })).json<Record<string, number>>()
  assert.deepEqual([created, deleted], [9_998, 2])
  assert.equal((await send(url, 'HEAD', '/api/users')).headers['x-total-count'], '10000')
})
