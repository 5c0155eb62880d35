import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { type TestContext, test } from 'node:test'
import { clock } from '../support/clock.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { type Reply, send, sendJson } from '../support/requests.ts'
import { type OwnServiceOptions, startHere } from '../support/service.ts'

type Item = Readonly<Record<string, unknown>>

const NOW = '2026-11-20T12:00:00.000Z'
const READINGS = '/api/readings'

function serve(t: TestContext, settings: object, others: object = {}, now?: () => Date) {
  const Collections = { readings: { Time: 't', ...settings }, ...others }
  const flags = ['--Collections', JSON.stringify(Collections), '--Api.UpsertOnPut', 'true']
  return startHere(t, { data: { readings: [] }, flags, now: now ?? (() => new Date(NOW)) })
}

function hintOf(reply: Reply): string | undefined {
  return reply.headers['recollect-hint'] as string | undefined
}

test('an item without a readable event time is stored with a hint, by every kind of write', async (t) => {
  const { url } = await serve(t, {})
  const fine = await sendJson(url, 'POST', READINGS, { t: 1_795_176_000 })
  assert.deepEqual([fine.status, hintOf(fine)], [201, undefined])
  const missing = await sendJson(url, 'POST', READINGS, { n: 1 })
  assert.equal(missing.status, 201)
  assert.equal(hintOf(missing), 'The item has no valid event time: "t" is missing.')
  const unreadable = /^The item has no valid event time: "t" must be ISO 8601, .*, not "11\/25\/2026"\.$/
  assert.match(hintOf(await sendJson(url, 'PUT', `${READINGS}/0`, { t: '11/25/2026' })) ?? '', unreadable)
  assert.match(hintOf(await sendJson(url, 'PUT', `${READINGS}/up`, { t: '11/25/2026' })) ?? '', unreadable)
  const patch = { headers: { 'Content-Type': 'application/merge-patch+json' }, body: '{"t":["2026-11-20"]}' }
  assert.match(hintOf(await send(url, 'PATCH', `${READINGS}/0`, patch)) ?? '', /not \["2026-11-20"\]\.$/)
  assert.match(hintOf(await sendJson(url, 'PUT', `${READINGS}/0/t`, 'soon')) ?? '', /not "soon"\.$/)
  const batch = await sendJson(url, 'POST', READINGS, [{ t: NOW }, { t: true }, {}, { t: '20261120' }])
  assert.deepEqual([batch.status, batch.json()], [201, { ids: [2, 3, 4, 5] }])
  assert.match(hintOf(batch) ?? '', /^2 of 4 items have no valid event time; of the first: "t" must be .*, not true\.$/)
  const both = hintOf(await sendJson(url, 'POST', READINGS, { id: 'C8:25' })) ?? ''
  assert.match(both, /^The id "C8:25" was replaced by 6\. .* The item has no valid event time: "t" is missing\.$/)
  const other = await sendJson(url, 'POST', '/api/notes', { n: 1 })
  assert.deepEqual([other.status, hintOf(other)], [201, undefined])
})

