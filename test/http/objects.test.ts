import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { within } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { socketIo } from '../support/listeners.ts'
import { type Reply, send, sendJson } from '../support/requests.ts'
import type { RunningServer } from '../support/server.ts'
import { startServer } from '../support/service.ts'

const NAMES = [
  'read',
  'written',
  'patched',
  'deleted',
  'conditional',
  'retried',
  'past',
  'told',
  'restored',
  'named',
  'checked',
]
const DATA = {
  posts: [{ id: 1, title: 'one' }],
  ...Object.fromEntries(NAMES.map((name) => [name, { name: 'typicode', address: { city: 'Oslo' } }])),
  named: { id: 7, 'a/b': [{ id: 5, n: 1 }] },
  empty: {},
}
const PATCH = 'application/json-patch+json'

const directory = await temporaryDirectory({ after })
await writeFile(join(directory, 'schema.json'), JSON.stringify({ type: 'object', required: ['name'] }))
const flags = ['--Api.UpsertOnPut', 'true', '--Api.Schemas.checked', join(directory, 'schema.json')]
const server = await startServer({ after }, { directory, data: DATA, flags })
const { url } = server
const get = (path: string): Promise<Reply> => send(url, 'GET', path)
const put = (path: string, body: object, headers = {}): Promise<Reply> => sendJson(url, 'PUT', path, body, headers)

test('GET returns a single object as it is, with the ETag of an item and no count', async () => {
  const reply = await get('/api/read')
  assert.equal(reply.status, 200)
  assert.equal(reply.text, '{"name":"typicode","address":{"city":"Oslo"}}')
  assert.equal(reply.headers['x-total-count'], undefined)
  const { etag = '' } = reply.headers
  assert.equal((await send(url, 'GET', '/api/read', { headers: { 'If-None-Match': etag } })).status, 304)
  const head = await send(url, 'HEAD', '/api/read/')
  assert.deepEqual([head.status, head.text, head.headers.etag], [200, '', etag])
  assert.equal((await get('/api/empty')).text, '{}')
  assert.ok((await get('/api')).json<string[]>().includes('read'))
})

test('a path below a single object leads into it, and its member "id" is an ordinary one', async () => {
  assert.equal((await get('/api/read/address/city')).text, '"Oslo"')
  assert.equal((await get('/api/named/a%2Fb/5/n')).text, '1')
  assert.equal((await get('/api/named/id')).text, '7')
  assert.equal((await get('/api/named/7')).status, 404)
  assert.equal((await put('/api/named', { id: 'other', n: 1 })).status, 204)
  assert.equal((await sendJson(url, 'PATCH', '/api/named', { id: null })).status, 204)
  assert.equal((await get('/api/named')).text, '{"n":1}')
})

test('PUT replaces a single object, and PATCH changes it by a merge patch or a JSON Patch', async () => {
  assert.equal((await put('/api/written', { a: 1 })).status, 204)
  assert.equal((await get('/api/written')).text, '{"a":1}')
  const wanted = await put('/api/written', { a: 2 }, { Prefer: 'return=representation' })
  assert.deepEqual([wanted.status, wanted.text], [200, '{"a":2}'])
  assert.equal((await sendJson(url, 'PATCH', '/api/patched', { name: null, n: 1 })).status, 204)
  const steps = [{ op: 'replace', path: '/address/city', value: 'Bergen' }]
  assert.equal((await sendJson(url, 'PATCH', '/api/patched', steps, { 'Content-Type': PATCH })).status, 204)
  assert.equal((await get('/api/patched')).text, '{"address":{"city":"Bergen"},"n":1}')
  const whole = [{ op: 'replace', path: '', value: [] }]
  assert.equal((await sendJson(url, 'PATCH', '/api/patched', whole, { 'Content-Type': PATCH })).status, 422)
  assert.equal((await put('/api/written', [])).status, 422)
})

