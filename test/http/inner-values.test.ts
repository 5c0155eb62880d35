import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connect } from '../../src/client/index.ts'
import { within } from '../support/deadline.ts'
import { headOf, send, sendJson } from '../support/requests.ts'
import { startHere } from '../support/service.ts'

const COMPANY = {
  id: 1,
  name: 'ACME',
  employees: [
    { id: 7, name: 'Ann', address: { city: 'Oulu' } },
    { id: 9, name: 'Bob', address: { city: 'Espoo' } },
  ],
  tags: ['a', 'b'],
}
const DATA = { companies: [COMPANY, { id: 2, name: 'Box' }], profile: { theme: 'dark', window: { width: 80 } } }
const PATCH = { 'Content-Type': 'application/json-patch+json' }

const start = async (t: Parameters<typeof startHere>[0]) => (await startHere(t, { data: DATA })).url
const item = async (url: string) => (await send(url, 'GET', '/api/companies/1')).json<typeof COMPANY>()

test('PUT inside an item replaces the value there, with one event of the item', async (t) => {
  const url = await start(t)
  const before = await headOf(url)
  const reply = await sendJson(url, 'PUT', '/api/companies/1/employees/9/address/city', 'Turku')
  assert.equal(reply.status, 204)
  assert.equal(Number(reply.headers['journal-position']), before + 1)
  const employees = [COMPANY.employees[0], { id: 9, name: 'Bob', address: { city: 'Turku' } }]
  assert.deepEqual(await item(url), { ...COMPANY, employees })
  const event = (await send(url, 'GET', `/events/${before + 1}`)).json<{ type: string; id: number }>()
  assert.deepEqual([event.type, event.id], ['ItemPatched', 1])
  for (const value of [null, false, 7, ['x'], { a: 1 }]) {
    assert.equal((await sendJson(url, 'PUT', '/api/companies/1/tags/0', value)).status, 204)
    assert.deepEqual((await send(url, 'GET', '/api/companies/1/tags/0')).json(), value)
  }
})

test('PATCH inside an item takes a merge patch and a JSON Patch, relative to the value', async (t) => {
  const url = await start(t)
  assert.equal((await sendJson(url, 'PATCH', '/api/companies/1/employees/7', { name: null, age: 40 })).status, 204)
  assert.deepEqual((await item(url)).employees[0], { id: 7, address: { city: 'Oulu' }, age: 40 })
  const operations = [
    { op: 'test', path: '/address/city', value: 'Oulu' },
    { op: 'move', from: '/address/city', path: '/town' },
  ]
  assert.equal((await sendJson(url, 'PATCH', '/api/companies/1/employees/7', operations, PATCH)).status, 204)
  assert.deepEqual((await item(url)).employees[0], { id: 7, address: {}, age: 40, town: 'Oulu' })
  const failed = await sendJson(url, 'PATCH', '/api/companies/1/employees/7', operations, PATCH)
  assert.equal(failed.status, 422)
  const removal = [{ op: 'remove', path: '' }]
  assert.equal((await sendJson(url, 'PATCH', '/api/companies/1/tags/0', removal, PATCH)).status, 204)
  assert.deepEqual((await item(url)).tags, ['b'])
})

test('a merge patch inside an item may be any JSON value, which replaces what is no object', async (t) => {
  const url = await start(t)
  for (const [path, collection] of [
    ['/api/companies/1/employees/9/address/city', '/api/companies/1'],
    ['/api/profile/window', '/api/profile'],
  ] as const) {
    for (const value of ['Turku', 7, null, true, ['x'], [], 'text', { a: 1 }]) {
      for (const type of ['application/merge-patch+json', 'application/json']) {
        const reply = await sendJson(url, 'PATCH', path, value, { 'Content-Type': type })
        assert.equal(reply.status, 204, JSON.stringify(value))
        const read = await send(url, 'GET', path)
        assert.deepEqual([read.json(), read.headers.etag], [value, reply.headers.etag])
      }
      const preferred = await sendJson(url, 'PATCH', path, value, { Prefer: 'return=representation' })
      assert.deepEqual([preferred.status, preferred.json()], [200, value])
    }
    assert.equal((await sendJson(url, 'PATCH', path, {})).status, 400)
    assert.equal((await sendJson(url, 'PATCH', path, [], PATCH)).status, 400)
    for (const value of ['text', 7, null, [], [1], {}]) {
      assert.equal((await sendJson(url, 'PATCH', collection, value)).status, 400, JSON.stringify(value))
    }
  }
  assert.equal((await sendJson(url, 'PATCH', '/api/companies/1/id', 5)).status, 409)
  assert.equal((await sendJson(url, 'PATCH', '/api/companies/1/nothing', 5)).status, 404)
})

