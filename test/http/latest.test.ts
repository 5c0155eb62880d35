import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { test } from 'node:test'
import { until } from '../support/deadline.ts'
import { Random, SEED } from '../support/random.ts'
import { type Reply, send } from '../support/requests.ts'
import { startHere } from '../support/service.ts'

type Item = Record<string, unknown>

const FLAGS = [
  '--Collections',
  JSON.stringify({
    sensordatas: { Time: 'timestamp', Latest: { in: 'sensors', by: 'mac' } },
    sensors: { Time: 'timestamp' },
  }),
  '--Api.UpsertOnPut',
  'true',
]

function write(url: string, method: string, path: string, body?: unknown, headers: object = {}): Promise<Reply> {
  return send(url, method, path, {
    headers: { ...(body !== undefined && { 'Content-Type': 'application/json' }), ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
}

const reading = (mac: string, minute: number, temperature: number): Item => ({
  mac,
  timestamp: `2026-01-01T01:${String(minute).padStart(2, '0')}:00`,
  temperature,
})

async function itemsOf(url: string, name: string): Promise<Item[]> {
  const reply = await send(url, 'GET', `/api/${name}?pageSize=10000`)
  return reply.status === 404 ? [] : reply.json<Item[]>()
}

test('one POST stores a reading and the latest item of its sensor in one write', async (t) => {
  const { url } = await startHere(t, { data: { sensordatas: [] }, flags: FLAGS })
  const posted = await write(url, 'POST', '/api/sensordatas', reading('a', 5, 20), { 'X-Request-Id': 'one' })
  assert.deepEqual([posted.status, posted.json()], [201, { id: 0 }])
  assert.deepEqual(await itemsOf(url, 'sensors'), [{ ...reading('a', 5, 20), id: 'a' }])
  const events = (await send(url, 'GET', '/events')).json<Item[]>()
  assert.deepEqual(
    events.filter(({ requestId }) => requestId === 'one').map(({ type, collection, id }) => [type, collection, id]),
    [
      ['CollectionCreated', 'sensors', undefined],
      ['ItemCreated', 'sensors', 'a'],
      ['ItemCreated', 'sensordatas', 0],
    ],
  )
  const deleted = await write(url, 'DELETE', '/api/sensordatas/0')
  assert.equal(deleted.status, 204)
  assert.equal((await itemsOf(url, 'sensors')).length, 1, 'a deleted reading stays the latest until a newer one comes')
})

test('a late reading does not change the latest item, and a correction of the latest reading does', async (t) => {
  const { url } = await startHere(t, { data: { sensordatas: [] }, flags: FLAGS })
  const latest = async () => (await send(url, 'GET', '/api/sensors/a')).json<Item>().temperature
  await write(url, 'POST', '/api/sensordatas', reading('a', 5, 20))
  await write(url, 'POST', '/api/sensordatas', reading('a', 4, 99))
  assert.equal(await latest(), 20)
  await write(url, 'POST', '/api/sensordatas', reading('a', 5, 98))
  assert.equal(await latest(), 20, 'of two with the same time the first stays')
  const merge = { 'Content-Type': 'application/merge-patch+json' }
  assert.equal((await write(url, 'PATCH', '/api/sensordatas/0', { temperature: 21 }, merge)).status, 204)
  assert.equal(await latest(), 21)
  assert.equal((await write(url, 'PUT', '/api/sensordatas/1', reading('a', 3, 97))).status, 204)
  assert.equal(await latest(), 21)
  assert.equal((await write(url, 'PUT', '/api/sensordatas/1', reading('a', 6, 96))).status, 204)
  assert.equal(await latest(), 96)
  // A reading without a time, or without a value that can be an id, is stored alone.
  for (const item of [{ mac: 'a' }, { timestamp: '2026-01-01T02:00:00' }, { ...reading('a', 9, 1), mac: { a: 1 } }]) {
    assert.equal((await write(url, 'POST', '/api/sensordatas', item)).status, 201)
  }
  assert.equal(await latest(), 96)
})

test('a batch of 1,000 readings makes one event per sensor besides its own', async (t) => {
  const { url } = await startHere(t, { data: { sensordatas: [] }, flags: FLAGS })
  const random = new Random(SEED)
  const readings = Array.from({ length: 1000 }, (_, n) => reading(`m${random.integer(200)}`, random.integer(60), n))
  const reply = await write(url, 'POST', '/api/sensordatas', readings, { 'X-Request-Id': 'batch' })
  assert.deepEqual([reply.status, reply.json<{ ids: number[] }>().ids.length], [201, 1000])
  const sensors = await itemsOf(url, 'sensors')
  assert.deepEqual(sorted(sensors), sorted(newestOf(readings)))
  assert.equal(Number(reply.headers['journal-position']), 1 + 1000 + 1 + sensors.length)
})

test('an edit of the data file updates the latest items unless it sets them; a restore restores them', async (t) => {
  const { url, file } = await startHere(t, { data: { sensordatas: [{ id: 0, ...reading('a', 5, 20) }] }, flags: FLAGS })
  assert.deepEqual(await itemsOf(url, 'sensors'), [{ ...reading('a', 5, 20), id: 'a' }], 'also the first import')
  const before = (await send(url, 'GET', '/api')).headers['journal-position']
  const edit = async (change: (file: { sensors: Item[]; sensordatas: Item[] }) => void): Promise<void> => {
    assert.equal((await write(url, 'POST', '/admin/snapshot')).status, 200)
    const edited = JSON.parse(await readFile(file, 'utf8')) as { sensors: Item[]; sensordatas: Item[] }
    change(edited)
    await writeFile(file, JSON.stringify(edited))
    assert.equal((await write(url, 'POST', '/admin/reload')).status, 200)
  }
  await edit(({ sensordatas }) => void sensordatas.push({ id: 1, ...reading('a', 6, 21) }))
  assert.equal((await itemsOf(url, 'sensors'))[0]?.temperature, 21)
  await edit(({ sensordatas, sensors }) => {
    sensordatas.push({ id: 2, ...reading('a', 7, 22) })
    for (const sensor of sensors) sensor.temperature = 50
  })
  assert.equal((await itemsOf(url, 'sensors'))[0]?.temperature, 50)
  const restored = await write(url, 'POST', '/admin/restore', { to: Number(before) })
  assert.equal(restored.status, 200, restored.text)
  assert.deepEqual(await itemsOf(url, 'sensors'), [{ ...reading('a', 5, 20), id: 'a' }])
  assert.equal((await itemsOf(url, 'sensordatas')).length, 1)
})

test('an edit that creates, removes or replaces the collection of the latest items leaves a valid one', async (t) => {
  const readings = [{ id: 0, ...reading('a', 5, 20) }]
  for (const [sensors, count] of [
    [[], 1],
    [[{ id: 'z' }], 2],
    [{ note: 'no list' }, undefined],
  ] as const) {
    const { url, file } = await startHere(t, { data: { sensordatas: readings, sensors }, flags: FLAGS })
    const events = (await send(url, 'GET', '/events?collection=sensors')).json<Item[]>()
    assert.equal(events.filter(({ type }) => String(type).endsWith('Created')).length, 1 + (count ?? 0))
    const now = (await send(url, 'GET', '/api/sensors')).json<Item[]>()
    if (count === undefined) assert.deepEqual(now, sensors)
    else assert.equal(now.length, count)
    assert.equal((await write(url, 'POST', '/admin/snapshot')).status, 200)
    assert.deepEqual((JSON.parse(await readFile(file, 'utf8')) as { sensors: unknown }).sensors, now)
  }
  for (const sensors of [undefined, { note: 'no list' }]) {
    const { url, file } = await startHere(t, { data: { sensordatas: readings }, flags: FLAGS })
    assert.equal((await write(url, 'POST', '/api/sensordatas', reading('a', 6, 21))).status, 201)
    assert.equal((await write(url, 'POST', '/admin/snapshot')).status, 200)
    const { sensordatas } = JSON.parse(await readFile(file, 'utf8')) as { sensordatas: Item[] }
    await writeFile(file, JSON.stringify({ sensordatas: [...sensordatas, { id: 2, ...reading('b', 5, 21) }], sensors }))
    assert.equal((await write(url, 'POST', '/admin/reload')).status, 200)
    const expected = sensors ?? [{ id: 'b', ...reading('b', 5, 21) }]
    assert.deepEqual((await send(url, 'GET', '/api/sensors')).json(), expected)
    assert.equal((await write(url, 'POST', '/admin/snapshot')).status, 200)
    assert.deepEqual((JSON.parse(await readFile(file, 'utf8')) as { sensors: unknown }).sensors, expected)
  }
})

test('a file that is imported in parts has the same effect, and shows the latest items before it is edited', async (t) => {
  // The first part has the newest readings, so that no other part changes the latest items.
  const sensordatas = Array.from({ length: 20_000 }, (_, id) => {
    const timestamp = new Date(Date.UTC(2026, 0, 1) - id * 1000).toISOString()
    return { id, mac: id % 2 === 0 ? 'a' : 'b', timestamp, text: 'reading '.repeat(30) }
  })
  const data = { sensors: [{ id: 'a', name: 'kitchen' }], sensordatas, notes: [{ id: 0 }] }
  const { url, file } = await startHere(t, { data, flags: FLAGS })
  await until('the import is complete', async () => (await send(url, 'GET', '/api/notes')).status === 200)
  const expected = [
    { id: 'a', name: 'kitchen' },
    { ...sensordatas[1], id: 'b' },
  ]
  assert.deepEqual(await itemsOf(url, 'sensors'), expected)
  assert.equal((await write(url, 'POST', '/admin/snapshot')).status, 200)
  const shown = JSON.parse(await readFile(file, 'utf8')) as { sensors: Item[]; notes: Item[] }
  assert.deepEqual(shown.sensors, expected)
  await writeFile(file, JSON.stringify({ ...shown, notes: [...shown.notes, { id: 1 }] }))
  assert.equal((await write(url, 'POST', '/admin/reload')).status, 200)
  assert.deepEqual(await itemsOf(url, 'sensors'), expected)
})

test('a file that is edited again before it shows the latest items of its first edit keeps them', async (t) => {
  const data = { sensordatas: [{ id: 0, ...reading('a', 5, 20) }], notes: [] as Item[] }
  // The file is not written by itself.
  const delay = (delayMs: number) => 1000 * delayMs
  const { url, file } = await startHere(t, { data, flags: FLAGS, delay })
  assert.equal((await write(url, 'POST', '/admin/snapshot')).status, 200)
  const edited = JSON.parse(await readFile(file, 'utf8')) as { sensordatas: Item[]; notes: Item[] }
  edited.sensordatas.push({ id: 1, ...reading('b', 5, 21) })
  for (let id = 0; id < 3; id++) {
    edited.notes.push({ id })
    await writeFile(file, JSON.stringify(edited))
    assert.equal((await write(url, 'POST', '/admin/reload')).status, 200)
    assert.equal((await itemsOf(url, 'sensors')).length, 2, `edit ${id}`)
  }
})

test('random readings, late and corrected, give the latest items of a naive model', async (t) => {
  const random = new Random(SEED)
  const { url } = await startHere(t, { data: { sensordatas: [] }, flags: FLAGS })
  const sensors = new Map<string, Item>()
  const readings = new Map<number, Item>()
  let minute = 0
  const note = (id: number, item: Item): void => {
    const mac = String(item.mac)
    const before = readings.get(id)
    const latest = sensors.get(mac)
    const isCorrection =
      latest !== undefined && before?.mac === mac && item.timestamp === latest.timestamp && isSame(before, latest)
    if (!latest || String(item.timestamp) > String(latest.timestamp) || isCorrection) sensors.set(mac, item)
    readings.set(id, item)
  }
  for (let step = 0; step < 60; step++) {
    const context = `step ${step}, SEED=${SEED}`
    // A new reading, or a late one.
    const any = (): Item =>
      reading(random.pick(['a', 'b', 'c']), random.chance(0.5) ? minute++ % 60 : random.integer(60), step)
    if (random.chance(0.3) && readings.size > 0) {
      const id = random.pick([...readings.keys()])
      const item = random.chance(0.5) ? { ...readings.get(id), temperature: step } : any()
      assert.equal((await write(url, 'PUT', `/api/sensordatas/${id}`, item)).status, 204, context)
      note(id, item)
    } else {
      const item = any()
      const { id } = (await write(url, 'POST', '/api/sensordatas', item)).json<{ id: number }>()
      note(id, item)
    }
    const expected = Array.from(sensors, ([mac, item]) => ({ ...item, id: mac }))
    assert.deepEqual(sorted(await itemsOf(url, 'sensors')), sorted(expected), context)
  }
})

test('a PUT that prefers only-if-newer leaves an item of the same or a later time unchanged', async (t) => {
  const { url } = await startHere(t, { data: { sensors: [], others: [] }, flags: FLAGS })
  const newer = { Prefer: 'only-if-newer' }
  const put = (item: Item, headers: object = newer, name = 'sensors') =>
    write(url, 'PUT', `/api/${name}/a`, item, headers)
  const first = await put(reading('a', 5, 20))
  assert.deepEqual([first.status, first.headers['preference-applied']], [201, 'only-if-newer'])
  const head = (await send(url, 'GET', '/api')).headers['journal-position']
  for (const minute of [4, 5]) {
    const { status, text, headers } = await put(reading('a', minute, 99))
    assert.deepEqual([status, text, headers['preference-applied']], [200, '{"applied":false}', 'only-if-newer'])
    assert.equal(headers.etag, first.headers.etag)
  }
  assert.equal((await put({ mac: 'a' })).text, '{"applied":false}', 'what has no time is not newer')
  assert.equal((await send(url, 'GET', '/api')).headers['journal-position'], head)
  const later = await put(reading('a', 6, 21), { Prefer: 'only-if-newer, return=representation' })
  assert.deepEqual([later.status, later.json()], [200, { ...reading('a', 6, 21), id: 'a' }])
  assert.equal(later.headers['preference-applied'], 'only-if-newer, return=representation')
  assert.equal((await put(reading('a', 1, 1), { ...newer, 'If-Match': '"x"' })).status, 412)
  assert.equal((await put(reading('a', 1, 1), {})).status, 204, 'without the preference it replaces')
  const ignored = await put(reading('a', 1, 1), newer, 'others')
  assert.deepEqual([ignored.status, ignored.headers['preference-applied']], [201, undefined])
  assert.equal((await put(reading('a', 0, 1), newer, 'others')).status, 204, 'a collection without Time ignores it')
})

function newestOf(readings: readonly Item[]): Item[] {
  const newest = new Map<unknown, Item>()
  for (const one of readings) {
    const known = newest.get(one.mac)
    if (!known || String(one.timestamp) > String(known.timestamp)) newest.set(one.mac, one)
  }
  return Array.from(newest.values(), (one) => ({ ...one, id: one.mac }))
}

function isSame({ id: _, ...a }: Item, { id: __, ...b }: Item): boolean {
  return JSON.stringify(a) === JSON.stringify(b)
}

function sorted(items: readonly Item[]): Item[] {
  return [...items].sort((a, b) => (String(a.id) < String(b.id) ? -1 : 1))
}
