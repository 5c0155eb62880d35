import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { clock } from '../access/clock.ts'
import { authentication, basic } from '../support/authentication.ts'
import { send, sendJson } from '../support/requests.ts'
import { type OwnService, startHere } from '../support/service.ts'

const HOUR_MS = 3_600_000

interface Recorded {
  readonly position: number
  readonly time: string
}

/** Three writes: before the clock runs ahead by two hours, meanwhile, and after it was set back. */
async function setBack(t: TestContext): Promise<{ service: OwnService; now: () => string; times: readonly string[] }> {
  const { now, pass } = clock()
  const service = await startHere(t, { data: { a: [] }, now })
  await sendJson(service.url, 'POST', '/api/a', { n: 0 })
  pass(2 * HOUR_MS)
  await sendJson(service.url, 'POST', '/api/a', { n: 1 })
  pass(60_000 - 2 * HOUR_MS)
  await sendJson(service.url, 'POST', '/api/a', { n: 2 })
  const events = (await send(service.url, 'GET', '/events?from=2')).json<Recorded[]>()
  return { service, now: () => now().toISOString(), times: events.map(({ time }) => time) }
}

test('after a clock was set back, the time of an event selects the state after the last event of that time', async (t) => {
  const { service, now, times } = await setBack(t)
  const [before = '', ahead = '', repeated] = times
  assert.ok(before < now() && now() < ahead)
  assert.equal(repeated, ahead, 'a clock that is set back repeats the last time')
  for (const [moment, numbers] of [
    [before, [0]],
    [now(), [0]],
    [ahead, [0, 1, 2]],
  ] as const) {
    const reply = await send(service.url, 'GET', `/api/a?asOf=${moment}`)
    assert.equal(reply.status, 200, reply.text)
    assert.deepEqual(
      reply.json<{ n: number }[]>().map(({ n }) => n),
      numbers,
      moment,
    )
  }
  const later = new Date(Date.parse(ahead) + 1).toISOString()
  const refused = await send(service.url, 'GET', `/api/a?asOf=${later}`)
  assert.equal(refused.status, 400)
  assert.match(refused.text, /in the future/)
})

test('after a clock was set back, events are found by their times, and a restore works', async (t) => {
  const { service, times } = await setBack(t)
  const ahead = times[1] as string
  const positions = async (search: string) =>
    (await send(service.url, 'GET', `/events?${search}`)).json<Recorded[]>().map(({ position }) => position)
  assert.deepEqual(await positions(`since=${ahead}`), [3, 4])
  assert.deepEqual(await positions(`until=${ahead}`), [1, 2, 3, 4])
  const restored = await sendJson(service.url, 'POST', '/admin/restore', { to: ahead, dryRun: true })
  assert.equal(restored.status, 200, restored.text)
  assert.deepEqual(restored.json<{ changes: unknown[] }>().changes, [])
})

test('setting the clock back does not extend a lock-out', async (t) => {
  const { now, pass } = clock()
  const flags = authentication(['basic'], ['--Limits.FailuresPerMinute', '2'])
  const { url } = await startHere(t, { data: { a: [] }, now, flags })
  const ask = (password: string) => send(url, 'GET', '/api', { headers: { Authorization: basic('reader', password) } })
  for (let count = 0; count < 2; count++) assert.equal((await ask('wrong')).status, 401)
  pass(-2 * HOUR_MS)
  const refused = await ask('wrong')
  assert.equal(refused.status, 429)
  assert.ok(Number(refused.headers['retry-after']) <= 60, refused.headers['retry-after'])
})
