import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { connect } from '../../src/client/index.ts'
import { within } from '../support/deadline.ts'
import { headOf, type Reply, send, sendJson } from '../support/requests.ts'
import { startProgram } from '../support/server.ts'
import { startHere } from '../support/service.ts'

const things = Array.from({ length: 10 }, (_, n) => ({ id: n, n, kind: n % 2 === 0 ? 'even' : 'odd' }))
const { url, stderr } = await startProgram({ after }, { data: { things, profile: { n: 1 }, settings: { n: 1 } } })

/** A copy of the things. */
async function copied(name: string): Promise<string> {
  const body = JSON.stringify(things)
  await send(url, 'POST', `/api/${name}`, { headers: { 'Content-Type': 'application/json' }, body })
  return `/api/${name}`
}

async function idsAt(path: string): Promise<unknown> {
  const { status, text } = await send(url, 'GET', path)
  return status === 404 ? undefined : JSON.parse(text).map(({ id }: { id: unknown }) => id)
}

const answerOf = ({ status, text }: Reply) => [status, JSON.parse(text)]

test('DELETE with filters deletes the selected items in one write', async () => {
  const path = await copied('filtered')
  const reply = await send(url, 'DELETE', `${path}?kind=odd&n_gt=2`)
  assert.deepEqual(answerOf(reply), [200, { deleted: 4, dryRun: false, writes: 1, ids: [3, 5, 7, 9] }])
  assert.deepEqual(await idsAt(path), [0, 1, 2, 4, 6, 8])
  const events = (await send(url, 'GET', '/events?order=desc&limit=4')).json<{ type: string; requestId: string }[]>()
  assert.deepEqual(
    events.map(({ type }) => type),
    ['ItemDeleted', 'ItemDeleted', 'ItemDeleted', 'ItemDeleted'],
  )
  assert.equal(new Set(events.map(({ requestId }) => requestId)).size, 1)
  assert.deepEqual(answerOf(await send(url, 'DELETE', `${path}?n=99`)), [
    200,
    { deleted: 0, dryRun: false, writes: 0, ids: [] },
  ])
})

test('dryRun reports what would be deleted, and deletes nothing', async () => {
  const path = await copied('dry')
  const { headers } = await send(url, 'HEAD', path)
  const reply = await send(url, 'DELETE', `${path}?dryRun=true&kind=even&n_lte=4`)
  assert.deepEqual(answerOf(reply), [200, { deleted: 3, dryRun: true, writes: 0, ids: [0, 2, 4] }])
  assert.equal(reply.headers['journal-position'], headers['journal-position'])
  const whole = await send(url, 'DELETE', `${path}?all=true&dryRun=true`)
  assert.equal(JSON.parse(whole.text).deleted, 10)
  assert.equal(((await idsAt(path)) as unknown[]).length, 10)
  assert.equal(JSON.parse((await send(url, 'DELETE', `${path}?dryRun=false&n=0`)).text).deleted, 1)
})

test('DELETE with all=true removes the collection; POST and PUT create it again, with new ids', async () => {
  const path = await copied('removed')
  const { status, text } = await send(url, 'DELETE', `${path}?all=true`)
  assert.equal(status, 200)
  assert.equal(JSON.parse(text).deleted, 10)
  assert.equal((await send(url, 'GET', path)).status, 404)
  assert.equal((await send(url, 'GET', '/api')).json<string[]>().includes('removed'), false)
  assert.equal((await send(url, 'DELETE', `${path}?all=true`)).status, 404)
  assert.equal((await send(url, 'DELETE', `${path}?n=1`)).status, 404)

  const created = await send(url, 'PUT', path)
  assert.deepEqual([created.status, created.headers.location, created.text], [201, path, '[]'])
  assert.deepEqual(await idsAt(path), [])
  assert.equal((await send(url, 'PUT', path)).status, 204)
  const body = '{}'
  const posted = await send(url, 'POST', path, { headers: { 'Content-Type': 'application/json' }, body })
  assert.equal(posted.text, '{"id":10}')
  assert.equal((await send(url, 'PUT', path)).status, 204)
  assert.deepEqual(await idsAt(path), [10])
})