test('a JSON Patch of a whole element of an array replaces that element', async (t) => {
  const url = await start(t)
  for (const [operation, employee] of [
    [{ op: 'add', path: '', value: 'none' }, 'none'],
    [{ op: 'replace', path: '', value: 7 }, 7],
    [{ op: 'copy', from: '/name', path: '' }, 'Ann'],
    [{ op: 'move', from: '/address', path: '' }, { city: 'Oulu' }],
  ] as const) {
    assert.equal((await sendJson(url, 'PUT', '/api/companies/1', COMPANY)).status, 204)
    const reply = await sendJson(url, 'PATCH', '/api/companies/1/employees/7', [operation], PATCH)
    assert.equal(reply.status, 204, operation.op)
    assert.deepEqual((await item(url)).employees, [employee, COMPANY.employees[1]], operation.op)
  }
})

test('where elements have ids a segment is never an index, so that no other element is read or written', async (t) => {
  const lists = {
    numbers: [{ id: 1 }, { id: 0 }],
    texts: [{ id: '01' }, { id: '2' }, { id: '-1' }],
    mixed: ['none', { id: 5 }, { name: 'without' }],
    nested: [[{ id: 8 }, { id: 9 }]],
  }
  const data = { f: [{ id: 0, ...lists }], profile: lists }
  const { url } = await startHere(t, { data })
  for (const base of ['/api/f/0', '/api/profile']) {
    const whole = (await send(url, 'GET', base)).text
    for (const path of [
      'numbers/2',
      'numbers/-1',
      'numbers/00',
      'texts/0',
      'texts/1',
      'mixed/0',
      'mixed/2',
      'nested/0/0',
    ]) {
      assert.equal((await send(url, 'GET', `${base}/${path}`)).status, 404, path)
      const refused = await sendJson(url, 'PUT', `${base}/${path}`, 'x')
      assert.equal(refused.status, 404, path)
      assert.match(refused.text, /whose elements have ids a segment is an id/)
      assert.equal((await sendJson(url, 'PATCH', `${base}/${path}`, { x: 1 })).status, 404, path)
      const removal = [{ op: 'remove', path: '' }]
      assert.equal((await sendJson(url, 'PATCH', `${base}/${path}`, removal, PATCH)).status, 404, path)
    }
    assert.equal((await send(url, 'GET', base)).text, whole)
    for (const path of ['numbers/0', 'numbers/1', 'texts/01', 'texts/2', 'texts/-1', 'mixed/5', 'nested/0/9']) {
      assert.equal((await sendJson(url, 'PATCH', `${base}/${path}`, { at: path })).status, 204, path)
      const read = (await send(url, 'GET', `${base}/${path}`)).json<{ id: unknown; at: string }>()
      assert.deepEqual([String(read.id), read.at], [path.split('/').at(-1), path])
    }
    // The element has another id now, and the segment names none.
    const renamed = await sendJson(url, 'PATCH', `${base}/numbers/1`, { id: 7 }, { Prefer: 'return=representation' })
    assert.deepEqual([renamed.status, renamed.headers.etag], [204, undefined])
  }
})

test('PUT of an element that is named by its id keeps that id, so that it can be repeated', async (t) => {
  const url = await start(t)
  const at = '/api/companies/1/employees/7'
  const headers = { 'Content-Type': 'application/json', Prefer: 'return=representation' }
  for (let time = 0; time < 2; time++) {
    const put = await send(url, 'PUT', at, { headers, body: '{"name":"Eve"}' })
    assert.deepEqual([put.status, put.json()], [200, { id: 7, name: 'Eve' }])
  }
  assert.equal((await sendJson(url, 'PUT', at, { id: 8 })).status, 409)
  assert.equal((await sendJson(url, 'PUT', at, { id: 7, name: 'Eve' })).status, 204)
  assert.deepEqual((await item(url)).employees, [{ id: 7, name: 'Eve' }, COMPANY.employees[1]])
})

test('values inside a single object are written like those of an item', async (t) => {
  const url = await start(t)
  assert.equal((await sendJson(url, 'PUT', '/api/profile/window/width', 120)).status, 204)
  assert.equal((await sendJson(url, 'PATCH', '/api/profile/window', { height: 40 })).status, 204)
  assert.equal((await sendJson(url, 'PUT', '/api/profile/theme', 'light')).status, 204)
  const now = { theme: 'light', window: { width: 120, height: 40 } }
  assert.deepEqual((await send(url, 'GET', '/api/profile')).json(), now)
  assert.equal((await sendJson(url, 'PUT', '/api/profile/colour', 'red')).status, 404)
})