test('after DELETE a single object is missing until PUT creates it again', async () => {
  assert.equal((await send(url, 'DELETE', '/api/deleted')).status, 204)
  assert.equal((await get('/api/deleted')).status, 404)
  assert.ok(!(await get('/api')).json<string[]>().includes('deleted'))
  assert.equal((await send(url, 'DELETE', '/api/deleted')).status, 404)
  assert.equal((await sendJson(url, 'PATCH', '/api/deleted', { n: 1 })).status, 404)
  const created = await put('/api/deleted', { n: 1 })
  assert.deepEqual([created.status, created.text, created.headers.location], [201, '{"n":1}', '/api/deleted'])
  assert.equal((await get('/api/deleted')).headers.etag, created.headers.etag)
})

test('POST gets 409, and a missing member 404; lists and unknown names reject PATCH, and PUT with a body', async () => {
  for (const path of ['/api/read', '/api/read/']) {
    const reply = await sendJson(url, 'POST', path, { n: 1 })
    assert.equal(reply.status, 409)
    assert.match(reply.text, /single object/)
  }
  assert.equal((await put('/api/read/x', { n: 1 })).status, 404)
  assert.equal((await send(url, 'DELETE', '/api/read/x')).status, 404)
  for (const path of ['/api/posts', '/api/unknown', '/api/%E0%A4']) {
    const reply = await sendJson(url, 'PATCH', path, { n: 1 })
    assert.deepEqual([reply.status, reply.headers.allow], [405, 'GET, HEAD, POST, PUT, DELETE, OPTIONS'], path)
    assert.equal((await put(path, { n: 1 })).status, 400, path)
  }
  for (const query of ['dryRun=true', 'n=1']) {
    assert.equal((await send(url, 'DELETE', `/api/read?${query}`)).status, 400, query)
  }
  assert.equal((await sendJson(url, 'POST', '/api/read', [{ n: 1 }])).status, 409)
  assert.equal((await send(url, 'GET', '/api/read', { headers: { Accept: 'text/csv' } })).status, 200)
  const { headers } = await send(url, 'OPTIONS', '/api/read')
  assert.equal(headers.allow, 'GET, HEAD, PUT, PATCH, DELETE, OPTIONS')
  assert.match(String(headers['accept-patch']), /json-patch/)
})

test('conditional requests work as for an item', async () => {
  const { etag = '' } = (await get('/api/conditional')).headers
  assert.equal((await put('/api/conditional', { n: 1 }, { 'If-Match': '"other"' })).status, 412)
  assert.equal((await put('/api/conditional', { n: 1 }, { 'If-None-Match': '*' })).status, 412)
  const writes = await Promise.all([1, 2, 3].map((n) => put('/api/conditional', { n }, { 'If-Match': `W/${etag}` })))
  assert.deepEqual(writes.map(({ status }) => status).sort(), [204, 412, 412])
  await send(url, 'DELETE', '/api/conditional')
  assert.equal((await put('/api/conditional', { n: 1 }, { 'If-Match': '*' })).status, 412)
  assert.equal((await put('/api/conditional', { n: 1 }, { 'If-None-Match': '*' })).status, 201)
})

test('a DELETE with an Idempotency-Key is executed once', async () => {
  const headers = { 'Idempotency-Key': 'once' }
  const first = await send(url, 'DELETE', '/api/retried', { headers })
  await put('/api/retried', { n: 1 })
  const again = await send(url, 'DELETE', '/api/retried', { headers })
  assert.deepEqual([first.status, again.status], [204, 204])
  assert.equal(again.headers['journal-position'], first.headers['journal-position'])
  assert.equal((await get('/api/retried')).text, '{"n":1}')
})

