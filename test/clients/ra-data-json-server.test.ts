import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { fetchUtils } from 'ra-core'
import jsonServerProvider from 'ra-data-json-server'
import { authentication, keyOf } from '../support/authentication.ts'
import { startProgram } from '../support/server.ts'
import { AS_JSON_SERVER, BLOG } from './blog.ts'

const { posts, comments } = BLOG
const shared = await startProgram({ after }, { data: BLOG, flags: AS_JSON_SERVER })
const reader = jsonServerProvider(`${shared.url}/api`)

/** A provider of a server of its own, which a test may write to. */
async function startWriter(t: TestContext) {
  const { url } = await startProgram(t, { data: BLOG, flags: AS_JSON_SERVER })
  return jsonServerProvider(`${url}/api`)
}

test('getList of ra-data-json-server returns a sorted page and the total', async () => {
  const list = (page: number) =>
    reader.getList('posts', { pagination: { page, perPage: 3 }, sort: { field: 'views', order: 'DESC' }, filter: {} })
  assert.deepEqual(await list(1), { data: [posts[3], posts[1], posts[2]], total: 4 })
  assert.deepEqual(await list(2), { data: [posts[0]], total: 4 })
})

test('getList of ra-data-json-server filters by fields, nested fields, operators and the full text', async () => {
  const idsOf = async (filter: object) => {
    const sort = { field: 'id', order: 'ASC' } as const
    const { data, total } = await reader.getList('posts', { pagination: { page: 1, perPage: 10 }, sort, filter })
    assert.equal(total, data.length)
    return data.map(({ id }) => id)
  }
  assert.deepEqual(await idsOf({ title: 'third' }), [3])
  assert.deepEqual(await idsOf({ author: { name: 'ada' } }), [1, 3])
  assert.deepEqual(await idsOf({ id: [1, 3] }), [1, 3])
  assert.deepEqual(await idsOf({ views_gte: 200, views_lte: 300 }), [2, 3])
  assert.deepEqual(await idsOf({ title_like: 'IR' }), [1, 3])
  assert.deepEqual(await idsOf({ q: 'cleo' }), ['E1:09/4'])
  assert.deepEqual(await idsOf({ title: 'none' }), [])
})

test('getOne of ra-data-json-server returns an item, and an error with the status of a missing one', async () => {
  assert.deepEqual(await reader.getOne('posts', { id: 1 }), { data: posts[0] })
  await assert.rejects(reader.getOne('posts', { id: 9 }), { name: 'HttpError', status: 404, message: 'Not Found' })
})

test('getMany of ra-data-json-server returns the items of numbers and texts', async () => {
  assert.deepEqual(await reader.getMany('posts', { ids: [3, 'E1:09/4'] }), { data: [posts[2], posts[3]] })
})

test('getManyReference of ra-data-json-server returns the items that refer to one', async () => {
  const found = await reader.getManyReference('comments', {
    target: 'postId',
    id: 1,
    pagination: { page: 1, perPage: 25 },
    sort: { field: 'id', order: 'DESC' },
    filter: {},
  })
  assert.deepEqual(found, { data: [comments[1], comments[0]], total: 2 })
})

test('each read of ra-data-json-server embeds related items', async () => {
  const embedded = { ...posts[1], comments: [comments[2]] }
  const list = { pagination: { page: 1, perPage: 1 }, sort: { field: 'id', order: 'ASC' }, filter: { id: 2 } } as const
  const meta = { embed: 'comments' }
  assert.deepEqual(await reader.getOne('posts', { id: 2, meta }), { data: embedded })
  assert.deepEqual(await reader.getMany('posts', { ids: [2], meta }), { data: [embedded] })
  assert.deepEqual(await reader.getList('posts', { ...list, meta }), { data: [embedded], total: 1 })
  assert.deepEqual(await reader.getOne('comments', { id: 3, meta: { embed: 'post' } }), {
    data: { ...comments[2], post: posts[1] },
  })
  const ofPost = { ...list, filter: {}, target: 'postId', id: 2, meta: { embed: 'post' } }
  assert.deepEqual(await reader.getManyReference('comments', ofPost), {
    data: [{ ...comments[2], post: posts[1] }],
    total: 1,
  })
})

test('create of ra-data-json-server returns the item with its new id', async (t) => {
  const provider = await startWriter(t)
  const { data } = await provider.create('posts', { data: { title: 'new', views: 0 } })
  assert.deepEqual(data, { id: data.id, title: 'new', views: 0 })
  assert.deepEqual(await provider.getOne('posts', { id: data.id }), { data })
})

test('update of ra-data-json-server replaces an item and returns it', async (t) => {
  const provider = await startWriter(t)
  const data = { ...posts[0], title: 'changed' }
  assert.deepEqual(await provider.update('posts', { id: 1, data, previousData: posts[0] }), { data })
  assert.deepEqual(await provider.getOne('posts', { id: 1 }), { data })
})

test('updateMany of ra-data-json-server replaces items and returns their ids', async (t) => {
  const provider = await startWriter(t)
  assert.deepEqual(await provider.updateMany('posts', { ids: [1, 3], data: { views: 0 } }), { data: [1, 3] })
  const { data } = await provider.getMany('posts', { ids: [1, 3] })
  assert.deepEqual(data, [
    { id: 1, views: 0 },
    { id: 3, views: 0 },
  ])
})

test('delete of ra-data-json-server deletes an item and returns it', async (t) => {
  const provider = await startWriter(t)
  assert.deepEqual(await provider.delete('posts', { id: 2, previousData: posts[1] }), { data: posts[1] })
  await assert.rejects(provider.getOne('posts', { id: 2 }), { status: 404 })
})

test('deleteMany of ra-data-json-server deletes items and returns their ids', async (t) => {
  const provider = await startWriter(t)
  assert.deepEqual(await provider.deleteMany('comments', { ids: [1, 3] }), { data: [1, 3] })
  const sort = { field: 'id', order: 'ASC' } as const
  const rest = await provider.getList('comments', { pagination: { page: 1, perPage: 10 }, sort, filter: {} })
  assert.deepEqual(rest, { data: [comments[1]], total: 1 })
})

test('a client of ra-data-json-server that adds headers sends them with each request', async (t) => {
  const { url } = await startProgram(t, { data: BLOG, flags: authentication(['apikey'], AS_JSON_SERVER) })
  const httpClient = (address: string, options: fetchUtils.Options = {}) => {
    const headers = new Headers(options.headers ?? { Accept: 'application/json' })
    headers.set('X-API-KEY', keyOf('writer'))
    return fetchUtils.fetchJson(address, { ...options, headers })
  }
  const provider = jsonServerProvider(`${url}/api`, httpClient)
  assert.deepEqual(await provider.getOne('posts', { id: 1 }), { data: posts[0] })
  const data = { ...posts[0], views: 1 }
  assert.deepEqual(await provider.update('posts', { id: 1, data, previousData: posts[0] }), { data })
  await assert.rejects(jsonServerProvider(`${url}/api`).getOne('posts', { id: 1 }), { status: 401 })
})