test('an invalid filter is rejected and deletes nothing', async () => {
  const { headers } = await send(url, 'HEAD', '/api/things')
  for (const query of [
    'page=1',
    'n=1&pageSize=2',
    'per_page=1',
    'skip=1',
    'take=1',
    'offset=1',
    'limit=1',
    'sort=n',
    'fields=n',
    'asOf=1',
    'all=true&n=1',
    'all=yes',
    'all=true&all=true',
    'all=false',
    'dryRun=true',
    '',
    'aggregate=count',
    'distinct=kind',
    'newestBy=kind',
    'window=1h',
    '_limit=1',
    '_sort=n',
    'dryRun=yes',
    'dryRun=true&dryRun=true',
    'n_exists=maybe',
    'n=%',
  ]) {
    const { status, text } = await send(url, 'DELETE', `/api/things?${query}`)
    assert.equal(status, 400, `${query}: ${text}`)
  }
  for (const header of ['If-Match', 'If-None-Match', 'If-Unmodified-Since', 'If-Unchanged-Since']) {
    const { status } = await send(url, 'DELETE', '/api/things', { headers: { [header]: '*' } })
    assert.equal(status, 400, header)
  }
  const { status, text } = await send(url, 'PUT', '/api/things', {
    headers: { 'Content-Type': 'application/json' },
    body: '[]',
  })
  assert.equal(status, 400)
  assert.match(text, /has no body/)
  assert.equal((await send(url, 'PUT', '/api/things?n=1')).status, 400)
  assert.equal((await send(url, 'HEAD', '/api/things')).headers.etag, headers.etag)
})

/** The same request through the fast front, and through Koa, which answers those of a page. */
const WAYS: readonly Record<string, string>[] = [{}, { Origin: 'http://localhost' }]

async function refusedWith(detail: RegExp, path: string, options: Parameters<typeof send>[3] = {}): Promise<void> {
  for (const headers of WAYS) {
    const sent = { ...options, headers: { ...options.headers, ...headers } }
    const { status, text } = await send(url, 'DELETE', path, sent)
    assert.equal(status, 400, `${path}: ${text}`)
    assert.match(JSON.parse(text).detail, detail, path)
  }
}

test('DELETE of a list with a body is rejected and says what selects items, whatever the body and the filters', async () => {
  const path = await copied('with-body')
  for (const [query, body] of [
    ['', '{"ids":[3]}'],
    ['?all=true', '[3]'],
    ['?n=1', '{}'],
    ['?dryRun=true&n=1', ' '],
  ] as const) {
    for (const type of ['application/json', 'text/plain']) {
      const headers = { 'Content-Type': type, 'Content-Length': String(body.length) }
      await refusedWith(/has no body.*\?id_in=3,5/, path + query, { headers, body })
    }
    await refusedWith(/has no body/, path + query, { headers: { 'Transfer-Encoding': 'chunked' }, body })
  }
  assert.equal(((await idsAt(path)) as unknown[]).length, 10)
  const { text } = await send(url, 'DELETE', `${path}?id_in=3,5`, { headers: { 'Content-Length': '0' } })
  assert.equal(JSON.parse(text).deleted, 2)
})

test('DELETE of an item or a single object may have a body', async () => {
  const path = await copied('item-with-body')
  for (const headers of WAYS) {
    const sent = {
      headers: { 'Content-Type': 'application/json', 'Content-Length': '8', ...headers },
      body: '{"id":3}',
    }
    assert.equal((await send(url, 'DELETE', `${path}/${headers.Origin ? 3 : 4}`, sent)).status, 204)
    assert.equal((await send(url, 'DELETE', headers.Origin ? '/api/profile' : '/api/settings', sent)).status, 204)
  }
  assert.deepEqual(await idsAt(path), [0, 1, 2, 5, 6, 7, 8, 9])
})

test('an empty text to look for is rejected in a DELETE, as it would match everything', async () => {
  const path = await copied('empty-text')
  const suffixes = ['contains', 'startswith', 'endswith', 'like', 'istartswith', 'iendswith', 'gt', 'gte']
  const queries = ['q=', 'q', 'q=odd&q=', 'kind:contains=', 'kind:startsWith=', 'kind:endsWith=', 'kind_contains']
  for (const query of [...queries, ...suffixes.map((suffix) => `kind_${suffix}=`)]) {
    await refusedWith(/^The filter (q|kind_\w+) of a DELETE is empty/, `${path}?${query}`)
    await refusedWith(/is empty/, `${path}?n=1&${query}`)
  }
  await refusedWith(/is empty/, `${path}?kind_contains=odd&kind_contains=`)
  assert.equal(((await idsAt(path)) as unknown[]).length, 10)
  // These match nothing, or the empty text alone.
  for (const query of ['kind=', 'kind_eq=', 'id_in=', 'id=', 'kind_lt=', 'kind_lte=']) {
    const { status, text } = await send(url, 'DELETE', `${path}?${query}`)
    assert.deepEqual([status, JSON.parse(text).deleted], [200, 0], query)
  }
})

