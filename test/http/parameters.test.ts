import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, describe, test } from 'node:test'
import { parameters } from '../../src/http/openapi/parameters.ts'
import { ROUTES } from '../../src/http/openapi/routes.ts'
import { Follower } from '../support/follower.ts'
import { openRaw } from '../support/raw.ts'
import { send, THROUGH_KOA } from '../support/requests.ts'
import { json, type RunningServer } from '../support/server.ts'
import { startServer } from '../support/service.ts'

const DATA = { posts: [{ id: 1, title: 'first' }], comments: [{ id: 1, postId: 1 }], profile: { name: 'a' } }

test('a write with a parameter that would be ignored is rejected, and changes nothing', async (t) => {
  const server = await startServer(t, { data: DATA })
  const position = async () => (await server.fetch('/api')).headers.get('Journal-Position')
  const before = await position()
  for (const [path, init, why] of [
    ['/api/posts/1?dryRun=true', { method: 'DELETE' }, /takes no parameter "dryRun", only _dependent/],
    ['/api/posts/1?title=other', { method: 'DELETE' }, /"title"/],
    ['/api/posts/1?_dependant=comments', { method: 'DELETE' }, /"_dependant"/],
    ['/api/posts/1?_dependent=comments&dryRun=true', { method: 'DELETE' }, /"dryRun"/],
    ['/api/posts?dryRun=true', json('POST', { title: 'new' }), /POST of an item takes no parameter "dryRun"/],
    ['/api/posts?dryrun=true', json('POST', [{ title: 'new' }]), /"dryrun"/],
    ['/api/posts/1?asOf=1', json('PUT', { title: 'new' }), /"asOf"/],
    ['/api/posts/1?asof=1', json('PATCH', { title: 'new' }), /"asof"/],
    ['/api/posts?dryrun=true', { method: 'DELETE' }, /no parameter "dryrun" here; did you mean dryRun\?/],
    ['/api/posts/1/title?dryRun=true', json('PUT', 'new'), /"dryRun"/],
    ['/api/profile?dryRun=true', json('PUT', { name: 'b' }), /"dryRun"/],
    ['/admin/restore?dryRun=true', json('POST', { to: 1 }), /dryRun is in its body/],
  ] as const) {
    const answer = await server.fetch(path, init)
    assert.equal(answer.status, 400, `${init.method} ${path}`)
    assert.match(((await answer.json()) as { detail: string }).detail, why)
  }
  assert.equal(await position(), before)
  assert.equal((await server.fetch('/api/posts/1?_=7', json('PATCH', { title: 'new' }))).status, 204)
})

test('an unknown parameter is rejected with those that the operation is described with', async (t) => {
  const server = await startServer(t, { data: DATA })
  for (const [path, method] of [
    ['/events', 'GET'],
    ['/api', 'POST'],
  ] as const) {
    const answer = await server.fetch(`${path}?nothing=1`, method === 'POST' ? json(method, {}) : {})
    assert.equal(answer.status, 400, path)
    const names = ROUTES[path]?.[method]?.parameters?.map((name) => parameters[name]) ?? []
    const known = names.flatMap((parameter) => (parameter.in === 'query' ? [parameter.name] : [])).join(', ')
    const { detail } = (await answer.json()) as { detail: string }
    assert.equal(detail, `There is no parameter "nothing" here; there are: ${known}.`)
  }
})

test('GET of an item rejects a misspelt parameter, and ignores others', async (t) => {
  const server = await startServer(t, { data: DATA })
  for (const [path, meant] of [
    ['/api?asof=1', 'asOf'],
    ['/api/posts/1?asof=1', 'asOf'],
    ['/api/posts/1/title?as_of=1', 'asOf'],
    ['/api/profile?asof=1', 'asOf'],
    ['/api/profile/name?asof=1', 'asOf'],
    ['/api/posts/1?_embd=comments', '_embed'],
  ] as const) {
    const answer = await server.fetch(path)
    assert.equal(answer.status, 400, path)
    assert.match(((await answer.json()) as { detail: string }).detail, new RegExp(`did you mean ${meant}\\?`))
  }
  for (const path of ['/api/posts/1?_=7', '/api/posts/1?cache=no&_embed=comments', '/api/profile?v=2']) {
    assert.equal((await server.fetch(path)).status, 200, path)
  }
})

