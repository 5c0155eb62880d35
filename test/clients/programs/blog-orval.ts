/** orval's client, which sends with axios, for the data of `blog.ts` and a single object. */
import assert from 'node:assert/strict'
import * as client from './orval.ts'

const listed = await client.getItemsPosts({
  filters: { views_gte: '200', title_ne: 'third' },
  sort: ['-views'],
  page: 1,
  pageSize: 1,
})
const first: client.ItemPosts | undefined = listed.data[0]
assert.deepEqual([first?.id, first?.views, first?.author?.name], ['E1:09/4', 400, 'cleo'])
assert.equal(listed.headers['x-total-count'], '2')
assert.match(String(listed.headers.link), /page=2.*rel="next"/)
assert.equal((await client.headItemsPosts()).headers['x-total-count'], '4')

const created = await client.postItemsPosts({ title: 'new', views: 1 })
assert.ok('id' in created.data)
const id = String(created.data.id)
const read = await client.getItemPosts(id)
assert.deepEqual(read.data, { id: 4, title: 'new', views: 1 })
const before = Number(created.headers['journal-position'])

const batch = await client.postItemsPosts([{ title: 'a' }, { title: 'b' }])
assert.ok('ids' in batch.data)
assert.deepEqual(batch.data.ids, [5, 6])

assert.equal((await client.putItemPosts(id, { title: 'put', views: 2 })).status, 204)
assert.equal((await client.patchItemPosts(id, { views: null })).status, 204)
assert.equal((await client.patchItemPosts(id, [{ op: 'add', path: '/views', value: 3 }])).status, 204)
assert.deepEqual((await client.getItemPosts(id)).data, { id: 4, title: 'put', views: 3 })
assert.deepEqual((await client.getItemPosts(id, { asOf: String(before) })).data, read.data)
// This client puts an id into the path as it is.
assert.equal((await client.getItemPosts(encodeURIComponent('E1:09/4'))).data.title, 'fourth')

const rows = await client.getItems('posts', {
  aggregate: ['count', 'max(views)'],
  groupBy: ['author.name'],
  sort: ['-max(views)'],
})
assert.ok(Array.isArray(rows.data))
assert.deepEqual(rows.data[0], { 'author.name': 'cleo', count: 1, 'max(views)': 400 })

const events = await client.getEvents({ collection: 'posts', id })
assert.ok(Array.isArray(events.data))
assert.deepEqual(
  events.data.map((event) => (event.type === 'ItemCreated' ? event.item.title : event.type)),
  ['new', 'ItemReplaced', 'ItemPatched', 'ItemPatched'],
)

const restored = await client.postRestore({ to: before, collection: 'posts', dryRun: true })
assert.deepEqual([restored.data.dryRun, restored.data.events], [true, 3])

assert.equal((await client.deleteItemPosts(id)).status, 204)
const missing = await client.getItemPosts(id)
assert.equal(missing.status, 404)
assert.equal((await client.postRestore({ to: 1, id: 7 })).status, 422)
assert.equal((await client.getObjectProfile()).data.theme, 'dark')