test('a slash at the end of a DELETE of a list is rejected, as the id is empty; of an item it is ignored', async () => {
  const path = await copied('empty-id')
  for (const query of ['', '?all=true', '?n=1', '?dryRun=true']) {
    await refusedWith(/no slash at its end, .* empty id/, `${path}/${query}`)
  }
  assert.equal(((await idsAt(path)) as unknown[]).length, 10)
  assert.equal((await send(url, 'DELETE', `${path}/9/`)).status, 204)
  for (const id of ['%20', '%00', 'undefined', 'null', 'NaN']) {
    assert.equal((await send(url, 'DELETE', `${path}/${id}`)).status, 404, id)
  }
  assert.equal(((await idsAt(path)) as unknown[]).length, 9)
})

test('DELETE without filters is rejected and says what removes a whole collection', async () => {
  const path = await copied('unfiltered')
  for (const query of ['', '?', '?&', '?all=false', '?dryRun=true', '?dryRun=false&all=false']) {
    await refusedWith(/needs filters, for example \?id_in=3,5\. With \?all=true it removes the whole/, path + query)
  }
  await refusedWith(/all=true removes the whole collection, so it takes no filters/, `${path}?all=true&n=1`)
  await refusedWith(/takes no filters and no q/, `${path}?q=x&all=true`)
  assert.equal(((await idsAt(path)) as unknown[]).length, 10)
  await refusedWith(/needs filters/, '/api/nothing')
})

test('filters of the event time may be relative to now, other fields may not', async () => {
  const flags = ['--Collections', JSON.stringify({ readings: { Indexes: [], Time: 'at' } })]
  const days = [1, 20, 40, 60].map((day) => ({ at: new Date(Date.now() - day * 86_400_000).toISOString() }))
  const own = await startHere({ after }, { data: { readings: days, others: days }, flags })
  for (const path of ['/api/others?at_lt=now-30d', '/api/readings?made_lt=now-30d']) {
    const { status, text } = await send(own.url, 'DELETE', path)
    assert.equal(status, 400, path)
    assert.match(text, /Collections.<name>.Time/)
  }
  // Every time is less than other text, which would delete all of them.
  for (const time of ['now-1y', 'now-', 'now-30days', '2026-1-1', '01.02.2026', 'yesterday', '']) {
    const { status, text } = await send(own.url, 'DELETE', `/api/readings?at_lt=${time}`)
    assert.equal(status, 400, time)
    assert.match(text, /now-24h/)
  }
  assert.equal((await send(own.url, 'DELETE', '/api/others?at_lt=now-1y')).status, 400)
  const { text } = await send(own.url, 'DELETE', '/api/readings?at_lt=now-30d')
  assert.deepEqual(JSON.parse(text), { deleted: 2, dryRun: false, writes: 1, ids: [2, 3] })
})

test('a retry with its Idempotency-Key gets the first response, and deletes nothing more', async () => {
  const path = await copied('retried')
  const headers = { 'Idempotency-Key': 'once' }
  const first = await send(url, 'DELETE', `${path}?kind=odd`, { headers })
  await send(url, 'PUT', `${path}/0`, { headers: { 'Content-Type': 'application/json' }, body: '{"kind":"odd"}' })
  const again = await send(url, 'DELETE', `${path}?kind=odd`, { headers })
  assert.deepEqual([again.status, again.text], [first.status, first.text])
  assert.equal(again.headers['journal-position'], first.headers['journal-position'])
  assert.equal((await send(url, 'DELETE', `${path}?kind=even`, { headers })).status, 422)
  assert.deepEqual(await idsAt(path), [0, 2, 4, 6, 8])
  const removal = { 'Idempotency-Key': 'removal' }
  const removed = await send(url, 'DELETE', `${path}?all=true`, { headers: removal })
  assert.equal(removed.status, 200)
  assert.equal((await send(url, 'DELETE', `${path}?all=true`, { headers: removal })).text, removed.text)
})

