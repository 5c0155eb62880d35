import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { type Reply, send } from '../support/requests.ts'
import { startServer } from '../support/server.ts'
import { startHere } from '../support/service.ts'

const things = Array.from({ length: 10 }, (_, n) => ({ id: n, n, kind: n % 2 === 0 ? 'even' : 'odd' }))
const { url, stderr } = await startServer({ after }, { data: { things } })

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
  assert.deepEqual(answerOf(reply), [200, { deleted: 4, dryRun: false, ids: [3, 5, 7, 9] }])
  assert.deepEqual(await idsAt(path), [0, 1, 2, 4, 6, 8])
  const events = (await send(url, 'GET', '/events?order=desc&limit=4')).json<{ type: string; requestId: string }[]>()
  assert.deepEqual(
    events.map(({ type }) => type),
    ['ItemDeleted', 'ItemDeleted', 'ItemDeleted', 'ItemDeleted'],
  )
  assert.equal(new Set(events.map(({ requestId }) => requestId)).size, 1)
  assert.deepEqual(answerOf(await send(url, 'DELETE', `${path}?n=99`)), [200, { deleted: 0, dryRun: false, ids: [] }])
})

test('dryRun reports what would be deleted, and deletes nothing', async () => {
  const path = await copied('dry')
  const { headers } = await send(url, 'HEAD', path)
  const reply = await send(url, 'DELETE', `${path}?dryRun=true&kind=even&n_lte=4`)
  assert.deepEqual(answerOf(reply), [200, { deleted: 3, dryRun: true, ids: [0, 2, 4] }])
  assert.equal(reply.headers['journal-position'], headers['journal-position'])
  const whole = await send(url, 'DELETE', `${path}?dryRun=true`)
  assert.equal(JSON.parse(whole.text).deleted, 10)
  assert.equal(((await idsAt(path)) as unknown[]).length, 10)
  assert.equal(JSON.parse((await send(url, 'DELETE', `${path}?dryRun=false&n=0`)).text).deleted, 1)
})

test('DELETE without filters removes the collection; POST and PUT create it again, with new ids', async () => {
  const path = await copied('removed')
  const { status, text } = await send(url, 'DELETE', path)
  assert.equal(status, 200)
  assert.equal(JSON.parse(text).deleted, 10)
  assert.equal((await send(url, 'GET', path)).status, 404)
  assert.equal((await send(url, 'GET', '/api')).json<string[]>().includes('removed'), false)
  assert.equal((await send(url, 'DELETE', path)).status, 404)
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
    'all=true',
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
  for (const header of ['If-Match', 'If-None-Match', 'If-Unmodified-Since']) {
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
  assert.deepEqual(JSON.parse(text), { deleted: 2, dryRun: false, ids: [2, 3] })
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
  const removed = await send(url, 'DELETE', path, { headers: removal })
  assert.equal((await send(url, 'DELETE', path, { headers: removal })).text, removed.text)
})

test('DELETE without filters needs the role admin', async () => {
  const users = ['reader', 'writer', 'admin'].map((role) => ({ Name: role, Key: `the-key-of-the-${role}`, Role: role }))
  const flags = ['--Authentication.Enabled', 'true', '--Authentication.AuthenticationType', 'apikey']
  const keys = ['--Authentication.ApiKeys', JSON.stringify(users)]
  const own = await startHere({ after }, { data: { things }, flags: [...flags, ...keys] })
  const as = (role: string, query = '') =>
    send(own.url, 'DELETE', `/api/things${query}`, { headers: { 'X-API-KEY': `the-key-of-the-${role}` } })
  assert.equal((await as('reader', '?n=1')).status, 403)
  assert.equal((await as('writer')).status, 403)
  assert.equal((await as('writer', '?dryRun=true')).status, 403)
  assert.equal((await as('writer', '?n=1')).status, 200)
  assert.equal((await as('admin')).status, 200)
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
