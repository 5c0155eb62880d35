import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { type TestContext, test } from 'node:test'
import { authentication, keyOf } from '../support/authentication.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { Random, SEED } from '../support/random.ts'
import { headOf, type Reply, send } from '../support/requests.ts'
import { type OwnService, type OwnServiceOptions, startHere } from '../support/service.ts'

const KEY = { readings: { Key: ['mac', 'timestamp'] } }
const REPLACING = { readings: { Key: ['mac', 'timestamp'], OnConflict: 'replace' } }
/** An index finds the items. */
const INDEXED = { readings: { ...KEY.readings, Indexes: ['timestamp,mac,n'], Time: 'timestamp' } }
const flagsOf = (collections: unknown): readonly string[] => [
  '--Collections',
  JSON.stringify(collections),
  '--Api.UpsertOnPut',
  'true',
]

type Item = Record<string, unknown>

function write(url: string, method: string, path: string, body: unknown, headers: object = {}): Promise<Reply> {
  const isText = typeof body === 'string'
  return send(url, method, path, {
    headers: { ...(body !== undefined && { 'Content-Type': 'application/json' }), ...headers },
    ...(body !== undefined && { body: isText ? body : JSON.stringify(body) }),
  })
}

const reading = (mac: unknown, hour: number, n: number): Item => ({ mac, timestamp: `2026-01-01T0${hour}:00:00`, n })

