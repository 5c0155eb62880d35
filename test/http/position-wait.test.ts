import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Reply } from '../../src/http/exchange.ts'
import { waitForPosition } from '../../src/http/pipeline.ts'
import { Arrivals } from '../../src/projections/arrivals.ts'
import { apiRequest } from '../support/api.ts'
import { send, sendJson } from '../support/requests.ts'
import { startServer } from '../support/server.ts'

const { url } = await startServer(
  { after },
  { data: { things: [{ id: 1 }] }, flags: ['--Limits.WaitSeconds', '600', '--Api.UpsertOnPut', 'true'] },
)

async function position(): Promise<number> {
  return Number((await send(url, 'GET', '/api')).headers['journal-position'])
}

test('a read with a minimum position that is reached is answered at once', async () => {
  for (const path of ['/api', '/api/things', '/api/things/1', '/api/things/1/id']) {
    const reply = await send(url, 'GET', path, { headers: { 'Wait-For-Position': String(await position()) } })
    assert.equal(reply.status, 200)
  }
})

test('a read with a later minimum position waits for it', async () => {
  const next = (await position()) + 1
  const read = send(url, 'GET', '/api/things/2', { headers: { 'Wait-For-Position': String(next) } })
  await sendJson(url, 'PUT', '/api/things/2', { n: 2 })
  const reply = await read
  assert.equal(reply.status, 200)
  assert.equal(Number(reply.headers['journal-position']), next)
})

test('a position that is not reached in time gets 503 with Retry-After, and an invalid one gets 400', async (t) => {
  const impatient = await startServer(t, { data: { things: [] }, flags: ['--Limits.WaitSeconds', '1'] })
  for (const method of ['GET', 'HEAD']) {
    const late = await send(impatient.url, method, '/api/things', { headers: { 'Wait-For-Position': '1000' } })
    assert.equal(late.status, 503)
    assert.equal(late.headers['retry-after'], '1')
    if (method === 'GET') assert.equal(late.json<{ type: string }>().type, 'urn:recollect:problem:Lagging')
  }
  for (const wrong of ['-1', 'x', '1.5', '', '9'.repeat(30)]) {
    const reply = await send(url, 'GET', '/api/things', { headers: { 'Wait-For-Position': wrong } })
    assert.equal(reply.status, 400, wrong)
  }
})

test('at most a thousand reads wait for a position; others are rejected at once', async () => {
  let position = 1
  const arrivals = new Arrivals()
  const wait = waitForPosition({ position: () => position, arrivals, waitSeconds: 3600 })
  const ask = async () => {
    await wait(apiRequest('/api', '', { 'wait-for-position': '2' }), new Reply())
    return position
  }
  const waiting = Array.from({ length: 1000 }, ask)
  await assert.rejects(ask(), { code: 'Lagging' })
  position = 2
  arrivals.apply()
  assert.deepEqual(new Set(await Promise.all(waiting)), new Set([2]))
  position = 1
  const later = ask()
  position = 2
  arrivals.apply()
  assert.equal(await later, 2)
})