test('an address beside the API is told where the collections are', async (t) => {
  const server = await startServer(t, { data: DATA })
  const answer = await server.fetch('/posts')
  assert.equal(answer.status, 404)
  const { detail } = (await answer.json()) as { detail: string }
  assert.equal(detail, 'Nothing is served at /posts; collections are at /api/<collection>.')
})

const CACHE_BUSTERS = ['_=1767225600000', '%5Ft=1767225600000', '_dc=1767225600000', '_t=1767225600000']
const THINGS = [
  { id: 1, n: 10, name: 'a', _t: 5, 'temp[0]': 7 },
  { id: 2, n: 20, name: 'b', _t: 6, 'temp[0]': 8 },
  { id: 3, n: 30, name: '' },
]
const COMMENTS = [
  { id: 1, thingId: 1 },
  { id: 2, thingId: 2 },
]

const WAYS = [{}, THROUGH_KOA]

const ask = ({ url }: RunningServer, path: string, headers = {}, method = 'GET') => send(url, method, path, { headers })

async function idsOf(server: RunningServer, search: string): Promise<readonly unknown[]> {
  const { status, text } = await ask(server, `/api/things?${search}`)
  assert.equal(status, 200, search)
  return (JSON.parse(text) as { id: unknown }[]).map(({ id }) => id)
}

describe('reads', async () => {
  const server = await startServer(
    { after },
    { data: { things: THINGS, comments: COMMENTS, profile: { name: 'Ada' } } },
  )

  test('ignore the parameters by which clients avoid cached responses', async () => {
    for (const path of [
      '/api',
      '/api/things',
      '/api/things?n_gt=10&sort=-n&take=1',
      '/api/things?all=true',
      '/api/things?aggregate=count,max(n)',
      '/api/things?distinct=n',
      '/api/things?asOf=4',
      '/api/things/1',
      '/api/things/1?_embed=comments',
      '/api/things/1/name',
      '/api/profile',
      '/api/profile/name',
      '/events?limit=2',
      '/events/2',
      '/openapi.json',
      '/client/index.js',
    ]) {
      const [plain = '', search] = path.split('?')
      for (const method of ['GET', 'HEAD']) {
        const expected = await ask(server, path, {}, method)
        assert.equal(expected.status, 200, path)
        for (const buster of CACHE_BUSTERS) {
          for (const way of WAYS) {
            for (const asked of [
              [buster, search],
              [search, buster],
            ] as const) {
              const address = `${plain}?${asked.filter((one) => one !== undefined).join('&')}`
              const { status, text, headers } = await ask(server, address, way, method)
              const told = { status, text, etag: headers.etag, link: headers.link }
              const { etag, link } = expected.headers
              assert.deepEqual(told, { status: 200, text: expected.text, etag, link }, `${method} ${address}`)
            }
          }
        }
      }
    }
    for (const path of ['/health', '/metrics']) assert.equal((await ask(server, `${path}?_=1`)).status, 200)
  })

  test('filter by a field of such a name with an operator', async () => {
    assert.deepEqual(await idsOf(server, '_t=5'), [1, 2, 3])
    for (const search of ['_t_eq=5', '_t_in=5,7', '_t:eq=5', '_t_lt=6'])
      assert.deepEqual(await idsOf(server, search), [1])
  })

  test('take a parameter with brackets as a repeated one', async () => {
    for (const [search, ids] of [
      ['id[]=1&id[]=3', [1, 3]],
      ['id[0]=1&id[1]=3', [1, 3]],
      ['id%5B%5D=1&id%5b%5d=3', [1, 3]],
      ['id%5B0%5D=1&id%5B1%5D=3', [1, 3]],
      ['id=1&id[]=3', [1, 3]],
      ['id[]=2', [2]],
      ['id_ne[]=1&id_ne[]=3', [2]],
      ['id_in[]=1,2&id_in[]=3', [1, 2, 3]],
      ['n_gt[0]=15', [2, 3]],
      ['id:eq[]=1&id:eq[]=2', [1, 2]],
      ['q[]=a', [1]],
      ['sort[]=-n&take[]=2', [3, 2]],
      ['id[]=', []],
    ] as const) {
      assert.deepEqual(await idsOf(server, search), ids, search)
    }
    assert.equal((await ask(server, '/api/things?fields[]=id&fields[]=n&take=1')).text, '[{"id":1,"n":10}]')
    const { headers } = await ask(server, '/api/things?id[]=1&id[]=3&take=1&_=7')
    assert.match(String(headers.link), /<\/api\/things\?id%5B%5D=1&id%5B%5D=3&take=1&skip=1>; rel="next"/)
    assert.equal((await ask(server, '/events?limit[]=1')).status, 200)
    assert.equal((await ask(server, '/events?limit[]=1&limit[]=2')).status, 400)
  })

  test('address a field whose name ends with brackets by an operator, and keep other brackets', async () => {
    assert.deepEqual(await idsOf(server, 'temp[0]_eq=7'), [1])
    assert.deepEqual(await idsOf(server, 'temp%5B0%5D_gte=8'), [2])
    assert.deepEqual(await idsOf(server, 'sort=-temp[0]&take=1'), [2])
    const { text, headers } = await ask(server, '/api/things?id[a]=1')
    assert.equal(text, '[]')
    assert.equal(headers['recollect-hint'], 'No item of "things" has the field "id[a]".')
  })

  test('of a subscription take the same names', async (t) => {
    const ids = Array.from({ length: 300 }, () => randomUUID()).join(',')
    for (const query of ['id[]=1&id%5B%5D=3&_=7', { 'id[]': [1, 3], _dc: '7' }, `id_in=1,${ids},3`]) {
      const follower = new Follower({ collection: 'things', query })
      await follower.connect(t, server.url)
      assert.deepEqual([...follower.items.keys()], ['1', '3'])
      follower.cut()
    }
  })
})

