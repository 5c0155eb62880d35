import assert from 'node:assert/strict'
import { test } from 'node:test'
import { authentication, keyOf } from '../support/authentication.ts'
import { type Reply, send } from '../support/requests.ts'
import { startHere } from '../support/service.ts'

const flagsOf = (more: object = {}) => [
  '--Collections',
  JSON.stringify({ readings: { Key: ['mac', 'timestamp'], ...more } }),
]

type Item = Record<string, unknown>

const reading = (mac: string, hour: number, n: number): Item => ({ mac, timestamp: `2026-01-01T0${hour}:00:00`, n })

function write(url: string, method: string, path: string, body: unknown, headers: object = {}): Promise<Reply> {
  const json = { 'Content-Type': 'application/json', ...headers }
  return send(url, method, path, { headers: json, ...(body !== undefined && { body: JSON.stringify(body) }) })
}

test('a reader learns nothing about natural keys, and a writer gets the same responses as without authentication', async (t) => {
  const flags = [...flagsOf(), ...authentication(['ApiKey'])]
  const { url } = await startHere(t, { data: { readings: [reading('a', 1, 1)] }, flags })
  const statusesOf = async (role: 'reader' | 'writer' | 'admin' | undefined) => {
    const headers = role ? { 'X-API-Key': keyOf(role) } : {}
    const sent = [reading('a', 1, 1), reading('a', 1, 2), [reading('a', 1, 1)], [reading('a', 1, 2)]]
    const replies = []
    for (const body of sent) replies.push(await write(url, 'POST', '/api/readings', body, headers))
    return replies.map(({ status }) => status)
  }
  assert.deepEqual(await statusesOf(undefined), [401, 401, 401, 401])
  assert.deepEqual(await statusesOf('reader'), [403, 403, 403, 403])
  assert.deepEqual(await statusesOf('writer'), [200, 409, 200, 409])
  assert.deepEqual(await statusesOf('admin'), [200, 409, 200, 409])
})

test('where items have their ids in another field, that field is not compared, and `id` is', async (t) => {
  const flags = [
    ...flagsOf(),
    '--DataStore.IdField',
    'key',
    '--Api.ClientIdsOnPost',
    'true',
    '--Api.UpsertOnPut',
    'true',
  ]
  const data = { readings: [{ key: 'x', id: 1, ...reading('a', 1, 1) }] }
  const { url } = await startHere(t, { data, flags })
  const again = await write(url, 'POST', '/api/readings', { id: 1, ...reading('a', 1, 1) })
  assert.deepEqual([again.status, again.json(), again.headers.location], [200, { key: 'x' }, '/api/readings/x'])
  const otherKey = await write(url, 'POST', '/api/readings', { key: 'y', id: 1, ...reading('a', 1, 1) })
  assert.deepEqual([otherKey.status, otherKey.json()], [200, { key: 'x' }])
  assert.equal((await write(url, 'POST', '/api/readings', { id: 2, ...reading('a', 1, 1) })).status, 409)
  assert.equal((await write(url, 'PUT', '/api/readings/y', { id: 1, ...reading('a', 1, 1) })).status, 409)
  assert.equal((await write(url, 'PUT', '/api/readings/x', { id: 2, ...reading('a', 2, 1) })).status, 204)
  assert.equal((await write(url, 'PUT', '/api/readings/y', { id: 1, ...reading('a', 1, 1) })).status, 201)
})

test('a restoring gives natural keys back, is refused where another item has one, and may exchange them', async (t) => {
  const { url } = await startHere(t, { data: { readings: [] }, flags: flagsOf() })
  const put = async (method: string, path: string, body?: Item) => {
    const reply = await write(url, method, path, body)
    assert.ok(reply.status < 300, reply.text)
    return Number(reply.headers['journal-position'])
  }
  const restored = (body: object) => write(url, 'POST', '/admin/restore', { collection: 'readings', ...body })
  const first = await put('POST', '/api/readings', reading('a', 1, 1))
  await put('POST', '/api/readings', reading('b', 1, 1))
  const both = await put('PUT', '/api/readings/1', reading('b', 1, 2))

  await put('DELETE', '/api/readings/0')
  assert.equal((await restored({ id: 0, to: first })).status, 200)
  assert.equal((await write(url, 'POST', '/api/readings', reading('a', 1, 1))).status, 200, 'it has its key again')

  await put('DELETE', '/api/readings/0')
  const taken = await put('POST', '/api/readings', reading('a', 1, 5))
  for (const isDryRun of [true, false]) {
    const refused = await restored({ id: 0, to: first, dryRun: isDryRun })
    assert.equal(refused.status, 409)
    assert.match(refused.json<{ detail: string }>().detail, /the items "2" and "0" would have the same natural key/)
  }
  assert.equal((await restored({ to: both })).status, 200, 'the item that has the key goes')
  assert.equal((await write(url, 'POST', '/api/readings', reading('a', 1, 5))).status, 409)
  assert.equal((await restored({ to: taken })).status, 200)
  assert.deepEqual((await write(url, 'POST', '/api/readings', reading('a', 1, 5))).json(), { id: 2 })

  // An exchange, and its restoring in one write.
  const before = await put('PUT', '/api/readings/1', reading('c', 1, 1))
  await put('PUT', '/api/readings/1', reading('d', 1, 1))
  await put('PUT', '/api/readings/2', reading('c', 1, 1))
  await put('PUT', '/api/readings/1', reading('a', 1, 5))
  assert.equal((await restored({ to: before })).status, 200)
  assert.deepEqual((await write(url, 'POST', '/api/readings', reading('c', 1, 1))).json(), { id: 1 })
  assert.deepEqual((await write(url, 'POST', '/api/readings', reading('a', 1, 5))).json(), { id: 2 })
})

test('asOf shows the item that had a natural key at that position, which another item may have now', async (t) => {
  const { url } = await startHere(t, { data: { readings: [] }, flags: flagsOf({ OnConflict: 'replace' }) })
  const posted = async (n: number) => write(url, 'POST', '/api/readings', reading('a', 1, n))
  const first = await posted(1)
  await write(url, 'DELETE', '/api/readings/0', undefined)
  assert.deepEqual([(await posted(2)).json(), (await posted(3)).status], [{ id: 1 }, 200])
  const then = await send(url, 'GET', `/api/readings?mac=a&asOf=${first.headers['journal-position']}`)
  assert.deepEqual(then.json(), [{ id: 0, ...reading('a', 1, 1) }])
  assert.deepEqual((await send(url, 'GET', '/api/readings?mac=a')).json(), [{ id: 1, ...reading('a', 1, 3) }])
})