test('DELETE of a whole collection needs the role admin', async () => {
  const users = ['reader', 'writer', 'admin'].map((role) => ({ Name: role, Key: `the-key-of-the-${role}`, Role: role }))
  const flags = ['--Authentication.Enabled', 'true', '--Authentication.AuthenticationType', 'apikey']
  const keys = ['--Authentication.ApiKeys', JSON.stringify(users)]
  const own = await startHere({ after }, { data: { things }, flags: [...flags, ...keys] })
  const as = (role: string, query = '') =>
    send(own.url, 'DELETE', `/api/things${query}`, { headers: { 'X-API-KEY': `the-key-of-the-${role}` } })
  assert.equal((await as('reader', '?n=1')).status, 403)
  assert.equal((await as('writer')).status, 400)
  assert.equal((await as('writer', '?all=true')).status, 403)
  assert.equal((await as('writer', '?all=true&dryRun=true')).status, 403)
  assert.equal((await as('writer', '?n=1')).status, 200)
  assert.equal((await as('admin')).status, 400)
  assert.equal((await as('admin', '?all=true')).status, 200)
  const events = await send(own.url, 'GET', '/events?order=desc&limit=1', {
    headers: { 'X-API-KEY': 'the-key-of-the-admin' },
  })
  assert.deepEqual(
    JSON.parse(events.text).map(({ type, actor }: Record<string, unknown>) => [type, actor]),
    [['CollectionRemoved', 'admin']],
  )
})

test('the server logged no unexpected error', () => {
  assert.doesNotMatch(stderr(), /unexpected/)
})

const DATA = {
  users: [
    { id: 1, name: 'Ann' },
    { id: 2, name: 'Bob' },
  ],
  old: [{ id: 1 }],
  profile: { theme: 'dark' },
}

async function everything(url: string): Promise<Record<string, unknown>> {
  const names = (await send(url, 'GET', '/api')).json<string[]>()
  const all = names.map(async (name) => [name, (await send(url, 'GET', `/api/${name}`)).json()] as const)
  return Object.fromEntries(await Promise.all(all))
}

test('POST /api replaces all data in one write, which can be reverted by a restore', async (t) => {
  const { url } = await startHere(t, { data: DATA })
  const before = await headOf(url)
  const next = {
    users: [{ id: 2, name: 'Bo' }, { id: 1, name: 'Ann' }, { name: 'New' }],
    settings: { colour: 'red' },
    empty: [],
  }
  const rehearsed = await sendJson(url, 'POST', '/api?dryRun=true', next)
  assert.equal(rehearsed.status, 200)
  assert.deepEqual(await everything(url), DATA)

  const reply = await sendJson(url, 'POST', '/api', next)
  assert.equal(reply.status, 200, reply.text)
  const { position, ...counts } = reply.json<Record<string, number>>()
  assert.equal(Number(reply.headers['journal-position']), position)
  const events = (position as number) - before
  assert.deepEqual(counts, { dryRun: false, events, created: 2, replaced: 1, deleted: 2 })
  const users = [
    { id: 2, name: 'Bo' },
    { id: 1, name: 'Ann' },
    { id: 3, name: 'New' },
  ]
  assert.deepEqual(await everything(url), { ...next, users })
  const written = (await send(url, 'GET', `/events?from=${before + 1}`)).json<{ requestId: string }[]>()
  assert.equal(new Set(written.map(({ requestId }) => requestId)).size, 1)

  const again = (await sendJson(url, 'POST', '/api', { ...next, users })).json<{ events: number }>()
  assert.equal(again.events, 0)
  assert.equal((await sendJson(url, 'POST', '/admin/restore', { to: before })).status, 200)
  assert.deepEqual(await everything(url), DATA)
})

test('a list may replace a single object of the same name, and the reverse', async (t) => {
  const { url } = await startHere(t, { data: DATA })
  const next = { users: { name: 'one' }, profile: [{ id: 'a' }] }
  assert.equal((await sendJson(url, 'POST', '/api', next)).status, 200)
  assert.deepEqual(await everything(url), next)
  assert.equal((await sendJson(url, 'POST', '/api', {})).json<{ deleted: number }>().deleted, 2)
  assert.deepEqual(await everything(url), {})
})

