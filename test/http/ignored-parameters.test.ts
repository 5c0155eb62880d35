import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parameters } from '../../src/http/openapi/parameters.ts'
import { ROUTES } from '../../src/http/openapi/routes.ts'
import { json, startServer } from '../support/server.ts'

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
