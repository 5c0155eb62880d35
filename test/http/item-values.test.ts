import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { temporaryDirectory } from '../support/directory.ts'
import { type Reply, send } from '../support/requests.ts'
import { startHere } from '../support/service.ts'

const MOST = 100
const FLAGS = ['--Limits.ItemValues', String(MOST)]
const TOO_MANY = /has \d+ values, most of them at (the root|\/\S+); 100 are accepted \(Limits\.ItemValues/

const { url, failures } = await startHere({ after }, { data: { things: [], one: { a: 1 } }, flags: FLAGS })

const JSON_PATCH = 'application/json-patch+json'

/** An item of so many values: its member counts as four. */
function sized(values: number) {
  return { v: Array<number>(values - 4).fill(1) }
}

function write(method: string, path: string, body: unknown, headers: object = {}, to = url): Promise<Reply> {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return send(to, method, path, { headers: { 'Content-Type': 'application/json', ...headers }, body: text })
}

function assertTooMany({ status, text }: Reply, pointer: string): void {
  const { detail, errors } = JSON.parse(text) as { detail: string; errors: { pointer: string }[] }
  assert.equal(status, 422, text)
  assert.match(detail, TOO_MANY)
  assert.deepEqual(
    errors.map((one) => one.pointer),
    [pointer],
  )
}

async function created(item: object): Promise<string> {
  const { headers, status, text } = await write('POST', '/api/things', item)
  assert.equal(status, 201, text)
  return headers.location as string
}

test('POST and PUT take an item of the most values, and reject one more with their number and place', async () => {
  const path = await created(sized(MOST))
  assertTooMany(await write('POST', '/api/things', sized(MOST + 1)), '/v')
  assert.equal((await write('PUT', path, sized(MOST))).status, 204)
  assertTooMany(await write('PUT', path, sized(MOST + 1)), '/v')
  assertTooMany(await write('PUT', path, sized(100 * MOST)), '/v')
  assert.equal((await write('POST', '/api/things', { m: { ...Array<number>(24).fill(1) } })).status, 201)
  assertTooMany(await write('POST', '/api/things', { m: { ...Array<number>(25).fill(1) } }), '/m')
})

test('an item of which each value is few but all are too many is rejected', async () => {
  const { status, text } = await write('POST', '/api/things', { a: sized(50), b: sized(51).v })
  assert.deepEqual([status, JSON.parse(text).errors.length], [422, 1], text)
})

test('a merge patch may lead to an item of the most values', async () => {
  const path = await created({ a: 1 })
  assert.equal((await write('PATCH', path, sized(MOST - 4))).status, 204)
  assertTooMany(await write('PATCH', path, sized(MOST - 3)), '/v')
  assertTooMany(await write('PATCH', path, sized(100 * MOST)), '/v')
})

test('a JSON Patch may copy values until there are too many', async () => {
  const path = await created(sized(MOST / 2))
  const copyTo = (name: string) => ({ op: 'copy', from: '/v', path: `/${name}` })
  const patch = (operations: readonly object[]) => write('PATCH', path, operations, { 'Content-Type': JSON_PATCH })
  assertTooMany(await patch([copyTo('w'), { op: 'add', path: '/v/-', value: 1 }]), '/v')
  assert.equal((await patch([copyTo('w')])).status, 204)
  const { status, text } = await patch(['a', 'b', 'c'].flatMap((name) => [copyTo(name), { op: 'remove', path: '/w' }]))
  assert.equal(status, 422, text)
  const large = [{ op: 'add', path: '/x', value: sized(100 * MOST).v }]
  assertTooMany(await patch(large), '/0/value')
})

test('a value inside an item may lead to an item of the most values', async () => {
  const path = await created({ a: 1, b: { c: 1 } })
  assert.equal((await write('PUT', `${path}/b`, sized(MOST - 8))).status, 204)
  assertTooMany(await write('PUT', `${path}/b`, sized(MOST - 7)), '/b/v')
  assertTooMany(await write('PUT', `${path}/b`, sized(100 * MOST)), '/v')
  assertTooMany(await write('PATCH', `${path}/b`, { d: sized(MOST) }), '/b/d/v')
  assertTooMany(await write('PUT', '/api/one/a', sized(2 * MOST).v), '')
})

for (const [type, bodyOf, named] of [
  ['application/json', (items: readonly object[]) => JSON.stringify(items), 'The item 1 of the list'],
  ['application/x-ndjson', (items: readonly object[]) => items.map((one) => JSON.stringify(one)).join('\n'), 'Line 2'],
  [
    'text/csv',
    (items: readonly object[]) =>
      ['v', ...items.map((one) => `"${JSON.stringify((one as { v: unknown }).v)}"`)].join('\n'),
    'Line 3',
  ],
] as const) {
  test(`each item of a batch of ${type} may have the most values`, async () => {
    const headers = { 'Content-Type': type }
    const all = Array.from({ length: 20 }, () => sized(MOST))
    assert.equal((await write('POST', '/api/things', bodyOf(all), headers)).status, 201)
    const body = bodyOf([sized(MOST), sized(MOST + 1), sized(MOST)])
    const refused = await write('POST', '/api/things', body, headers)
    assertTooMany(refused, '/1/v')
    assert.match(refused.text, new RegExp(named))
    const lenient = await write('POST', '/api/things', body, { ...headers, Prefer: 'handling=lenient' })
    const { results } = lenient.json<{ results: { status: string; problem?: { status: number; detail: string } }[] }>()
    assert.deepEqual(
      results.map(({ status }) => status),
      ['created', 'rejected', 'created'],
    )
    assert.equal(results[1]?.problem?.status, 422)
    assert.match(results[1]?.problem?.detail ?? '', TOO_MANY)
  })
}

test('a list in an item is one item, and a list is a batch, whatever is before it', async () => {
  assert.equal((await write('POST', '/api/things', { list: [[1, 2]] })).status, 201)
  for (const before of ['', ' \r\n\t', '\ufeff', '\ufeff ']) {
    const { status, text } = await write('POST', '/api/things', `${before}[{"a":1} , {"a":2}] `)
    assert.deepEqual([status, JSON.parse(text).ids.length], [201, 2])
  }
})

test('a malformed list is rejected with line and column, also leniently', async () => {
  for (const [body, place] of [
    ['[{"a":1},\n{"a":}]', /line 2, column 6/],
    ['[{"a":1}\n{"a":2}]', /line 2, column 1: a comma or \]/],
    ['[{"a":1},]', /line 1, column 10/],
    ['[{"a":1}', /line 1, column 9/],
    ['[{"a":1}}', /line 1, column 9/],
    ['[{"a":1}]\n]', /line 2, column 1/],
  ] as const) {
    const { status, text } = await write('POST', '/api/things', body, { Prefer: 'handling=lenient' })
    assert.equal(status, 400, text)
    assert.match(text, place)
  }
})

