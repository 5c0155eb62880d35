import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { fetchUtils } from 'ra-core'
import simpleRestProvider from 'ra-data-simple-rest'
import { startProgram } from '../support/server.ts'
import { AS_JSON_SERVER, BLOG } from './blog.ts'
import { expectedToFail, type Reason } from './expected.ts'

const { posts, comments } = BLOG
const shared = await startProgram({ after }, { data: BLOG })
const reader = simpleRestProvider(`${shared.url}/api`)

const FIRST_PAGE = { pagination: { page: 1, perPage: 3 }, sort: { field: 'views', order: 'DESC' }, filter: {} } as const

/** The dialect of FakeRest, which this client speaks: `sort`, `range`, `filter` and `embed` are JSON. */
const NO_DIALECT: Omit<Reason, 'error'> = {
  because:
    'the parameters sort, range, filter and embed of FakeRest are JSON, which the server reads as names of fields',
}
const NO_RANGE: Reason = {
  because: 'a page has X-Total-Count and no Content-Range',
  error: /^The Content-Range header is missing in the HTTP Response/,
}

/** A provider of a server of its own, which a test may write to. */
async function startWriter(t: TestContext) {
  const { url } = await startProgram(t, { data: BLOG, flags: AS_JSON_SERVER })
  return simpleRestProvider(`${url}/api`)
}

expectedToFail('getList of ra-data-simple-rest returns a sorted page and the total', NO_RANGE, async () => {
  const found = await reader.getList('posts', FIRST_PAGE)
  assert.deepEqual(found, { data: [posts[3], posts[1], posts[2]], total: 4 })
})

expectedToFail(
  'getList of ra-data-simple-rest returns a sorted page where the total is in X-Total-Count',
  { ...NO_DIALECT, error: /\+ +total: 0\n/ },
  async () => {
    const provider = simpleRestProvider(`${shared.url}/api`, fetchUtils.fetchJson, 'X-Total-Count')
    const found = await provider.getList('posts', FIRST_PAGE)
    assert.deepEqual(found, { data: [posts[3], posts[1], posts[2]], total: 4 })
  },
)

expectedToFail('getList of ra-data-simple-rest filters by a field', NO_RANGE, async () => {
  const found = await reader.getList('posts', { ...FIRST_PAGE, filter: { title: 'third' } })
  assert.deepEqual(found, { data: [posts[2]], total: 1 })
})

test('getOne of ra-data-simple-rest returns an item, and an error with the status of a missing one', async () => {
  assert.deepEqual(await reader.getOne('posts', { id: 1 }), { data: posts[0] })
  assert.deepEqual(await reader.getOne('posts', { id: 'E1:09/4' }), { data: posts[3] })
  await assert.rejects(reader.getOne('posts', { id: 9 }), { name: 'HttpError', status: 404, message: 'Not Found' })
})

expectedToFail('getOne of ra-data-simple-rest embeds related items', { ...NO_DIALECT, error: /^400 / }, async () => {
  const found = await reader.getOne('posts', { id: 2, meta: { embed: ['comments'] } })
  assert.deepEqual(found, { data: { ...posts[1], comments: [comments[2]] } })
})

expectedToFail(
  'getMany of ra-data-simple-rest returns the items of some ids',
  { ...NO_DIALECT, error: /\+ +data: \[\]\n/ },
  async () => {
    assert.deepEqual(await reader.getMany('posts', { ids: [1, 3] }), { data: [posts[0], posts[2]] })
  },
)

expectedToFail('getManyReference of ra-data-simple-rest returns the items that refer to one', NO_RANGE, async () => {
  const sort = { field: 'id', order: 'DESC' } as const
  const found = await reader.getManyReference('comments', { ...FIRST_PAGE, sort, target: 'postId', id: 1 })
  assert.deepEqual(found, { data: [comments[1], comments[0]], total: 2 })
})

expectedToFail(
  "a provider of ra-data-simple-rest takes the API's URL with a slash at its end",
  { because: 'the path then has two slashes, which name an empty collection', error: /^404 / },
  async () => {
    const provider = simpleRestProvider(`${shared.url}/api/`)
    assert.deepEqual(await provider.getOne('posts', { id: 1 }), { data: posts[0] })
  },
)

test('create of ra-data-simple-rest returns the item with its new id', async (t) => {
  const provider = await startWriter(t)
  const { data } = await provider.create('posts', { data: { title: 'new' } })
  assert.deepEqual(data, { id: data.id, title: 'new' })
  assert.deepEqual(await provider.getOne('posts', { id: data.id }), { data })
})

test('update of ra-data-simple-rest replaces an item and returns it', async (t) => {
  const provider = await startWriter(t)
  const data = { ...posts[3], title: 'changed' }
  assert.deepEqual(await provider.update('posts', { id: data.id, data, previousData: posts[3] }), { data })
  assert.deepEqual(await provider.getOne('posts', { id: data.id }), { data })
})

test('updateMany of ra-data-simple-rest replaces items and returns their ids', async (t) => {
  const provider = await startWriter(t)
  const changed = await provider.updateMany('posts', { ids: [1, 3], data: { views: 0 } })
  assert.deepEqual(changed, { data: [1, 3] })
  assert.deepEqual(await provider.getOne('posts', { id: 3 }), { data: { id: 3, views: 0 } })
})

test('delete of ra-data-simple-rest deletes an item and returns it', async (t) => {
  const provider = await startWriter(t)
  assert.deepEqual(await provider.delete('posts', { id: 2, previousData: posts[1] }), { data: posts[1] })
  await assert.rejects(provider.getOne('posts', { id: 2 }), { status: 404 })
})

test('deleteMany of ra-data-simple-rest deletes items and returns their ids', async (t) => {
  const provider = await startWriter(t)
  assert.deepEqual(await provider.deleteMany('comments', { ids: [1, 3] }), { data: [1, 3] })
  for (const id of [1, 3]) await assert.rejects(provider.getOne('comments', { id }), { status: 404 })
  assert.deepEqual(await provider.getOne('comments', { id: 2 }), { data: comments[1] })
})

test('a client of ra-data-simple-rest that adds a header gets the item from an update without any setting', async (t) => {
  const { url } = await startProgram(t, { data: BLOG })
  const httpClient: typeof fetchUtils.fetchJson = (address, options = {}) => {
    const headers = new Headers(options.headers ?? { Accept: 'application/json' })
    headers.set('Prefer', 'return=representation')
    return fetchUtils.fetchJson(address, { ...options, headers })
  }
  const provider = simpleRestProvider(`${url}/api`, httpClient)
  assert.deepEqual(await provider.create('posts', { data: { title: 'new' } }), { data: { id: 4, title: 'new' } })
  const data = { id: 1, title: 'changed' }
  assert.deepEqual(await provider.update('posts', { id: 1, data, previousData: posts[0] }), { data })
})

test('a query of ra-data-simple-rest that is cancelled rejects', async () => {
  const provider = simpleRestProvider(`${shared.url}/api`)
  provider.supportAbortSignal = true
  const controller = new AbortController()
  controller.abort()
  await assert.rejects(provider.getOne('posts', { id: 1, signal: controller.signal }), { name: 'AbortError' })
})