test('asOf returns a past version, and /events its history', async () => {
  const before = Number((await get('/api')).headers['journal-position'])
  await put('/api/past', { n: 1, in: [1] })
  await send(url, 'DELETE', '/api/past')
  const created = await put('/api/past', { n: 2 })
  const at = (position: number, inside = '') => get(`/api/past${inside}?asOf=${position}`)
  assert.equal((await at(before)).text, '{"name":"typicode","address":{"city":"Oslo"}}')
  assert.equal((await at(before + 1)).text, '{"n":1,"in":[1]}')
  assert.equal((await at(before + 1, '/in/0')).text, '1')
  assert.equal((await at(before + 2)).status, 404)
  assert.equal((await at(before + 2, '/in')).status, 400)
  assert.equal((await at(before + 3)).text, '{"n":2}')
  assert.equal((await at(before + 3)).headers.etag, created.headers.etag)
  const events = (await get('/events?collection=past&id=')).json<Record<string, unknown>[]>()
  assert.deepEqual(
    events.map(({ type, id, revision, item }) => [type, id, revision, item]),
    [
      ['ObjectCreated', '', 1, { name: 'typicode', address: { city: 'Oslo' } }],
      ['ItemReplaced', '', 2, { n: 1, in: [1] }],
      ['ObjectDeleted', '', 3, undefined],
      ['ObjectCreated', '', 4, { n: 2 }],
    ],
  )
})

test('notifications have the path of the object without an id; subscriptions send it as an item with an empty id', async (t) => {
  const listener = await socketIo(t, url)
  const changes: Record<string, unknown>[] = []
  listener.client.on('change', (change: Record<string, unknown>) => changes.push(change))
  const subscribed = listener.client.emitWithAck('subscribe', { collection: 'told' })
  const begun = await within('the response to a subscription', subscribed)
  assert.deepEqual(begun.items, [{ name: 'typicode', address: { city: 'Oslo' } }])
  await put('/api/told', { n: 1 })
  const last = Number((await send(url, 'DELETE', '/api/told')).headers['journal-position'])
  const told = (await listener.upTo(last)).slice(-2)
  assert.deepEqual(
    told.map(({ method, path, itemId }) => [method, path, itemId]),
    [
      ['PUT', '/api/told', null],
      ['DELETE', '/api/told', null],
    ],
  )
  assert.deepEqual(
    changes.map(({ kind, id, item }) => [kind, id, item]),
    [
      ['update', '', { n: 1 }],
      ['leave', '', undefined],
    ],
  )
})

test('/admin/restore restores and removes it, with or without the empty id', async () => {
  const restore = async (body: object) =>
    (await sendJson(url, 'POST', '/admin/restore', body)).json<{ events: number }>()
  const before = Number((await get('/api')).headers['journal-position'])
  await put('/api/restored', { n: 1 })
  const after = Number((await send(url, 'DELETE', '/api/restored')).headers['journal-position'])
  assert.equal((await restore({ to: before, collection: 'restored' })).events, 1)
  assert.equal((await get('/api/restored')).text, '{"name":"typicode","address":{"city":"Oslo"}}')
  assert.equal((await restore({ to: before + 1, collection: 'restored', id: '' })).events, 1)
  assert.equal((await get('/api/restored')).text, '{"n":1}')
  assert.equal((await restore({ to: after, collection: 'restored', id: '' })).events, 1)
  assert.equal((await get('/api/restored')).status, 404)
  const ofList = { to: before, collection: 'posts', id: '' }
  assert.equal((await sendJson(url, 'POST', '/admin/restore', ofList)).status, 409)
  assert.equal((await get('/api/posts')).text, '[{"id":1,"title":"one"}]')
})

/** Changes the data file by hand, and has it read. */
async function edit(at: RunningServer, change: (data: Record<string, unknown>) => void): Promise<Reply> {
  await sendJson(at.url, 'POST', '/admin/snapshot', {})
  const data = JSON.parse(await readFile(at.file, 'utf8'))
  change(data)
  await writeFile(at.file, JSON.stringify(data))
  return sendJson(at.url, 'POST', '/admin/reload', {})
}

