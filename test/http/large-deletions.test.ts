import assert from 'node:assert/strict'
import { request as httpRequest } from 'node:http'
import { after, type TestContext, test } from 'node:test'
import { connect } from '../../src/client/index.ts'
import { once, until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { headOf, type Reply, send } from '../support/requests.ts'
import { startHere } from '../support/service.ts'

const COUNT = 2000
const PART = 20
const FLAGS = ['--Limits.AtomicItems', String(PART)]

const readings = Array.from({ length: COUNT }, (_, id) => ({ id, sensorId: id % 2 }))
const DATA = { readings, sensors: [{ id: 0 }, { id: 1 }] }
const { url } = await startHere({ after }, { data: { ...DATA, others: readings, more: readings }, flags: FLAGS })

const remove = (path: string, headers: Record<string, string> = {}, at = url): Promise<Reply> =>
  send(at, 'DELETE', path, { headers })

async function countOf(name: string, at = url): Promise<number> {
  const { headers } = await send(at, 'GET', `/api/${name}?pageSize=1`)
  return Number(headers['x-total-count'])
}

test('DELETE of many items answers with the number of writes and the ids of the first, and a retry gets the same', async () => {
  const key = { 'Idempotency-Key': 'many' }
  const reply = await remove('/api/readings?sensorId=0', key)
  assert.equal(reply.status, 200)
  const ids = readings.filter(({ sensorId }) => sensorId === 0).map(({ id }) => id)
  const expected = { deleted: COUNT / 2, dryRun: false, writes: COUNT / 2 / PART, ids: ids.slice(0, PART) }
  assert.deepEqual(reply.json(), expected)
  assert.equal(reply.headers['journal-position'], String(await headOf(url)))
  const again = await remove('/api/readings?sensorId=0', key)
  assert.deepEqual([again.text, again.headers['journal-position']], [reply.text, reply.headers['journal-position']])
  assert.equal((await remove('/api/readings?sensorId=1', key)).status, 422)
  assert.equal((await remove('/api/readings?sensorId=0', { ...key, Prefer: 'atomic' })).status, 422)
  assert.equal(await countOf('readings'), COUNT / 2)
})

test('Prefer: atomic deletes any number of items in one write, also with the client and with dependents', async () => {
  const reply = await remove('/api/others?id_lt=100', { Prefer: 'atomic' })
  assert.equal(reply.headers['preference-applied'], 'atomic')
  assert.equal(reply.json<{ writes: number }>().writes, 1)
  const others = connect(url).collection<{ id: number; sensorId: number }>('others')
  const several = await others.where({ id_lt: 150 }).deleteAll()
  assert.deepEqual([several.deleted, several.writes, several.ids.length], [50, 3, PART])
  const one = await others.where({ id_lt: 200 }).deleteAll({ atomic: true })
  assert.deepEqual([one.deleted, one.writes, one.ids.length], [50, 1, 50])

  const { 'journal-position': before } = (await send(url, 'HEAD', '/api')).headers
  const dependents = await remove('/api/sensors/1?_dependent=readings', { Prefer: 'atomic' })
  assert.deepEqual([dependents.status, dependents.headers['preference-applied']], [204, 'atomic'])
  const events = await send(url, 'GET', `/events?from=${Number(before) + 1}&limit=10000`)
  const times = new Set(events.json<{ time: string }[]>().map(({ time }) => time))
  assert.equal(times.size, 1)
})

test('DELETE of a large collection tells whether it was removed', async () => {
  const whole = (await remove('/api/more?all=true')).json()
  const ids = readings.map(({ id }) => id).slice(0, PART)
  assert.deepEqual(whole, { deleted: COUNT, dryRun: false, writes: COUNT / PART, removed: true, ids })
  assert.equal((await send(url, 'GET', '/api/more')).status, 404)
})

test('an Idempotency-Key that ends as those of parts in the journal is rejected', async () => {
  const { status, text } = await remove('/api/others?id=0', { 'Idempotency-Key': 'a:part' })
  assert.equal(status, 400)
  assert.match(text, /An Idempotency-Key does not end with \\":part\\"/)
})

/** A server of its own, and a DELETE of all readings whose response is not awaited. */
async function deleting(t: TestContext, part: number) {
  const directory = await temporaryDirectory(t)
  const flags = ['--Limits.AtomicItems', String(part)]
  const server = await startHere(t, { directory, data: DATA, flags })
  const key = { 'Idempotency-Key': 'k', Host: 'localhost' }
  const request = httpRequest(`${server.url}/api/readings?id_gte=0`, { method: 'DELETE', headers: key, agent: false })
  request.on('error', () => {})
  request.end()
  await until('the first deletions', async () => (await countOf('readings', server.url)) < COUNT)
  return { directory, server, request, key }
}

test('a deletion continues when its client disconnects', async (t) => {
  const { server, request } = await deleting(t, PART)
  request.destroy()
  await until('the last deletion', async () => (await countOf('readings', server.url)) === 0)
})

test('a stop interrupts a deletion with 503 and what was done, and a retry after the start counts all', async (t) => {
  // Enough writes that the stop comes before the last of them.
  const part = 2
  const { directory, server, request, key } = await deleting(t, part)
  const responded = once(request, 'response')
  await Promise.all([responded, server.stop()])
  const [response] = await responded
  let text = ''
  for await (const part of response) text += part
  const { type, detail, deleted, writes } = JSON.parse(text)
  assert.deepEqual([response.statusCode, type], [503, 'urn:recollect:problem:Unavailable'])
  assert.ok(deleted > 0 && deleted < COUNT && writes === deleted / part, text)
  assert.equal(detail, `${deleted} items were deleted, in ${writes} writes; the next one failed: The server is ending.`)
  const again = await startHere(t, { directory })
  assert.equal(await countOf('readings', again.url), COUNT - deleted)
  const reply = (await remove('/api/readings?id_gte=0', key, again.url)).json<{ deleted: number; writes: number }>()
  assert.deepEqual([reply.deleted, reply.writes], [COUNT, writes + 1])
})