test('TimeRequired refuses items without a valid event time with 422, one by one in a lenient batch', async (t) => {
  const { url } = await serve(t, { TimeRequired: true, MaxAhead: '1h' })
  for (const [body, why] of [
    [{ n: 1 }, /the field \\"t\\" is missing/],
    [{ t: null }, /not null/],
    [{ t: 'soon' }, /not \\"soon\\"|not .*soon/],
    [{ t: '2026-11-20T13:00:01Z' }, /more than 3600 seconds ahead of the server's clock/],
  ] as const) {
    const refused = await sendJson(url, 'POST', READINGS, body)
    assert.equal(refused.status, 422, refused.text)
    assert.match(refused.text, why)
    assert.match(refused.text, /"pointer":"\/t"/)
  }
  assert.equal((await sendJson(url, 'POST', READINGS, { t: '2026-11-20 13:00' })).status, 201)
  assert.equal((await sendJson(url, 'PUT', `${READINGS}/0`, { n: 2 })).status, 422)
  assert.equal((await sendJson(url, 'PUT', `${READINGS}/0/t`, 'soon')).status, 422)
  assert.equal((await sendJson(url, 'POST', READINGS, [{ t: NOW }, {}])).status, 422)
  const headers = { 'Content-Type': 'application/json', Prefer: 'handling=lenient' }
  const lenient = await send(url, 'POST', READINGS, { headers, body: JSON.stringify([{ t: NOW }, {}]) })
  assert.deepEqual(
    lenient.json<{ results: { status: string }[] }>().results.map(({ status }) => status),
    ['created', 'rejected'],
  )
  assert.equal((await send(url, 'GET', READINGS)).json<Item[]>().length, 2)
})

test('TimeDefault writes the time of receipt where an item has no event time', async (t) => {
  const { now, pass } = clock(NOW)
  const { url } = await serve(t, { Time: 'data.t', TimeDefault: 'received', Key: ['mac', 'data.t'] }, {}, now)
  const posted = await sendJson(url, 'POST', READINGS, { mac: 'a', data: { n: 1 } })
  assert.deepEqual([posted.status, hintOf(posted)], [201, undefined])
  await sendJson(url, 'POST', READINGS, { mac: 'a' })
  pass(1000)
  await sendJson(url, 'POST', READINGS, [
    { mac: 'a', data: { t: null } },
    { mac: 'a', data: { t: 5 } },
  ])
  const items = (await send(url, 'GET', READINGS)).json<Item[]>()
  assert.deepEqual(
    items,
    [
      { id: 0, mac: 'a', data: { n: 1, t: NOW } },
      { id: 1, mac: 'a', data: { t: '2026-11-20T12:00:00.000001Z' } },
      { id: 2, mac: 'a', data: { t: '2026-11-20T12:00:01.000Z' } },
      { id: 3, mac: 'a', data: { t: 5 } },
    ],
    'each has its own, also in one millisecond, so that none has the natural key of another',
  )
  pass(1000)
  await sendJson(url, 'PUT', `${READINGS}/0`, { mac: 'a', data: 'off' })
  assert.deepEqual(
    (await send(url, 'GET', `${READINGS}/0`)).json(),
    { id: 0, mac: 'a', data: 'off' },
    'there is no place for it',
  )
})

test('a batch of a device without a clock is stored whole, and its last reading is the latest', async (t) => {
  const Latest = { in: 'latest', by: 'mac' }
  const { url } = await serve(t, { TimeDefault: 'received', Key: ['mac', 't'], Latest })
  const posted = await sendJson(
    url,
    'POST',
    READINGS,
    Array.from({ length: 1500 }, (_, n) => ({ mac: 'a', n })),
  )
  assert.equal(new Set(posted.json<{ ids: number[] }>().ids).size, 1500)
  assert.equal((await send(url, 'GET', '/api/latest/a')).json<Item>().n, 1499)
  const { n } = (await send(url, 'GET', `${READINGS}?newestBy=mac`)).json<Item[]>()[0] as Item
  assert.equal(n, 1499)
})

test('a PATCH is no receipt: it leaves an item without an event time as it is', async (t) => {
  const { url } = await startHere(t, {
    data: { readings: [{ id: 1 }] },
    flags: ['--Collections', JSON.stringify({ readings: { Time: 't', TimeDefault: 'received' } })],
  })
  const patch = { headers: { 'Content-Type': 'application/merge-patch+json' }, body: '{"note":"x"}' }
  const patched = await send(url, 'PATCH', `${READINGS}/1`, patch)
  assert.match(hintOf(patched) ?? '', /"t" is missing/)
  assert.deepEqual((await send(url, 'GET', `${READINGS}/1`)).json(), { id: 1, note: 'x' })
})

test('an event time that is no instant is found by its value, and DELETE with ne spares it', async (t) => {
  const { url } = await serve(t, {})
  await sendJson(url, 'POST', READINGS, [{ t: NOW }, { t: '11/25/2026' }, { t: null }, { t: '' }, {}])
  const found = async (search: string) =>
    (await send(url, 'GET', `${READINGS}?${search}`)).json<Item[]>().map(({ id }) => id)
  assert.deepEqual(await found('t=11/25/2026'), [1])
  assert.deepEqual(await found('t=null'), [2])
  assert.deepEqual(await found('t='), [3])
  assert.deepEqual(await found('t_in=11/25/2026,null,1795176000'), [0, 1, 2])
  assert.deepEqual(await found('t_ne=11/25/2026&t_ne=null'), [0, 3])
  const deleted = await send(url, 'DELETE', `${READINGS}?t_ne=null&t_ne=`)
  assert.deepEqual(deleted.json<{ ids: number[] }>().ids, [0, 1])
})

test('a year alone is no end of a range, as it would be read as seconds', async (t) => {
  const { url } = await serve(t, {})
  for (const search of ['t_gte=2026', 't_lt=1999']) {
    for (const method of ['GET', 'DELETE']) assert.equal((await send(url, method, `${READINGS}?${search}`)).status, 400)
  }
  assert.equal((await send(url, 'GET', `${READINGS}?t_gte=2026-01-01`)).status, 200)
  assert.equal((await send(url, 'GET', `${READINGS}?t_gte=0`)).status, 200)
})

test('a compact date is the same date in CSV, in JSON and in a filter', async (t) => {
  const { url } = await serve(t, {})
  const csv = { headers: { 'Content-Type': 'text/csv' }, body: 't,n\r\n20261120,1\r\n2026-11-20,2\r\n' }
  assert.equal(hintOf(await send(url, 'POST', READINGS, csv)), undefined)
  await sendJson(url, 'POST', READINGS, { t: 20_261_120, n: 3 })
  const found = (await send(url, 'GET', `${READINGS}?t=20261120`)).json<Item[]>()
  assert.deepEqual(
    found.map(({ n }) => n),
    [1, 2, 3],
  )
})

test('a repeated batch without event times is recognized by its Idempotency-Key', async (t) => {
  const { now, pass } = clock(NOW)
  const { url } = await serve(t, { TimeDefault: 'received' }, {}, now)
  const body = JSON.stringify([{ n: 1 }, { n: 2 }])
  const post = () =>
    send(url, 'POST', READINGS, { headers: { 'Content-Type': 'application/json', 'Idempotency-Key': 'k' }, body })
  const first = await post()
  pass(1000)
  const again = await post()
  assert.deepEqual([again.status, again.json()], [first.status, first.json()])
  assert.equal((await send(url, 'GET', READINGS)).json<Item[]>().length, 2)
})

test('a reading that is ahead of the clock is stored with a hint and is never the latest', async (t) => {
  const { now, pass } = clock(NOW)
  const { url } = await serve(t, { Latest: { in: 'latest', by: 'mac' } }, {}, now)
  const latest = async () => (await send(url, 'GET', '/api/latest/a')).json<Item>().n
  await sendJson(url, 'POST', READINGS, { mac: 'a', t: NOW, n: 1 })
  const ahead = await sendJson(url, 'POST', READINGS, { mac: 'a', t: '2027-11-20', n: 2 })
  assert.equal(ahead.status, 201)
  assert.match(hintOf(ahead) ?? '', /more than 86400 seconds ahead of the server's clock, 2026-11-20T12:00:00.000Z\.$/)
  assert.equal(await latest(), 1)
  await sendJson(url, 'POST', READINGS, { mac: 'a', t: '2026-11-21T11:59:59Z', n: 3 })
  assert.equal(await latest(), 3, 'a clock may be ahead by a day')
  const headers = { 'Content-Type': 'application/json', Prefer: 'only-if-newer' }
  const put = (item: object) => send(url, 'PUT', '/api/latest/a', { headers, body: JSON.stringify(item) })
  assert.deepEqual((await put({ t: '2027-11-20', n: 4 })).json(), { applied: false })
  assert.equal((await put({ t: '2026-11-21T12:00:00Z', n: 5 })).status, 204)
  // The clock is set back: what follows the last event in time is not ahead.
  pass(-3 * 86_400_000)
  assert.equal(hintOf(await sendJson(url, 'POST', READINGS, { mac: 'a', t: '2026-11-21T11:00:00Z', n: 6 })), undefined)
})

test('a latest item keeps the members that a reading does not have', async (t) => {
  const { url } = await serve(t, { Latest: { in: 'latest', by: 'mac' } })
  const latest = async () => (await send(url, 'GET', '/api/latest/a')).json<Item>()
  await sendJson(url, 'POST', READINGS, { mac: 'a', t: 1000, n: 1, extra: { x: 1 } })
  const merge = {
    headers: { 'Content-Type': 'application/merge-patch+json' },
    body: '{"name":"Sauna","limits":{"high":90}}',
  }
  assert.equal((await send(url, 'PATCH', '/api/latest/a', merge)).status, 204)
  await sendJson(url, 'POST', READINGS, { mac: 'a', t: '1970-01-01 00:20', n: 2, limits: 'no' })
  assert.deepEqual(await latest(), {
    id: 'a',
    mac: 'a',
    t: '1970-01-01 00:20',
    n: 2,
    extra: { x: 1 },
    name: 'Sauna',
    limits: 'no',
  })
  // A correction takes away what only the corrected reading had.
  await sendJson(url, 'PUT', `${READINGS}/1`, { mac: 'a', t: '1970-01-01 00:20', n: 3 })
  assert.deepEqual(await latest(), { id: 'a', mac: 'a', t: '1970-01-01 00:20', n: 3, extra: { x: 1 }, name: 'Sauna' })
  await sendJson(url, 'PUT', `${READINGS}/0`, { mac: 'a', t: '1970-01-01 00:20', n: 9 })
  assert.equal((await latest()).n, 3, 'another reading of the same time is not a correction')
  await send(url, 'PATCH', '/api/latest/a', { ...merge, body: '{"n":7}' })
  await sendJson(url, 'PUT', `${READINGS}/1`, { mac: 'a', t: '1970-01-01 00:20', n: 4 })
  assert.equal((await latest()).n, 7, 'an item that was changed itself is not made from the reading')
})

test('latest items are compared by the event time of their readings', async (t) => {
  const { url } = await serve(t, { Latest: { in: 'latest', by: 'mac' } })
  const hour = Date.parse(NOW) / 1000 - 3600
  await sendJson(url, 'POST', READINGS, [
    { mac: 'old', t: '2026-11-01' },
    { mac: 'new', t: String(hour) },
    { mac: 'ms', t: hour * 1000 },
  ])
  const found = async (search: string) =>
    (await send(url, 'GET', `/api/latest?${search}`)).json<Item[]>().map(({ id }) => id)
  assert.deepEqual(await found('t_gte=now-24h'), ['new', 'ms'])
  assert.deepEqual(await found('t_lt=now-24h'), ['old'])
  assert.deepEqual(await found('sort=-t,mac'), ['ms', 'new', 'old'])
})

test('a relative time on a field that is no event time is 400 and names the setting', async (t) => {
  const { url } = await serve(t, {})
  for (const search of ['at_gte=now-24h', 'at_lt=now', 'id_gt=now-1y', 'data.t_lte=now+1h', 'views:gt=now-1d']) {
    for (const method of ['GET', 'DELETE']) {
      const refused = await send(url, method, `${READINGS}?${search}`)
      assert.equal(refused.status, 400, search)
      assert.match(refused.text, /Collections\.<name>\.Time/)
    }
  }
  assert.equal((await send(url, 'GET', `${READINGS}?title=now-or-never`)).status, 200)
})

test('DELETE by event time deletes the old readings of every spelling, and no others', async (t) => {
  const { url } = await serve(t, {})
  const today = [Date.parse(NOW) / 1000, Date.parse(NOW), '2026-11-20 11:00', '20261120', `${Date.parse(NOW)}000`]
  const old = [Date.parse('2024-11-20') / 1000, '2024-11-20', '20241120', '2024-11-20 10:00+02:00']
  const never = ['11/25/2026', 'n/a', [NOW], null]
  await sendJson(
    url,
    'POST',
    READINGS,
    [...today, ...old, ...never].map((at) => ({ t: at })),
  )
  const deleted = await send(url, 'DELETE', `${READINGS}?t_lt=now-30d`)
  assert.equal(deleted.json<{ deleted: number }>().deleted, old.length)
  const left = (await send(url, 'GET', READINGS)).json<Item[]>().map((item) => item.t)
  assert.deepEqual(left, [...today, ...never])
})

test('an item that is sent again with its event time in another spelling has the same natural key', async (t) => {
  const { url } = await serve(t, { Key: ['mac', 't'], OnConflict: 'replace' })
  for (const at of ['2026-11-20T12:00:00Z', 1_795_176_000, '2026-11-20 14:00:00+02:00', 1_795_176_000_000]) {
    const reply = await sendJson(url, 'POST', READINGS, { mac: 'a', t: at })
    assert.deepEqual(reply.json(), { id: 0 }, String(at))
  }
  for (const at of ['n/a', 'soon']) await sendJson(url, 'POST', READINGS, { mac: 'a', t: at })
  assert.equal((await send(url, 'GET', READINGS)).json<Item[]>().length, 3, 'other texts are different keys')
})

test('a clock that jumps by more than a day is shown in /health', async (t) => {
  const { now, pass } = clock(NOW)
  const { url } = await serve(t, {}, {}, now)
  const jump = async () => (await send(url, 'GET', '/health')).json<{ clock?: unknown }>().clock
  pass(23 * 3_600_000)
  assert.equal(await jump(), undefined)
  pass(25 * 3_600_000)
  const forth = (await jump()) as { at: string; seconds: number }
  assert.deepEqual([forth.at, Math.abs(forth.seconds - 90_000) < 3600], [now().toISOString(), true])
  pass(-400 * 86_400_000)
  assert.ok(((await jump()) as { seconds: number }).seconds < -399 * 86_400)
})

test('readings with ever new members do not make the latest item grow without end', async (t) => {
  const { url } = await startHere(t, {
    data: { readings: [] },
    flags: [
      '--Collections',
      JSON.stringify({ readings: { Time: 't', Latest: { in: 'latest', by: 'mac' } } }),
      '--Limits.BodyBytes',
      '1000',
    ],
  })
  for (let n = 1; n <= 20; n++) {
    const posted = await sendJson(url, 'POST', READINGS, { mac: 'a', t: n, [`m${n}`]: 'x'.repeat(100) })
    assert.equal(posted.status, 201)
    const { text } = await send(url, 'GET', '/api/latest/a')
    assert.ok(text.length <= 1000 && text.includes(`"m${n}"`), text)
  }
})

/** Starts a service, and ends it after the work. */
async function whileServing(options: OwnServiceOptions, work: (url: string) => Promise<void>): Promise<void> {
  const ends: (() => unknown)[] = []
  const { url } = await startHere({ after: (end) => void ends.push(end) }, options)
  try {
    await work(url)
  } finally {
    for (const end of ends) await end()
  }
}

const flagsOf = (readings: object) => ['--Collections', JSON.stringify({ readings })]

test('a data file, or an edit of it, with an item that TimeRequired refuses is not imported', async (t) => {
  const flags = flagsOf({ Time: 't', TimeRequired: true })
  const wrong = {
    readings: [
      { id: 0, t: NOW },
      { id: 1, t: 'soon' },
    ],
  }
  const now = () => new Date(NOW)
  await assert.rejects(
    startHere(t, { data: wrong, flags, now }),
    /At \/readings\/1\/t: the event time must be ISO 8601/,
  )
  const { url, file } = await startHere(t, { data: { readings: [{ id: 0, t: NOW }] }, flags, now })
  await writeFile(file, JSON.stringify(wrong))
  const reload = await send(url, 'POST', '/admin/reload')
  assert.equal(reload.status, 422, reload.text)
  assert.match(reload.text, /the event time must be ISO 8601/)
  assert.equal((await send(url, 'GET', READINGS)).json<Item[]>().length, 1)
})

test('natural keys are built again after Time was set, and spellings of one instant are then a conflict', async (t) => {
  const directory = await temporaryDirectory(t)
  const Key = ['mac', 't']
  await whileServing({ directory, data: { readings: [] }, flags: flagsOf({ Key }) }, async (url) => {
    await sendJson(url, 'POST', READINGS, [
      { mac: 'a', t: NOW },
      { mac: 'b', t: NOW },
    ])
    assert.equal((await sendJson(url, 'POST', READINGS, { mac: 'a', t: 1_795_176_000 })).status, 201)
  })
  const flags = flagsOf({ Key, Time: 't' })
  await assert.rejects(startHere(t, { directory, flags }), /"0" and "2" of "readings" have the same natural key/)
  await whileServing({ directory, flags: flagsOf({ Key }) }, async (url) => {
    assert.equal((await send(url, 'DELETE', `${READINGS}/2`)).status, 204)
  })
  await whileServing({ directory, flags }, async (url) => {
    assert.equal((await sendJson(url, 'POST', READINGS, { mac: 'b', t: 1_795_176_000 })).status, 409)
  })
})

test('a clock that is far behind the last event at the start is shown in /health and logged', async (t) => {
  const directory = await temporaryDirectory(t)
  const at = (text: string) => ({ directory, now: () => new Date(text) })
  await whileServing({ ...at(NOW), data: { readings: [] } }, async (url) => {
    await sendJson(url, 'POST', READINGS, { n: 1 })
  })
  const { url, log } = await startHere(t, at('2026-11-18T12:00:00.000Z'))
  const { clock: jump } = (await send(url, 'GET', '/health')).json<{ clock: unknown }>()
  assert.deepEqual(jump, { at: '2026-11-18T12:00:00.000Z', seconds: -172_800 })
  assert.equal(log.filter((line) => line.includes('has jumped by more than a day')).length, 1)
})