test('the data file contains it as an object, and an edit may change it, remove it, or turn it into a list and back', async (t) => {
  const own = await startServer(t, { data: { list: [{ id: 1, n: 1 }], object: { n: 1 }, other: { n: 2 } } })
  const state = async (): Promise<string> => {
    const names = (await send(own.url, 'GET', '/api')).json<string[]>()
    const texts = await Promise.all(names.map(async (name) => (await send(own.url, 'GET', `/api/${name}`)).text))
    return names.map((name, index) => `${name}: ${texts[index]}`).join(', ')
  }
  await edit(own, (data) => Object.assign(data, { object: { n: 2 }, added: { in: { n: 3 } } }))
  assert.equal(await state(), 'list: [{"id":1,"n":1}], object: {"n":2}, other: {"n":2}, added: {"in":{"n":3}}')
  await edit(own, (data) => delete data.other)
  assert.equal((await send(own.url, 'GET', '/api/other')).status, 404)
  const turned = await edit(own, (data) => Object.assign(data, { list: { n: 4 }, object: [{ n: 2 }, { n: 5 }] }))
  assert.deepEqual(turned.json<{ conflicts: unknown[] }>().conflicts, [])
  assert.equal(await state(), 'list: {"n":4}, object: [{"id":0,"n":2},{"id":1,"n":5}], added: {"in":{"n":3}}')
  const events = (await send(own.url, 'GET', '/events?collection=list')).json<{ type: string }[]>()
  assert.deepEqual(
    events.map(({ type }) => type),
    ['CollectionCreated', 'ItemCreated', 'ItemDeleted', 'CollectionRemoved', 'ObjectCreated'],
  )
  assert.equal((await sendJson(own.url, 'POST', '/api/list', { n: 1 })).status, 409)
  assert.equal((await sendJson(own.url, 'PUT', '/api/object', { n: 1 })).status, 400)
  await edit(own, (data) => Object.assign(data, { object: [] }))
  await edit(own, (data) => Object.assign(data, { object: {}, list: [] }))
  assert.equal(await state(), 'list: [], object: {}, added: {"in":{"n":3}}')
  const refused = await sendJson(own.url, 'POST', '/admin/restore', { to: 4, collection: 'object', id: 0 })
  assert.equal(refused.status, 409)
  await own.stop()
  assert.deepEqual(JSON.parse(await readFile(own.file, 'utf8')), { list: [], object: {}, added: { in: { n: 3 } } })
  const again = await startServer(t, { directory: own.directory })
  assert.equal((await send(again.url, 'GET', '/api/object')).text, '{}')
  assert.equal((await send(again.url, 'GET', '/api/added/in/n')).text, '3')
})

test('an edit of other members keeps what others deleted or wrote meanwhile', async (t) => {
  const own = await startServer(t, { data: { a: { n: 1 }, b: { n: 1 }, c: [] } })
  const edited = JSON.stringify({ a: { n: 1 }, b: { n: 2 }, c: [{ id: 5 }] })
  await send(own.url, 'DELETE', '/api/a')
  await send(own.url, 'DELETE', '/api/b')
  await writeFile(own.file, edited)
  const reply = await sendJson(own.url, 'POST', '/admin/reload', {})
  assert.deepEqual(reply.json<{ conflicts: unknown[] }>().conflicts, [{ collection: 'b', id: '' }])
  assert.deepEqual((await send(own.url, 'GET', '/api')).json(), ['b', 'c'])
  assert.equal((await send(own.url, 'GET', '/api/b')).text, '{"n":2}')
})

test('the JSON Schema of its name applies to it, over HTTP and in an edited data file', async () => {
  assert.equal((await put('/api/checked', { n: 1 })).status, 422)
  assert.equal((await put('/api/checked', { name: 'Grace' })).status, 204)
  const good = await readFile(server.file, 'utf8')
  const reply = await edit(server, (data) => Object.assign(data, { checked: { n: 1 } }))
  assert.equal(reply.status, 422)
  const { errors } = reply.json<{ errors: { pointer: string }[] }>()
  assert.deepEqual(
    errors.map(({ pointer }) => pointer),
    ['/checked'],
  )
  await writeFile(server.file, good)
})