test('a missing value gets 404, another id 409, and a result that is no item 422', async (t) => {
  const url = await start(t)
  const status = async (method: string, path: string, body: unknown) => (await sendJson(url, method, path, body)).status
  for (const method of ['PUT', 'PATCH']) {
    assert.equal(await status(method, '/api/companies/1/address', { a: 1 }), 404)
    assert.equal(await status(method, '/api/companies/1/name/x', { a: 1 }), 404)
    assert.equal(await status(method, '/api/companies/1/tags/2', { a: 1 }), 404)
    assert.equal(await status(method, '/api/companies/3/name', { a: 1 }), 404)
    assert.equal(await status(method, '/api/nothing/3/name', { a: 1 }), 404)
  }
  for (const name of ['constructor', '__proto__', 'toString', 'length'])
    assert.equal(await status('PUT', `/api/companies/1/${name}`, 1), 404, name)
  assert.equal(await status('PUT', '/api/companies/1/tags/length', 1), 404)
  assert.equal(await status('PUT', '/api/companies/1/id', 5), 409)
  assert.equal(await status('PUT', '/api/companies/1/id', null), 409)
  assert.equal(await status('PUT', '/api/companies/1/id', 1), 204)
  const deep = JSON.parse(`${'['.repeat(99)}${']'.repeat(99)}`) as unknown
  assert.equal(await status('PUT', '/api/companies/1/name', deep), 204)
  assert.equal(await status('PUT', '/api/companies/1/employees/7/name', deep), 422)
  assert.equal((await send(url, 'PUT', '/api/companies/1/tags')).status, 400)
  assert.equal((await send(url, 'DELETE', '/api/companies/1/tags')).status, 405)
  assert.equal((await send(url, 'OPTIONS', '/api/companies/1/tags')).headers.allow, 'GET, HEAD, PUT, PATCH, OPTIONS')
})

test('If-Match takes the ETag of the value or of the item, and the response has that of the value', async (t) => {
  const url = await start(t)
  const path = '/api/companies/1/tags'
  const put = (value: unknown, headers: Record<string, string>) => sendJson(url, 'PUT', path, value, headers)
  const tagOf = async (where: string) => String((await send(url, 'GET', where)).headers.etag)
  const [ofItem, ofValue] = [await tagOf('/api/companies/1'), await tagOf(path)]
  const first = await put(['c'], { 'If-Match': `W/${ofItem}` })
  assert.equal(first.status, 204)
  assert.equal(first.headers.etag, await tagOf(path))
  assert.equal((await put(['d'], { 'If-Match': ofItem })).status, 412)
  for (const stale of [ofValue, `W/${ofValue}`]) assert.equal((await put(['d'], { 'If-Match': stale })).status, 412)
  assert.equal((await put(['d'], { 'If-None-Match': '*' })).status, 412)
  const compressed = `${String(first.headers.etag).slice(0, -1)}-gzip"`
  const second = await put(['d'], { 'If-Match': compressed, Prefer: 'return=representation' })
  assert.deepEqual(
    [second.status, second.json(), second.headers['preference-applied']],
    [200, ['d'], 'return=representation'],
  )
  const sent = { 'Idempotency-Key': 'once', 'If-Match': String(second.headers.etag) }
  const once = await put(['e'], sent)
  const again = await put(['e'], sent)
  assert.deepEqual([once.status, again.status], [204, 204])
  assert.equal(again.headers['journal-position'], once.headers['journal-position'])
})

test('the client reads and writes values inside an item and a single object', async (t) => {
  const url = await start(t)
  const client = connect(url)
  t.after(() => client.close())
  const answered = <T>(answer: Promise<T>): Promise<T> => within('a response to the client', answer)
  const city = client.collection<typeof COMPANY>('companies').item(1).at<string>('employees', 9, 'address', 'city')
  const read = await answered(city.get())
  assert.equal(read.value, 'Espoo')
  const written = await answered(city.replace('Vaasa', { ifMatch: read.etag }))
  assert.equal(written.etag, (await answered(city.get())).etag)
  await assert.rejects(answered(city.replace('Kemi', { ifMatch: read.etag })), { status: 412 })
  const window = client.object<typeof DATA.profile>('profile').at<{ width: number; height?: number }>('window')
  await answered(window.patch({ height: 4 }))
  await answered(window.patch([{ op: 'remove', path: '/width' }]))
  assert.deepEqual((await answered(window.get())).value, { height: 4 })
})