test('an invalid data file is rejected with all mistakes, and changes nothing', async (t) => {
  const { url } = await startHere(t, { data: DATA, flags: ['--Limits.BatchBytes', '2000'] })
  const post = (text: string, headers = {}) =>
    send(url, 'POST', '/api', {
      body: Buffer.from(text, 'latin1'),
      headers: { 'Content-Type': 'application/json', ...headers },
    })
  const wrong = await post('{"users": [{"id": 1}, {"id": 1}, 7], "n": 5, "old": [{"id": {}}]}')
  assert.equal(wrong.status, 400)
  assert.deepEqual(
    wrong.json<{ errors: { pointer: string }[] }>().errors.map(({ pointer }) => pointer),
    ['/users/1/id', '/users/2', '/n', '/old/0/id'],
  )
  for (const text of ['[]', 'null', '"x"', '{', '{"users": [{"id": 1]}', '{"users": [{"id": 1e999}]}', '{}{}', '\xff'])
    assert.equal((await post(text)).status, 400, text)
  assert.equal((await post('')).status, 400)
  assert.equal((await post('{}', { 'Content-Type': 'text/plain' })).status, 415)
  assert.equal((await post('{}', { 'If-Match': '*' })).status, 400)
  assert.equal((await sendJson(url, 'POST', '/api?name=x', {})).status, 400)
  assert.equal((await sendJson(url, 'POST', '/api?dryRun=x', {})).status, 400)
  const long = JSON.stringify({ users: [{ text: 'x'.repeat(3000) }] })
  assert.equal((await post(long)).status, 413)
  const packed = { 'Content-Type': 'application/json', 'Content-Encoding': 'gzip' }
  assert.equal((await send(url, 'POST', '/api', { body: gzipSync(long), headers: packed })).status, 413)
  assert.deepEqual(await everything(url), DATA)
  assert.equal((await send(url, 'POST', '/api', { body: gzipSync('{"users":[]}'), headers: packed })).status, 200)
})

test('the client replaces all data', async (t) => {
  const { url } = await startHere(t, { data: DATA })
  const client = connect(url)
  t.after(() => client.close())
  const data = { users: [{ id: 1, name: 'Ann' }] }
  const { deleted, dryRun } = await within('a response to the client', client.replaceAll(data, { dryRun: true }))
  assert.deepEqual([deleted, dryRun], [3, true])
  await within('a response to the client', client.replaceAll(data))
  assert.deepEqual(await everything(url), data)
})

test('a replacement with many items is one write', async (t) => {
  const { url } = await startHere(t, { data: DATA })
  const users = Array.from({ length: 10_000 }, (_, id) => ({ id, text: `text ${id} ${'x'.repeat(200)}` }))
  const { created, deleted } = (await sendJson(url, 'POST', '/api', { users })).json<Record<string, number>>()
  assert.deepEqual([created, deleted], [9_998, 2])
  assert.equal((await send(url, 'HEAD', '/api/users')).headers['x-total-count'], '10000')
})

test('more than 1,000 collections are neither sent at once nor restored together', async (t) => {
  const { url } = await startHere(t, { data: DATA })
  const collections = (from: number, count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`c${from + index}`, []]))
  const refused = await sendJson(url, 'POST', '/api', collections(0, 1001))
  assert.equal(refused.status, 400)
  assert.match(refused.text, /at most 1000 collections can be sent at once/)
  const names = Object.keys(DATA).length
  assert.equal((await sendJson(url, 'POST', '/api', collections(0, 1000 - names))).status, 200)
  assert.equal((await sendJson(url, 'POST', '/admin/restore', { to: 0, dryRun: true })).status, 200)
  for (let more = 0; more <= names; more++) assert.equal((await send(url, 'PUT', `/api/more${more}`)).status, 201)
  const everything = await sendJson(url, 'POST', '/admin/restore', { to: 0, dryRun: true })
  assert.equal(everything.status, 422)
  assert.match(everything.text, /There are 1001 collections, and one write compares 1000 at most/)
  assert.equal((await sendJson(url, 'POST', '/admin/restore', { to: 0, collection: 'users' })).status, 200)
})
