import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { connect } from '../../src/client/index.ts'
import { each, within } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { send, sendJson } from '../support/requests.ts'
import { startHere } from '../support/service.ts'

const USERS = Array.from({ length: 7 }, (_, id) => ({ id, city: id % 2 ? 'NY' : 'London' }))
const DATA = { users: USERS, 'a b': [], profile: { theme: 'dark' } }
const FLAGS = ['--Api.UseResultObject', 'true']

interface ResultObject {
  readonly results: readonly unknown[]
  readonly link: Readonly<Record<'Prev' | 'Next' | 'First' | 'Last', string>>
  readonly count: number
}

const start = async (t: Parameters<typeof startHere>[0], ...flags: readonly string[]) =>
  (await startHere(t, { data: DATA, flags: [...FLAGS, ...flags] })).url

test('a page is an object with results, link, count and the parameters', async (t) => {
  const url = await start(t)
  const page = async (path: string) => (await send(url, 'GET', path)).json()
  assert.deepEqual(await page('/api/users?skip=2&take=2&id_lt=6'), {
    results: USERS.slice(2, 4),
    link: {
      Prev: '/api/users?take=2&id_lt=6&skip=0',
      Next: '/api/users?take=2&id_lt=6&skip=4',
      First: '/api/users?take=2&id_lt=6&skip=0',
      Last: '/api/users?take=2&id_lt=6&skip=4',
    },
    count: 6,
    skip: 2,
    take: 2,
  })
  const first = (await page('/api/users?page=1&per_page=4')) as ResultObject
  assert.equal(first.link.Prev, '')
  assert.deepEqual(await page(first.link.Next), {
    ...first,
    results: USERS.slice(4),
    link: { ...first.link, Prev: '/api/users?per_page=4&page=1', Next: '' },
    page: 2,
  })
  const empty = (await page('/api/a%20b?limit=3')) as object
  assert.deepEqual(
    [Object.keys(empty), (empty as ResultObject).count],
    [['results', 'link', 'count', 'offset', 'limit'], 0],
  )
  assert.deepEqual(Object.keys((await page('/api/users')) as object).slice(3), ['page', 'pageSize'])
  const counted = (await page('/api/users?aggregate=count&groupBy=city')) as ResultObject
  assert.deepEqual(counted.results, [
    { city: 'London', count: 4 },
    { city: 'NY', count: 3 },
  ])
})

test('headers are the same, and cached and past pages are objects, too', async (t) => {
  const url = await start(t)
  const first = await send(url, 'GET', '/api/users?take=2')
  assert.equal(first.headers['x-total-count'], '7')
  assert.match(String(first.headers.link), /rel="next"/)
  for (let n = 0; n < 8; n++) assert.equal((await send(url, 'GET', '/api/users?take=2')).text, first.text)
  const position = String(first.headers['journal-position'])
  await send(url, 'DELETE', '/api/users/0')
  const then = (await send(url, 'GET', `/api/users?take=2&asOf=${position}`)).json<ResultObject>()
  assert.deepEqual([then.results, then.count], [USERS.slice(0, 2), 7])
  const tag = { headers: { 'If-None-Match': String(first.headers.etag) } }
  assert.equal((await send(url, 'GET', '/api/users?take=2', tag)).status, 200)
})

test('single objects, whole results and names are unchanged', async (t) => {
  const url = await start(t)
  assert.deepEqual((await send(url, 'GET', '/api/profile')).json(), DATA.profile)
  assert.deepEqual((await send(url, 'GET', '/api/users?all=true')).json(), USERS)
  assert.deepEqual((await send(url, 'GET', '/api')).json(), ['users', 'a b', 'profile'])
})

test('a page that is sent in pieces is complete', async (t) => {
  const url = await start(t)
  const long = Array.from({ length: 40 }, (_, id) => ({ id, text: 'ä'.repeat(20_000) }))
  assert.equal((await sendJson(url, 'POST', '/api/long', long)).status, 201)
  const page = (await send(url, 'GET', '/api/long')).json<ResultObject>()
  assert.deepEqual([page.results, page.count], [long, 40])
})

test('links include the base path', async (t) => {
  const url = await start(t, '--Http.BasePath', '/recollect')
  for (let n = 0; n < 6; n++) {
    const { link } = (await send(url, 'GET', '/recollect/api/users?take=3')).json<ResultObject>()
    assert.equal(link.Next, '/recollect/api/users?take=3&skip=3')
  }
})

test('the client reads result objects, and OpenAPI describes them', async (t) => {
  const url = await start(t)
  const client = connect(url)
  t.after(() => client.close())
  const users = client.collection<(typeof USERS)[number]>('users')
  const { items, total } = await within('a page of users', users.where({ city: 'NY' }).page(1, 2).get())
  assert.deepEqual([items.length, total], [2, 3])
  const all: unknown[] = []
  for await (const user of each('the next user', users.all())) all.push(user)
  assert.deepEqual(all, USERS)
  const { paths, components } = (await send(url, 'GET', '/openapi.json')).json<{
    paths: Record<string, { get: { responses: { 200: { content: Record<string, { schema: object }> } } } }>
    components: object
  }>()
  const schema = paths['/api/users']?.get.responses[200].content['application/json']?.schema
  const validate = new Ajv2020({ strict: false }).compile({ ...schema, components })
  assert.equal(validate((await send(url, 'GET', '/api/users')).json()), true)
  assert.equal(validate({ results: [] }), false)
})

test('a start with other settings that affect pages gives them other tags', async (t) => {
  const directory = await temporaryDirectory(t)
  const time = ['--Collections', JSON.stringify({ users: { Time: 'at' } })]
  const tags = new Set<string>()
  for (const flags of [[], FLAGS, time, [...FLAGS, ...time], ['--Api.Compatibility', 'json-server']]) {
    await t.test(flags.join(' '), async (t) => {
      const { url } = await startHere(t, { directory, flags, ...(tags.size === 0 && { data: DATA }) })
      const { headers } = await send(url, 'GET', '/api/users')
      const again = await send(url, 'GET', '/api/users', { headers: { 'If-None-Match': headers.etag as string } })
      assert.equal(again.status, 304)
      tags.add(headers.etag as string)
    })
  }
  assert.equal(tags.size, 5)
})