test('a malformed body of too many values is rejected', async () => {
  const many = '1,'.repeat(MOST * 10)
  for (const body of [
    `{"v":[${many}"unclosed`,
    `{"\\x":[${many}1]}`,
    `{"v":[${many}`,
    `${'{"v":['.repeat(40)}${many}`,
  ]) {
    assert.equal((await write('POST', '/api/things', body)).status, 422, body.slice(0, 20))
    assert.ok([400, 422].includes((await write('POST', '/api/things', `[${body}`)).status))
  }
})

test('an item that has too many values already can be read, found, made smaller, deleted and restored', async (t) => {
  const directory = await temporaryDirectory(t)
  const large = { id: 1, name: 'file', ...sized(3 * MOST) }
  await t.test('it was in the data file, or written with a higher limit', async (t) => {
    const flags = ['--Limits.ItemValues', String(4 * MOST)]
    const { url } = await startHere(t, { directory, data: { c: [large] }, flags })
    const posted = await write('POST', '/api/c', { name: 'post', ...sized(3 * MOST) }, {}, url)
    assert.equal(posted.status, 201, posted.text)
  })
  const { url: now, failures } = await startHere(t, { directory, flags: FLAGS })
  const get = (path: string) => send(now, 'GET', path)
  for (const [id, name] of [
    [1, 'file'],
    [2, 'post'],
  ]) {
    const path = `/api/c/${id}`
    const whole = { ...large, id, name }
    assert.deepEqual((await get(path)).json(), whole)
    assert.deepEqual((await get(`/api/c?name=${name}`)).json(), [whole])
    assert.deepEqual((await get(`${path}/v`)).json(), whole.v)
    assert.equal((await get('/api/c?pageSize=10')).json<unknown[]>().length, 2)
    assertTooMany(await write('PATCH', path, { x: 1 }, {}, now), '/v')
    const before = Number((await get(path)).headers['journal-position'])
    assert.equal((await write('PATCH', path, { v: [1] }, {}, now)).status, 204)
    const restored = async () => {
      const { status, text } = await write('POST', '/admin/restore', { to: before, collection: 'c', id }, {}, now)
      assert.equal(status, 200, text)
      assert.deepEqual((await get(path)).json(), whole)
    }
    await restored()
    const remove = [{ op: 'remove', path: '/v' }]
    assert.equal((await write('PATCH', path, remove, { 'Content-Type': JSON_PATCH }, now)).status, 204)
    await restored()
    assert.equal((await write('PUT', `${path}/v`, [1, 2], {}, now)).status, 204)
    await restored()
    assert.equal((await send(now, 'DELETE', path)).status, 204)
    await restored()
  }
  assert.deepEqual(failures, [])
})

test('the server logged no unexpected error', () => {
  assert.deepEqual(failures, [])
})
