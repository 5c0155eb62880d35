import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { until } from '../support/deadline.ts'
import { json, type RunningServer } from '../support/server.ts'
import { startServer } from '../support/service.ts'

const POSTS = [
  { id: 1, title: 'a title', views: 100, author: { name: 'typicode' }, tags: [{ label: 'x' }], _draft: true },
  { id: 2, title: 'another title', views: 200 },
]

function serve(
  t: TestContext,
  flags: readonly string[] = [],
  data: unknown = { posts: POSTS, comments: [], empty: [] },
) {
  return startServer(t, { data, flags })
}

async function hintOf(server: RunningServer, search: string, init?: RequestInit): Promise<string | null> {
  const answer = await server.fetch(`/api/posts?${search}`, init)
  assert.equal(answer.status, 200, search)
  return answer.headers.get('Recollect-Hint')
}

async function detailOf(server: RunningServer, path: string): Promise<string> {
  const answer = await server.fetch(path)
  assert.equal(answer.status, 400, path)
  return ((await answer.json()) as { detail: string }).detail
}

test('a filter or sort by a field that no item has gets the usual response with a hint', async (t) => {
  const server = await serve(t)
  assert.equal(await hintOf(server, 'titel=x'), 'No item of "posts" has the field "titel"; did you mean "title"?')
  assert.match((await hintOf(server, 'sort=-veiws')) ?? '', /"veiws"; did you mean "views"\?/)
  assert.match(
    (await hintOf(server, 'auhtor.name=x&zzz_gt=1')) ?? '',
    /"auhtor.name"; did you mean "author.name"\? .*"zzz"\.$/,
  )
  assert.match((await hintOf(server, `${encodeURIComponent('é€')}=1`)) ?? '', /"\\u00e9\\u20ac"/)
  assert.match((await hintOf(server, 'titel=x', { method: 'HEAD' })) ?? '', /titel/)
  assert.match((await hintOf(server, 'titel=x&all=true')) ?? '', /titel/)
  assert.match((await hintOf(server, 'titel=x&dryRun=true', { method: 'DELETE' })) ?? '', /titel/)
  await until('the log line', () => server.log().includes('"didYouMean":['))
})

test('a misspelt parameter, which is a filter, gets a hint, too', async (t) => {
  const server = await serve(t)
  for (const [search, parameter] of [
    ['asof=1', 'asOf'],
    ['aggregate=count&groupby=title', 'groupBy'],
    ['pagesize=1', 'pageSize'],
  ] as const) {
    assert.match((await hintOf(server, search)) ?? '', new RegExp(`; did you mean the parameter ${parameter}\\?$`))
  }
})

test('misspelt fields in aggregates, groups and selections get a hint, too', async (t) => {
  const flags = ['--Collections', '{"posts":{"Time":"at"}}']
  const server = await serve(t, flags, { posts: POSTS.map((post) => ({ ...post, at: '2026-01-01' })) })
  for (const [search, wrong, right] of [
    ['aggregate=count,avg(veiws)', 'veiws', 'views'],
    ['aggregate=count&groupBy=title,auhtor.name', 'auhtor.name', 'author.name'],
    ['distinct=titel', 'titel', 'title'],
    ['newestBy=titel', 'titel', 'title'],
    ['fields=id,titel', 'titel', 'title'],
    ['fields=author.nmae,views&all=true', 'author.nmae', 'author.name'],
  ] as const) {
    assert.equal(await hintOf(server, search), `No item of "posts" has the field "${wrong}"; did you mean "${right}"?`)
  }
  const rows = await server.fetch('/api/posts?aggregate=max(veiws)')
  assert.deepEqual(await rows.json(), [{ 'max(veiws)': null }])
})

test('there is no hint for fields that an item has, nor when the fields are not known', async (t) => {
  const server = await serve(t)
  for (const search of [
    'title=x&views_gt=1000&author.name=x&tags.label=y&_draft=false&id=7',
    'sort=-views,author.name',
    'nobody_exists=false',
    'aggregate=count,max(views)&groupBy=title&sort=-count',
    'distinct=tags.label',
    'fields=id,$received,title,author.name,comments&_embed=comments',
    'titel=x&asOf=1',
  ]) {
    assert.equal(await hintOf(server, search), null, search)
  }
  const answer = await server.fetch('/api/empty?titel=x')
  assert.equal(answer.headers.get('Recollect-Hint'), null)
})

test('a field is known as soon as an item has it, and after a restart', async (t) => {
  const server = await serve(t)
  for (const path of ['likes', 'author.likes', 'names']) assert.ok(await hintOf(server, `${path}=1`), path)
  await server.fetch('/api/posts/2', json('PATCH', { author: { likes: 3 }, text: '"names":1' }))
  assert.equal(await hintOf(server, 'author.likes=1'), null)
  assert.ok(await hintOf(server, 'likes=1'))
  assert.ok(await hintOf(server, 'names=1'))
  await server.fetch('/api/posts', json('POST', [{ likes: 1 }, { names: [1] }]))
  assert.equal(await hintOf(server, 'likes=1&names=2'), null)
  await server.stop()
  const again = await startServer(t, { directory: server.directory })
  assert.equal(await hintOf(again, 'likes=1&names=2&author.likes=1'), null)
  assert.ok(await hintOf(again, 'titel=1'))
})