test('a DELETE takes no parameter by which clients avoid cached responses for a filter, and ignores none', async (t) => {
  const server = await startServer(t, { data: { things: THINGS, profile: { name: 'Ada' } } })
  for (const buster of ['_', '_dc', '_t']) {
    for (const search of [`${buster}=5`, `${buster}=5&name=a`, `%5F${buster.slice(1)}=5`, `all=true&${buster}=5`]) {
      const { status, text } = await send(server.url, 'DELETE', `/api/things?${search}`)
      assert.equal(status, 400, search)
      assert.match(text, new RegExp(`does not accept ${buster}: only reads ignore it. Use ${buster}_eq for a field`))
    }
    assert.equal((await send(server.url, 'DELETE', `/api/profile?${buster}=5`)).status, 400)
    assert.equal((await server.fetch(`/api/profile?${buster}=5`, json('PUT', { name: 'Eve' }))).status, 204)
  }
  assert.deepEqual(await idsOf(server, ''), [1, 2, 3])
  assert.equal((await send(server.url, 'DELETE', '/api/things?_t_eq=5')).json<{ deleted: number }>().deleted, 1)
  assert.equal((await send(server.url, 'DELETE', '/api/things?author[name]=')).json<{ deleted: number }>().deleted, 0)
  assert.equal((await send(server.url, 'DELETE', '/api/things/3?_dc=7')).status, 204)
  assert.equal((await server.fetch('/api/things/2?_dc=7', json('PATCH', { name: 'c' }))).status, 204)
  assert.equal((await ask(server, '/api/things')).text, '[{"id":2,"n":20,"name":"c","_t":6,"temp[0]":8}]')
})

test('a DELETE with brackets deletes exactly the items that it names', async (t) => {
  const server = await startServer(t, { data: { things: THINGS, comments: COMMENTS } })
  const remove = (search: string) => send(server.url, 'DELETE', `/api/things${search}`)
  for (const search of [
    'id[]=',
    'id[]',
    'id%5B%5D=',
    'id[0]=',
    'id_ne[]=',
    'name_ne[]',
    'id[]=&id=1',
    'name[]=&id[]=1',
  ]) {
    const { status, text } = await remove(`?${search}`)
    assert.equal(status, 400, search)
    assert.match(text, /is a list without values/)
  }
  assert.deepEqual((await remove('?id[a]=1')).json(), { deleted: 0, dryRun: false, writes: 0, ids: [] })
  assert.deepEqual((await remove('?id[]=1&id[]=3&dryRun[]=true')).json(), {
    deleted: 2,
    dryRun: true,
    writes: 0,
    ids: [1, 3],
  })
  assert.deepEqual(await idsOf(server, ''), [1, 2, 3])
  assert.deepEqual((await remove('?id[]=1&id%5B1%5D=3')).json(), { deleted: 2, dryRun: false, writes: 1, ids: [1, 3] })
  assert.deepEqual(await idsOf(server, ''), [2])
  assert.equal((await remove('/2?_dependent[]=comments')).status, 204)
  assert.equal((await ask(server, '/api/comments')).text, '[{"id":1,"thingId":1}]')
})