test('an identical item gets the id of the existing one, and makes no event', async (t) => {
  const { url } = await startHere(t, { data: { readings: [] }, flags: flagsOf(KEY) })
  const first = await write(url, 'POST', '/api/readings', reading('a', 1, 1))
  assert.equal(first.status, 201)
  const head = await headOf(url)
  const again = await write(url, 'POST', '/api/readings', { n: 1, ...reading('a', 1, 1), id: 77 })
  assert.deepEqual([again.status, again.json()], [200, { id: 0 }])
  assert.equal(again.headers.location, '/api/readings/0')
  assert.equal(again.headers.etag, first.headers.etag)
  assert.equal(await headOf(url), head)
  // Another spelling of an instant is the same key, though not the same item.
  const spelled = await write(url, 'POST', '/api/readings', {
    ...reading('a', 1, 1),
    timestamp: '2026-01-01T01:00:00.000Z',
  })
  assert.equal(spelled.status, 409)
  assert.match(
    spelled.json<{ detail: string }>().detail,
    /The item "0" of "readings" has the same natural key \(mac "a", timestamp "2026/,
  )
  const wanted = await write(url, 'POST', '/api/readings', reading('a', 1, 1), { Prefer: 'return=representation' })
  assert.deepEqual([wanted.status, wanted.json()], [200, { id: 0, ...reading('a', 1, 1) }])
})

test('a different item with the same natural key is rejected, or replaces the existing one when configured', async (t) => {
  const { url } = await startHere(t, { data: { readings: [{ id: 5, ...reading('a', 1, 1) }] }, flags: flagsOf(KEY) })
  assert.equal((await write(url, 'POST', '/api/readings', reading('a', 1, 2))).status, 409)
  assert.equal((await write(url, 'PUT', '/api/readings/6', reading('a', 1, 1))).status, 409)
  assert.equal((await write(url, 'PUT', '/api/readings/6', reading('b', 1, 1))).status, 201)
  assert.equal((await write(url, 'PUT', '/api/readings/6', reading('a', 1, 1))).status, 409)
  assert.equal((await write(url, 'PUT', '/api/readings/5', reading('a', 1, 3))).status, 204)
  const merge = { 'Content-Type': 'application/merge-patch+json' }
  assert.equal((await write(url, 'PATCH', '/api/readings/6', { mac: 'a' }, merge)).status, 409)
  assert.equal((await write(url, 'DELETE', '/api/readings/5', undefined)).status, 204)
  assert.equal((await write(url, 'PATCH', '/api/readings/6', { mac: 'a' }, merge)).status, 204)

  const other = await startHere(t, {
    data: { readings: [{ id: 5, ...reading('a', 1, 1) }] },
    flags: flagsOf(REPLACING),
  })
  const replaced = await write(other.url, 'POST', '/api/readings', reading('a', 1, 2))
  assert.deepEqual([replaced.status, replaced.json(), replaced.headers.location], [200, { id: 5 }, '/api/readings/5'])
  assert.deepEqual((await send(other.url, 'GET', '/api/readings')).json(), [{ ...reading('a', 1, 2), id: 5 }])
})

test('each item of a batch is created, a duplicate or rejected, even within the batch', async (t) => {
  const { url } = await startHere(t, { data: { readings: [reading('a', 1, 1)] }, flags: flagsOf(KEY) })
  const items = [
    reading('a', 1, 1),
    reading('a', 2, 1),
    reading('a', 2, 1),
    reading('a', 2, 2),
    { mac: 'x' },
    { mac: 'x' },
  ]
  const lines = items.map((item) => JSON.stringify(item)).join('\n')
  const lenient = { 'Content-Type': 'application/x-ndjson', Prefer: 'handling=lenient', 'Idempotency-Key': 'k' }
  const results = async (): Promise<unknown> => {
    const { results } = (await write(url, 'POST', '/api/readings', lines, lenient)).json<{ results: Item[] }>()
    return results.map(({ status, id, problem }) => [status, id ?? (problem as Item).status])
  }
  const expected = [
    ['duplicate', 0],
    ['created', 1],
    ['duplicate', 1],
    ['rejected', 409],
    ['created', 2],
    ['created', 3],
  ]
  assert.deepEqual(await results(), expected)
  assert.deepEqual(await results(), expected, 'a retry gets the same results')
  const whole = await write(url, 'POST', '/api/readings', items.slice(0, 3))
  assert.deepEqual([whole.status, whole.json()], [200, { ids: [0, 1, 1] }])
  const refused = await write(url, 'POST', '/api/readings', items)
  assert.equal(refused.status, 409)
  assert.match(refused.json<{ detail: string }>().detail, /^The item 3 of the list: /)
  const csv = 'mac,timestamp,n\na,2026-01-01T01:00:00,1\na,2026-01-01T05:00:00,1\n'
  const created = await write(url, 'POST', '/api/readings', csv, { 'Content-Type': 'text/csv' })
  assert.deepEqual([created.status, created.json()], [201, { ids: [0, 4] }])
})

test('an item that one batch creates and replaces has each version in the past, and none before the batch', async (t) => {
  const data = { others: [{}, {}, {}], readings: [reading('z', 1, 1)] }
  const { url } = await startHere(t, { data, flags: flagsOf(REPLACING) })
  const before = Number(await headOf(url))
  const created = await write(url, 'POST', '/api/readings', [reading('a', 1, 1), reading('a', 1, 2)])
  assert.deepEqual([created.status, created.json()], [201, { ids: [1, 1] }])
  const event = (await send(url, 'GET', `/events/${before + 2}`)).json<Item>()
  assert.deepEqual([event.type, event.id, event.prior], ['ItemReplaced', 1, before + 1])
  assert.equal((await send(url, 'GET', `/api/readings/1?asOf=${before}`)).status, 404)
  for (const n of [1, 2]) {
    const then = await send(url, 'GET', `/api/readings/1?asOf=${before + n}`)
    assert.deepEqual(then.json(), { id: 1, ...reading('a', 1, n) })
  }
  const events = (await send(url, 'GET', '/events?collection=readings&id=1')).json<Item[]>()
  assert.equal(events.length, 2)
})

test('a retried batch gets the same ids, even if an item that it had again was changed since', async (t) => {
  const { url } = await startHere(t, { data: { readings: [reading('a', 1, 1)] }, flags: flagsOf(KEY) })
  const batch = [reading('a', 1, 1), reading('b', 1, 1), reading('b', 1, 1), reading('c', 1, 1)]
  const post = async () => {
    const { status, headers, text } = await write(url, 'POST', '/api/readings', batch, { 'Idempotency-Key': 'k' })
    return { status, position: headers['journal-position'], text }
  }
  const first = await post()
  assert.deepEqual([first.status, JSON.parse(first.text)], [201, { ids: [0, 1, 1, 2] }])
  for (const id of [0, 1, 2]) {
    const merge = { 'Content-Type': 'application/merge-patch+json' }
    assert.equal((await write(url, 'PATCH', `/api/readings/${id}`, { note: 'checked' }, merge)).status, 204)
  }
  assert.deepEqual(await post(), first)
})

test('a natural key whose values are too long is rejected with 422', async (t) => {
  const { url } = await startHere(t, { data: { readings: [{ id: 0, ...reading('a', 1, 1) }] }, flags: flagsOf(KEY) })
  const members = Object.fromEntries(Array.from({ length: 1000 }, (_, n) => [`k${n}`, n]))
  for (const mac of ['x'.repeat(4097), Array(5000).fill(0), [[[['x'.repeat(4097)]]]], members, { a: [members] }]) {
    const item = { ...reading('a', 1, 1), mac }
    const merge = { 'Content-Type': 'application/merge-patch+json' }
    const replies = [
      await write(url, 'POST', '/api/readings', item),
      await write(url, 'POST', '/api/readings', [item]),
      await write(url, 'PUT', '/api/readings/0', item),
      await write(url, 'PUT', '/api/readings/9', item),
      await write(url, 'PATCH', '/api/readings/0', { mac }, merge),
    ]
    assert.deepEqual(
      Array.from(replies, ({ status }) => status),
      [422, 422, 422, 422, 422],
    )
    const { detail } = (replies[0] as Reply).json<{ detail: string }>()
    assert.equal(detail, 'The values of the natural key (mac, timestamp) have more than 4096 characters.')
  }
  assert.equal((await write(url, 'POST', '/api/readings', reading('x'.repeat(4000), 1, 1))).status, 201)
  assert.equal((await write(url, 'POST', '/api/readings', { mac: 'x'.repeat(5000) })).status, 422)
})

test('a natural key that is configured over duplicates fails the start, and names the first', async (t) => {
  const directory = await temporaryDirectory(t)
  const started = (collections: unknown, data?: unknown) =>
    open(t, { directory, flags: flagsOf(collections), ...(data !== undefined && { data }) })
  const before = await started({}, { readings: [reading('a', 1, 1), reading('b', 1, 1), reading('a', 1, 2)] })
  await before.close()
  const refused =
    /The items "0" and "2" of "readings" have the same natural key \((mac "a", timestamp "2026-01-01T01:00:00"|timestamp "2026-01-01T01:00:00", mac "a")\)\. Delete or change one/
  for (const settings of [KEY, INDEXED]) await assert.rejects(started(settings), refused)
  const mended = await started({})
  assert.equal((await write(mended.url, 'DELETE', '/api/readings/2', undefined)).status, 204)
  await mended.close()
  const after = await started(KEY)
  assert.equal((await write(after.url, 'POST', '/api/readings', reading('a', 1, 2))).status, 409)
  await after.close()
  // An index finds them, too.
  const indexed = await started(INDEXED)
  assert.equal((await write(indexed.url, 'POST', '/api/readings', reading('a', 1, 2))).status, 409)
  await indexed.close()
  // Another key finds other duplicates, and is built anew.
  await assert.rejects(started({ readings: { Key: ['n'] } }), /\(n 1\)/)
  const again = await started(KEY)
  assert.equal((await write(again.url, 'POST', '/api/readings', reading('b', 1, 2))).status, 409)
  await again.close()
})

interface Opened extends OwnService {
  close(): Promise<void>
}

/** A service that can be closed before the test ends. */
async function open(t: TestContext, options: OwnServiceOptions): Promise<Opened> {
  const ends: (() => Promise<unknown>)[] = []
  const close = async (): Promise<void> => {
    for (const end of ends.splice(0)) await end()
  }
  t.after(close)
  return { ...(await startHere({ after: (end: () => Promise<unknown>) => void ends.push(end) }, options)), close }
}

/** A collection with a natural key, as naively as it can be written. */
class Naive {
  items = new Map<string, Item>()
  next = 0
  readonly #isReplacing: boolean

  constructor(isReplacing: boolean) {
    this.#isReplacing = isReplacing
  }

  holder(item: Item): Item | undefined {
    const key = naturalKeyOf(item)
    return key === undefined ? undefined : [...this.items.values()].find((other) => naturalKeyOf(other) === key)
  }

  create(item: Item): readonly [string, unknown] {
    const holder = this.holder(item)
    if (holder) {
      if (isSame({ ...item, id: 0 }, { ...holder, id: 0 })) return ['duplicate', holder.id]
      if (!this.#isReplacing) return ['rejected', 409]
      this.items.set(String(holder.id), { ...item, id: holder.id })
      return ['replaced', holder.id]
    }
    const id = this.next++
    this.items.set(String(id), { ...item, id })
    return ['created', id]
  }

  put(id: number, item: Item): number {
    const holder = this.holder(item)
    if (holder && holder.id !== id) return 409
    const isNew = !this.items.has(String(id))
    this.items.set(String(id), { ...item, id })
    this.next = Math.max(this.next, id + 1)
    return isNew ? 201 : 204
  }
}

function naturalKeyOf({ mac, timestamp }: Item): string | undefined {
  if (mac === undefined || mac === null || timestamp === undefined || timestamp === null) return undefined
  return JSON.stringify([mac, Date.parse(`${String(timestamp).replace('Z', '')}Z`)])
}

function isSame(a: Item, b: Item): boolean {
  const sorted = (item: Item) => JSON.stringify(Object.entries(item).sort(([x], [y]) => (x < y ? -1 : 1)))
  return sorted(a) === sorted(b)
}

const sortedIds = (items: Iterable<Item>): Item[] => [...items].sort((a, b) => Number(a.id) - Number(b.id))

for (const isReplacing of [false, true]) {
  test(`random writes, edits and restarts give the state of a naive model${isReplacing ? ' where POST replaces' : ''}`, async (t) => {
    const random = new Random(SEED)
    const directory = await temporaryDirectory(t)
    const model = new Naive(isReplacing)
    const settings = isReplacing ? REPLACING : KEY
    // Each start may find the items in the other way.
    const started = (data?: unknown) => {
      const indexed = { readings: { ...INDEXED.readings, ...settings.readings } }
      const flags = flagsOf(random.chance(0.5) ? indexed : settings)
      return open(t, { directory, flags, ...(data !== undefined && { data }) })
    }
    const any = (): Item => {
      const timestamp = random.pick([
        '2026-01-01T01:00:00',
        '2026-01-01T01:00:00Z',
        '2026-01-01T02:00:00.000',
        null,
        undefined,
      ])
      const item: Item = { mac: random.pick(['a', 'b', 1, ['x'], ['x', 'y']]), timestamp, n: random.integer(2) }
      // The index has no values of long items.
      if (random.chance(0.2)) item.long = 'x'.repeat(40_000)
      return JSON.parse(JSON.stringify(item)) as Item
    }
    let service = await started({ readings: [] })
    for (let step = 0; step < 60; step++) {
      const { url } = service
      const kind = random.integer(20)
      const context = `step ${step}, kind ${kind}, SEED=${SEED}`
      const id = random.integer(12)
      const item = any()
      if (kind < 6) {
        const { status, headers } = await write(url, 'POST', '/api/readings', item)
        const [result, of] = model.create(item)
        assert.equal(status, { created: 201, duplicate: 200, replaced: 200, rejected: 409 }[result], context)
        if (result !== 'rejected') assert.equal(headers.location, `/api/readings/${of}`, context)
      } else if (kind < 9) {
        const items = Array.from({ length: 6 }, any)
        const reply = await write(url, 'POST', '/api/readings', items, { Prefer: 'handling=lenient' })
        const { results } = reply.json<{ results: Item[] }>()
        assert.deepEqual(
          results.map(({ status, id, problem }) => [status, id ?? (problem as Item).status]),
          items.map((one) => model.create(one)),
          context,
        )
      } else if (kind < 13) {
        assert.equal((await write(url, 'PUT', `/api/readings/${id}`, item)).status, model.put(id, item), context)
      } else if (kind < 15) {
        const known = model.items.get(String(id))
        const patch = { mac: item.mac }
        const headers = { 'Content-Type': 'application/merge-patch+json' }
        const { status } = await write(url, 'PATCH', `/api/readings/${id}`, patch, headers)
        const { id: _, ...rest } = { ...known, ...patch } as Item
        assert.equal(status, known ? model.put(id, rest) : 404, context)
      } else if (kind < 17) {
        const { status } = await write(url, 'DELETE', `/api/readings/${id}`, undefined)
        assert.equal(status, model.items.delete(String(id)) ? 204 : 404, context)
      } else if (kind < 19) {
        // An editor exchanges keys, adds items and removes others: all of it, or nothing where two keys would be the same.
        assert.equal((await write(url, 'POST', '/admin/snapshot', undefined)).status, 200, context)
        const saved = await readFile(service.file, 'utf8')
        const file = JSON.parse(saved) as { readings: Item[] }
        assert.deepEqual(sortedIds(file.readings), sortedIds(model.items.values()), `the file: ${context}`)
        // The newest items stay: without them it would be the edit of an older file.
        const edited = file.readings.slice(file.readings.length > 1 ? random.integer(2) : 0)
        const [one, other] = [random.pick(edited), random.pick(edited)]
        if (one && other && one !== other) {
          const { mac, timestamp } = one
          Object.assign(one, { mac: other.mac, timestamp: other.timestamp, n: 100 + step })
          Object.assign(other, { mac, timestamp, n: 100 + step })
        }
        if (random.chance(0.5)) edited.push({ id: model.next, ...item })
        const text = JSON.stringify({ readings: edited })
        await writeFile(service.file, text)
        const { status, text: told } = await write(url, 'POST', '/admin/reload', undefined)
        const keys = edited.flatMap((one) => naturalKeyOf(one) ?? [])
        assert.equal(status, new Set(keys).size < keys.length ? 422 : 200, `${context}: ${text}: ${told}`)
        if (status === 200) {
          model.items = new Map(edited.map((one) => [String(one.id), JSON.parse(JSON.stringify(one)) as Item]))
          for (const { id } of edited) model.next = Math.max(model.next, Number(id) + 1)
        } else {
          await writeFile(service.file, saved)
          assert.equal((await write(url, 'POST', '/admin/reload', undefined)).status, 200, context)
        }
      } else {
        await service.close()
        service = await started()
      }
      const { url: now } = service
      const found = (await send(now, 'GET', '/api/readings?pageSize=1000')).json<Item[]>()
      assert.deepEqual(sortedIds(found), sortedIds(model.items.values()), context)
    }
    await service.close()
  })
}

test('a natural key that an index finds is known in a new collection, and after an edit that reorders it', async (t) => {
  const { url, file } = await startHere(t, { data: { others: [] }, flags: flagsOf(INDEXED) })
  const posted = async (hour: number, n: number) =>
    (await write(url, 'POST', '/api/readings', reading('a', hour, n))).status
  const statuses = await Promise.all(Array.from({ length: 20 }, (_, at) => posted(at % 5, 1)))
  assert.deepEqual([...statuses].sort(), [...Array(15).fill(200), ...Array(5).fill(201)])
  for (let times = 0; times < 3; times++) {
    assert.equal((await write(url, 'POST', '/admin/snapshot', undefined)).status, 200)
    const edited = JSON.parse(await readFile(file, 'utf8')) as { readings: Item[] }
    edited.readings.reverse()
    await writeFile(file, JSON.stringify(edited))
    assert.equal((await write(url, 'POST', '/admin/reload', undefined)).status, 200)
    const found = await Promise.all([0, 1, 2, 3, 4].map((hour) => posted(hour, 2)))
    assert.deepEqual(found, [409, 409, 409, 409, 409])
  }
})

test('a reader learns nothing about natural keys, and a writer gets the same responses as without authentication', async (t) => {
  const flags = [...flagsOf(KEY), ...authentication(['ApiKey'])]
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
  const flags = [...flagsOf(KEY), '--DataStore.IdField', 'key', '--Api.ClientIdsOnPost', 'true']
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
  const { url } = await startHere(t, { data: { readings: [] }, flags: flagsOf(KEY) })
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
  const { url } = await startHere(t, { data: { readings: [] }, flags: flagsOf(REPLACING) })
  const posted = async (n: number) => write(url, 'POST', '/api/readings', reading('a', 1, n))
  const first = await posted(1)
  await write(url, 'DELETE', '/api/readings/0', undefined)
  assert.deepEqual([(await posted(2)).json(), (await posted(3)).status], [{ id: 1 }, 200])
  const then = await send(url, 'GET', `/api/readings?mac=a&asOf=${first.headers['journal-position']}`)
  assert.deepEqual(then.json(), [{ id: 0, ...reading('a', 1, 1) }])
  assert.deepEqual((await send(url, 'GET', '/api/readings?mac=a')).json(), [{ id: 1, ...reading('a', 1, 3) }])
})