test('misspelt parameters of json-server are rejected with a suggestion', async (t) => {
  const server = await serve(t)
  assert.match(await detailOf(server, '/api/posts?_were={}'), /no parameter "_were".*_where=\{"views":\{"gt":100\}\}/)
  assert.match(await detailOf(server, '/api/posts?_sorts=views'), /no parameter "_sorts".*sort=-views/)
  assert.match(await detailOf(server, '/api/posts?_perpage=3'), /pageSize=10/)
  assert.match((await hintOf(server, '_deleted=true')) ?? '', /"_deleted"/)
  await server.fetch('/api/posts', json('POST', { _were: 'here' }))
  assert.equal(await hintOf(server, '_were=here'), null)
})

test('with Api.StrictQuery a field that no item has is rejected', async (t) => {
  const server = await serve(t, ['--Api.StrictQuery', 'true'])
  assert.match(await detailOf(server, '/api/posts?titel=x'), /did you mean "title"/)
  assert.match(await detailOf(server, '/api/posts?sort=titel'), /did you mean "title"/)
  assert.match(await detailOf(server, '/api/posts?distinct=titel'), /did you mean "title"/)
  assert.match(await detailOf(server, '/api/posts?fields=titel'), /did you mean "title"/)
  const refused = await server.fetch('/api/posts?titel=x', { method: 'DELETE' })
  assert.equal(refused.status, 400)
  assert.equal(await hintOf(server, 'title=x'), null)
})

test('the list of known fields is bounded for items with very many fields and very many queries', async (t) => {
  const wide = Object.fromEntries(Array.from({ length: 20_000 }, (_, index) => [`field${index}`, index]))
  const server = await serve(t, [], { posts: [wide, ...POSTS] })
  assert.equal(await hintOf(server, 'field19999=1'), null)
  for (let index = 0; index < 1200; index += 10) {
    const search = Array.from({ length: 10 }, (_, more) => `f${index + more}_gt=1`).join('&')
    assert.ok(await hintOf(server, search))
  }
  assert.ok(await hintOf(server, 'titel=x'))
  assert.equal(await hintOf(server, 'title=x'), null)
})

const HINTED_ID = (sent: string, id: string) =>
  `The id ${sent} was replaced by ${id}. With Api.ClientIdsOnPost POST keeps the ids of clients.`

async function hintOfPost(
  server: RunningServer,
  body: unknown,
  headers: Record<string, string> = {},
  name = 'comments',
) {
  const answer = await server.fetch(`/api/${name}`, json('POST', body, headers))
  assert.ok([200, 201].includes(answer.status), await answer.text())
  return answer.headers.get('Recollect-Hint')
}

test('an id of a client that POST replaces gets a hint that names the setting', async (t) => {
  const server = await serve(t)
  // The page of another origin is answered through Koa, all others through the fast front.
  for (const [index, headers] of [{}, { Origin: server.url, Prefer: 'return=representation' }].entries()) {
    const next = 8 * index
    for (const [at, [sent, shown]] of [
      ['C8:25', '"C8:25"'],
      [77, '77'],
      ['ü', '"\\u00fc"'],
      ['', '""'],
      [{ a: 1 }, '{"a":1}'],
      ['x'.repeat(10_000), `"${'x'.repeat(63)}...`],
    ].entries()) {
      assert.equal(await hintOfPost(server, { id: sent }, headers), HINTED_ID(String(shown), String(next + at)))
    }
    for (const item of [{ n: 1 }, { id: null }]) assert.equal(await hintOfPost(server, item, headers), null)
  }
  assert.equal(await hintOfPost(server, { id: 16 }), null)
  assert.equal(await hintOfPost(server, { id: '17' }), null)
})

test('a batch gets one hint for all ids that were replaced, and so does its retry', async (t) => {
  const flags = ['--Collections', '{"keyed":{"Key":["mac"]}}']
  const server = await serve(t, flags, { comments: [], keyed: [{ id: 5, mac: 'a' }] })
  const once = { 'Idempotency-Key': 'once' }
  const many = '2 ids were replaced, the first, "a", by 1. With Api.ClientIdsOnPost POST keeps the ids of clients.'
  const items = [{ id: 0 }, { id: 'a' }, {}, { id: null }, { id: 9 }]
  assert.equal(await hintOfPost(server, items, once), many)
  assert.equal(await hintOfPost(server, items, once), many)
  const lenient = { Prefer: 'handling=lenient' }
  assert.equal(await hintOfPost(server, [5, { id: 'b' }], lenient), HINTED_ID('"b"', '5'))
  assert.equal(await hintOfPost(server, [{ n: 1 }, {}]), null)
  // The natural key decides, whatever the setting.
  assert.equal(await hintOfPost(server, { id: 8, mac: 'a' }, {}, 'keyed'), null)
  assert.equal(
    await hintOfPost(
      server,
      [
        { id: 8, mac: 'a' },
        { id: 8, mac: 'b' },
      ],
      {},
      'keyed',
    ),
    HINTED_ID('8', '6'),
  )
})

test('an id that POST keeps gets no hint', async (t) => {
  const server = await serve(t, ['--Api.ClientIdsOnPost', 'true'])
  assert.equal(await hintOfPost(server, { id: 'C8:25' }), null)
  assert.equal(await hintOfPost(server, [{ id: 'a' }, {}]), null)
})
