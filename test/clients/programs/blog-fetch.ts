/** openapi-fetch with the types of openapi-typescript, for the data of `blog.ts` and a single object. */
import assert from 'node:assert/strict'
import createClient from 'openapi-fetch'
import type { components, paths } from './paths.ts'

type Post = components['schemas']['Item_posts']

const client = createClient<paths>({
  baseUrl: String(process.argv[2]),
  querySerializer: { object: { style: 'form', explode: true }, array: { style: 'form', explode: false } },
})

const query = { filters: { views_gte: '200', title_ne: 'third' }, sort: ['-views'], page: 1, pageSize: 1 }
const listed = await client.GET('/api/posts', { params: { query } })
const first: Post | undefined = listed.data?.[0]
const id: string | number | undefined = first?.id
const views: number | undefined = first?.views
assert.deepEqual([id, views, first?.author?.name], ['E1:09/4', 400, 'cleo'])
assert.equal(listed.response.headers.get('X-Total-Count'), '2')
assert.match(String(listed.response.headers.get('Link')), /page=2.*rel="next"/)

const created = await client.POST('/api/posts', { body: { title: 'new', views: 1 } })
assert.ok(created.data && 'id' in created.data)
const path = { id: String(created.data.id) }
assert.deepEqual((await client.GET('/api/posts/{id}', { params: { path } })).data, { id: 4, title: 'new', views: 1 })
const before = Number(created.response.headers.get('Journal-Position'))

const batch = await client.POST('/api/posts', { body: [{ title: 'a' }, { title: 'b' }] })
assert.ok(batch.data && 'ids' in batch.data)
assert.deepEqual(batch.data.ids, [5, 6])

const replaced = await client.PUT('/api/posts/{id}', { params: { path }, body: { title: 'put', views: 2 } })
assert.equal(replaced.response.status, 204)
const header = { Prefer: 'return=representation' }
const merged = await client.PATCH('/api/posts/{id}', { params: { path, header }, body: { views: null } })
const patched: Post | undefined = merged.data
assert.deepEqual(patched, { id: 4, title: 'put' })
const steps = await client.PATCH('/api/posts/{id}', {
  params: { path, header },
  headers: { 'Content-Type': 'application/json-patch+json' },
  body: [
    { op: 'test', path: '/title', value: 'put' },
    { op: 'add', path: '/views', value: 3 },
  ],
})
assert.deepEqual(steps.data, { id: 4, title: 'put', views: 3 })

const past = await client.GET('/api/posts/{id}', { params: { path, query: { asOf: String(before) } } })
assert.equal(past.data?.title, 'new')

const grouped = await client.GET('/api/{collection}', {
  params: {
    path: { collection: 'posts' },
    query: { aggregate: ['count', 'max(views)'], groupBy: ['author.name'], sort: ['-max(views)'] },
  },
})
assert.ok(Array.isArray(grouped.data))
assert.deepEqual(grouped.data[0], { 'author.name': 'cleo', count: 1, 'max(views)': 400 })
const names = await client.GET('/api/{collection}', {
  params: { path: { collection: 'comments' }, query: { distinct: 'postId' } },
})
assert.deepEqual(names.data, [1, 2])

const events = await client.GET('/events', { params: { query: { collection: 'posts', id: path.id } } })
assert.ok(Array.isArray(events.data))
assert.deepEqual(
  events.data.map((event) => (event.type === 'ItemCreated' ? event.item.title : event.type)),
  ['new', 'ItemReplaced', 'ItemPatched', 'ItemPatched'],
)
const one = await client.GET('/events/{position}', { params: { path: { position: before } } })
assert.equal(one.data?.position, before)

const restored = await client.POST('/admin/restore', { body: { to: before, collection: 'posts', dryRun: true } })
assert.deepEqual([restored.data?.dryRun, restored.data?.events], [true, 3])

assert.equal((await client.DELETE('/api/posts/{id}', { params: { path } })).response.status, 204)
const missing = await client.GET('/api/posts/{id}', { params: { path } })
const problem: components['schemas']['Problem'] | undefined = missing.error
assert.deepEqual([problem?.type, problem?.status], ['urn:recollect:problem:NotFound', 404])
const refused = await client.POST('/admin/restore', { body: { to: 1, id: 7 } })
assert.deepEqual(refused.error?.errors?.[0]?.pointer, '/id')
assert.equal(refused.response.status, 422)
const matching = await client.DELETE('/api/posts', { params: { query: { filters: { title: 'a' }, dryRun: true } } })
assert.deepEqual([matching.data?.deleted, matching.data?.dryRun], [1, true])

const profile = await client.GET('/api/profile')
const theme: string | undefined = profile.data?.theme
assert.equal(theme, 'dark')
assert.equal((await client.PATCH('/api/profile', { body: { theme: 'light' } })).response.status, 204)

// @ts-expect-error A field that no item has.
assert.equal(first?.titel, undefined)
// @ts-expect-error A parameter that is no list.
await client.GET('/api/posts', { params: { query: { sort: 'views' } } })
