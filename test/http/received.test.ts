import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Random, SEED } from '../support/random.ts'
import { send } from '../support/requests.ts'
import { startHere } from '../support/service.ts'

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