describe('the length of an address', async () => {
  const items = Array.from({ length: 300 }, () => ({ id: randomUUID() }))
  const server = await startServer({ after }, { data: { things: items } })
  const headers = { Authorization: `Bearer ${'t'.repeat(2000)}`, Cookie: `session=${'c'.repeat(4000)}` }

  test('suffices for 300 UUIDs, with a token and cookies', async () => {
    const ids = items.map(({ id }) => id)
    for (const search of [
      `id_in=${ids.join(',')}`,
      `id_in=${ids.join('%2C')}`,
      ids.map((id) => `id=${id}`).join('&'),
      ids.map((id) => `id[]=${id}`).join('&'),
      ids.map((id) => `id%5B%5D=${id}`).join('&'),
    ]) {
      for (const way of WAYS) {
        const { status, text } = await ask(server, `/api/things?${search}`, { ...headers, ...way })
        assert.equal(status, 200, search.slice(0, 60))
        assert.equal((JSON.parse(text) as unknown[]).length, 300)
      }
    }
  })

  test('beyond Limits.QueryBytes gets 414', async () => {
    for (const path of ['/api/things', '/api/things/1', '/api/things/1/n', '/api', '/events']) {
      const address = `${path}?q=${'x'.repeat(16_384)}`
      for (const [method, way] of [
        ['GET', {}],
        ['GET', THROUGH_KOA],
        ['HEAD', {}],
        ...(path === '/api/things' ? [['DELETE', {}] as const] : []),
      ] as const) {
        const { status, text } = await ask(server, address, way, method)
        assert.equal(status, 414, `${method} ${path}`)
        if (method !== 'HEAD') assert.match(text, /problem:UriTooLong".*longer than 16384 bytes \(Limits.QueryBytes\)/)
      }
    }
  })

  test('beyond Limits.HeaderBytes gets 431 if its beginning came earlier, 414 if both parts arrive at once', async (t) => {
    const connection = await openRaw(t, server.url)
    const long = 'x'.repeat(20_000)
    await new Promise((resolve) => connection.socket.write(`DELETE /api/things?id=${long}`, resolve))
    await ask(server, '/api')
    connection.socket.write(`${long} HTTP/1.1\r\nHost: localhost\r\n\r\n`)
    // A loaded machine may read both parts together.
    assert.ok([414, 431].includes((await connection.next())?.status ?? 0))
    assert.equal((await send(server.url, 'GET', '/api')).status, 200)
  })

  test('beyond Limits.HeaderBytes gets 414, in the path and in the query, and headers 431', async (t) => {
    const end = ' HTTP/1.1\r\nHost: localhost\r\n\r\n'
    const long = 'x'.repeat(20_000)
    const first = `GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n`
    for (const [status, ...chunks] of [
      [414, `GET /api/things/${long}${long}${end}`],
      [414, `GET /api?${long}${long}${end}`],
      [414, `M-SEARCH /api/things/${long}${long}${end}`],
      [414, `${first}GET /${long}${long}${end}`],
      [431, `GET /api HTTP/1.1\r\nHost: localhost\r\nX: ${long}${long}\r\n\r\n`],
      [431, `GET /api HTTP/1.1\r\nHost: localhost\r\n${long}${long}: x\r\n\r\n`],
      [431, `GET /api HTTP/1.1\r\nHost: localhost\r\nCookie: a=${long};`, ` b=${long}; c=1\r\n\r\n`],
      [431, `GET /api HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${long}`, `${long}\r\n\r\n`],
      [431, `GET /${long} HTTP/1.1\r\nHost: localhost\r\nX: ${long}\r\n\r\n`],
    ] as const) {
      const connection = await openRaw(t, server.url)
      connection.socket.setNoDelay(true)
      for (const chunk of chunks) {
        await new Promise((resolve) => connection.socket.write(chunk, resolve))
        await ask(server, '/api')
      }
      if (chunks[0]?.startsWith(first)) assert.equal((await connection.next())?.status, 200)
      const response = await connection.next()
      assert.equal(response?.status, status, chunks[0]?.slice(0, 60))
      const type = status === 414 ? 'UriTooLong' : 'Malformed'
      assert.match(response?.body ?? '', new RegExp(`"urn:recollect:problem:${type}"`))
      connection.socket.destroy()
    }
  })
})
