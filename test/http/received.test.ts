import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { authentication, basic } from '../support/authentication.ts'
import { clock } from '../support/clock.ts'
import { Random, SEED } from '../support/random.ts'
import { send, sendJson } from '../support/requests.ts'
import { type OwnService, startHere } from '../support/service.ts'

type Item = Record<string, unknown>

test('items can be filtered, sorted and selected by the time at which the journal received their last event', async (t) => {
  let nowMs = Date.parse('2026-01-01T00:00:00.000Z')
  const { url } = await startHere(t, {
    data: { readings: [] },
    flags: ['--Api.UpsertOnPut', 'true'],
    now: () => new Date(nowMs),
  })
  const random = new Random(SEED)
  const model = new Map<number, { item: Item; received: number }>()
  const past: { position: string; model: [number, { item: Item; received: number }][]; nowMs: number }[] = []
  const get = async (search: string) => {
    const reply = await send(url, 'GET', `/api/readings?${search}`)
    assert.equal(reply.status, 200, reply.text)
    return reply
  }
  for (let step = 0; step < 40; step++) {
    nowMs += random.integer(3) * 60_000
    const id = random.integer(12)
    const item = { id, clock: `20${random.integer(90) + 10}-01-01T00:00:00`, n: random.integer(3) }
    const isDeleted = random.chance(0.15)
    const reply = await send(url, isDeleted ? 'DELETE' : 'PUT', `/api/readings/${id}`, {
      headers: { 'Content-Type': 'application/json' },
      ...(!isDeleted && { body: JSON.stringify(item) }),
    })
    if (!isDeleted) {
      const before = model.get(id)
      // An item that is put again keeps its place in the list, one that was deleted gets another.
      if (before) Object.assign(before, { item, received: nowMs })
      else model.set(id, { item, received: nowMs })
    } else if (model.delete(id)) assert.equal(reply.status, 204)
    const position = String(reply.headers['journal-position'] ?? past.at(-1)?.position ?? 1)
    if (reply.status < 300) past.push({ position, nowMs, model: structuredClone([...model]) })
  }
  const iso = (ms: number) => new Date(ms).toISOString()
  for (let ask = 0; ask < 40; ask++) {
    const then = random.chance(0.5) ? random.pick(past) : undefined
    const of = then?.model ?? [...model]
    const at = then ? `&asOf=${then.position}` : ''
    const context = `ask ${ask}${at}, SEED=${SEED}`
    const all = of.map(([, one]) => one)
    const minutes = random.integer(60)
    const since = (then ? then.nowMs : nowMs) - minutes * 60_000
    const recent = all.filter(({ received }) => received >= since)
    const filtered = (await get(`$received_gte=${random.chance(0.5) ? `now-${minutes}m` : iso(since)}${at}`)).json<
      Item[]
    >()
    assert.deepEqual(
      filtered,
      recent.map(({ item }) => item),
      context,
    )
    const n = random.integer(3)
    const both = (await get(`$received_lt=${iso(since)}&n=${n}${at}`)).json<Item[]>()
    assert.deepEqual(
      both,
      all.filter(({ item, received }) => received < since && item.n === n).map(({ item }) => item),
      context,
    )
    const ascending = [...all].sort((a, b) => a.received - b.received)
    const sorted = (await get(`sort=$received&fields=id,$received${at}`)).json<Item[]>()
    assert.deepEqual(
      sorted,
      ascending.map(({ item, received }) => ({ id: item.id, $received: iso(received) })),
      context,
    )
    const descending = [...all].sort((a, b) => b.received - a.received)
    const page = (await get(`sort=-$received&take=3&skip=2${at}`)).json<Item[]>()
    assert.deepEqual(
      page,
      descending.slice(2, 5).map(({ item }) => item),
      context,
    )
  }
  const csv = await send(url, 'GET', '/api/readings?fields=id,$received&sort=-$received&take=1', {
    headers: { Accept: 'text/csv' },
  })
  const [newest] = [...model.values()].sort((a, b) => b.received - a.received)
  assert.equal(csv.text.trim(), `id,$received\r\n${newest?.item.id},${iso(newest?.received ?? 0)}`)
  const counted = (await get('aggregate=count,max($received)')).json<Item[]>()
  assert.deepEqual(counted, [{ count: model.size, 'max($received)': iso(newest?.received ?? 0) }])
  assert.deepEqual((await get(`$received_gte=now-0m`)).headers.etag, undefined, 'what is relative to now is not cached')
})

test('q and embedded items are the same in a query that names the time of the last event', async (t) => {
  const nowMs = Date.parse('2026-01-01T00:00:00.000Z')
  const data = { readings: [{ id: 1, sensorId: 2, name: 'warm' }], sensors: [{ id: 2 }] }
  const { url } = await startHere(t, { data, now: () => new Date(nowMs) })
  const get = async (search: string) => (await send(url, 'GET', `/api/readings?${search}`)).json<Item[]>()
  for (const more of ['', '&sort=-$received', '&fields=id,$received']) {
    assert.deepEqual(await get(`q=2026-01${more}`), [], more)
    assert.equal((await get(`q=warm${more}`)).length, 1, more)
  }
  const $received = '2026-01-01T00:00:00.000Z'
  assert.deepEqual(await get('fields=id,$received&_expand=sensor'), [{ id: 1, $received, sensor: { id: 2 } }])
})

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
