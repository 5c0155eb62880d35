import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { METHODS } from 'node:http'
import { after, test } from 'node:test'
import { neededRole } from '../../src/access/roles.ts'
import { allowOf } from '../../src/http/exchange.ts'
import { headers, OF_EVENTS, parameters } from '../../src/http/openapi/parameters.ts'
import { PROBLEM_TEXTS } from '../../src/http/openapi/problems.ts'
import {
  COLLECTION,
  isOffered,
  methodsOf,
  OBJECT,
  type Offer,
  type Operation,
  ROUTES,
  type Route,
} from '../../src/http/openapi/routes.ts'
import { PROBLEMS } from '../../src/http/problems.ts'
import { PREFERENCES } from '../../src/http/requests.ts'
import { authentication, keyOf } from '../support/authentication.ts'
import { send, sendJson } from '../support/requests.ts'
import { registeredRoutes, startServer } from '../support/service.ts'

const things = [{ id: 1, name: 'one', list: [{ id: 5, deep: { er: true } }, 'second'] }]
const { url } = await startServer({ after }, { data: { things, empty: [] } })

const anyHost = await startServer({ after }, { data: { things: [] }, flags: ['--Http.Hosts', '*'] })

const DATA = { things: [{ id: 1, name: 'one' }], profile: { theme: 'dark' } }

test('every route that is served is described, and no other', async (t) => {
  const shape = (path: string): string => path.replace(/\{\w+\}|[:*]\w+/g, '{}')
  const served = [...(await registeredRoutes(t)).keys()].filter((path) => !path.startsWith('/swagger'))
  assert.deepEqual(served.map(shape).sort(), Object.keys(ROUTES).map(shape).sort())
})

const SERVERS: readonly (readonly [name: string, offer: Offer, flags: readonly string[]])[] = [
  ['a server', {}, []],
  ['a server with a reset', { hasReset: true }, ['--Api.Reset', 'true']],
  ['a server with tokens', { hasTokens: true }, authentication(['token', 'apikey'])],
  ['a read-only server', { isReadOnly: true }, ['--Api.ReadOnly', 'true']],
  ['a server like json-server', { hasReset: true, isJsonServer: true }, ['--Api.Compatibility', 'json-server']],
]

for (const [name, offer, flags] of SERVERS) {
  test(`${name} allows at each path the methods of its description`, async (t) => {
    const { url } = await startServer(t, { data: DATA, flags: [...flags] })
    const values: Readonly<Record<string, string>> = { collection: 'things', id: '1', rest: 'name', position: '1' }
    const routes: readonly (readonly [path: string, route: Route])[] = [
      ...Object.entries(ROUTES).filter(([path]) => path !== '/api/{collection}'),
      ['/api/things', COLLECTION],
      ['/api/profile', OBJECT],
    ]
    for (const [template, route] of routes) {
      const path = template.replace(/\{(\w+)\}/g, (_, parameter: string) => values[parameter] as string)
      const { status, headers } = await send(url, 'OPTIONS', path, { headers: { 'X-API-KEY': keyOf('admin') } })
      assert.equal(status, isOffered(route, offer) ? 200 : 404, path)
      if (status === 404) continue
      const allowed = allowOf(methodsOf(template, offer, route))
      assert.deepEqual(String(headers.allow).split(', ').sort(), allowed.split(', ').sort(), path)
    }
  })
}

test('the path of any collection has the methods of a list and those of a single object', () => {
  const methods = [COLLECTION, OBJECT].flatMap((route) => methodsOf('/api/{collection}', {}, route))
  assert.deepEqual([...methodsOf('/api/{collection}', {})].sort(), [...new Set(methods)].sort())
})

const DOCUMENT = readFileSync(new URL('../../docs/api.md', import.meta.url), 'utf8')
const EVERYTHING = { hasReset: true, hasTokens: true }

/** The tables of docs/api.md that the descriptions give: the rows by the header row. */
const TABLES: Readonly<Record<string, readonly string[]>> = {
  '| Request | Meaning | Responses | Problems | Role |': Object.entries(ROUTES).flatMap(([path, route]) =>
    methodsOf(path, EVERYTHING).map((method) => requestRow(method, path, route[method] as Operation)),
  ),
  '| Parameter of a query | Meaning |':
    ROUTES['/api/{collection}']?.GET?.parameters
      ?.map((name) => parameters[name])
      .filter((parameter) => parameter.in === 'query')
      .map(nameRow) ?? [],
  '| Parameter of `/events` | Meaning |': OF_EVENTS.map((name) => nameRow(parameters[name])),
  '| Request header | Meaning |': [
    ...Object.values(parameters)
      .filter((parameter) => parameter.in === 'header' && parameter.name !== 'Prefer')
      .map(nameRow),
    ...Object.entries(PREFERENCES).map(([name, description]) => nameRow({ name: `Prefer: ${name}`, description })),
  ],
  '| Response header | Meaning |': Object.entries(headers).map(([name, { description }]) =>
    nameRow({ name, description: String(description) }),
  ),
  '| Status | `type` ends with | When |': Object.entries(PROBLEM_TEXTS)
    .map(([code, text]) => ({ code, text, status: PROBLEMS[code as keyof typeof PROBLEMS].status }))
    .sort((a, b) => a.status - b.status)
    .map(({ status, code, text }) => `| ${status} | \`${code}\` | ${text} |`),
}

for (const [header, rows] of Object.entries(TABLES)) {
  test(`docs/api.md has the described rows below ${header}`, () => {
    const [, table = ''] = DOCUMENT.split(`\n${header}\n`)
    const [, ...shown] = (table.split('\n\n')[0] as string).split('\n')
    assert.deepEqual(shown, rows)
  })
}

function requestRow(method: string, path: string, operation: Operation): string {
  const { summary, description, responses, problems = [] } = operation
  const meaning = [`${summary}.`, description].filter(Boolean).join(' ')
  const answers = Object.entries(responses)
    .filter(([, { when }]) => when === undefined)
    .map(([status, { text }]) => `${status}: ${text}`)
  const refused = [...problems].sort().join(', ')
  const role = neededRole(method, path) ?? ''
  return `| \`${method} ${path}\` | ${meaning} | ${answers.join(' ')} | ${refused} | ${role} |`
}

function nameRow({ name, description }: { readonly name: string; readonly description: string }): string {
  return `| \`${name}\` | ${description} |`
}

const PATCHES =
  'application/merge-patch+json, application/json+merge-patch, application/json, application/json-patch+json'

interface Resource {
  readonly path: string
  readonly allow: string
  /** The response to GET. */
  readonly get: number
}

const RESOURCES: readonly Resource[] = [
  { path: '/api', allow: 'GET, HEAD, POST, OPTIONS', get: 200 },
  { path: '/api/', allow: 'GET, HEAD, POST, OPTIONS', get: 200 },
  { path: '/api/things', allow: 'GET, HEAD, POST, PUT, DELETE, OPTIONS', get: 200 },
  { path: '/api/things/', allow: 'GET, HEAD, POST, PUT, DELETE, OPTIONS', get: 200 },
  { path: '/api/empty', allow: 'GET, HEAD, POST, PUT, DELETE, OPTIONS', get: 200 },
  { path: '/api/unknown', allow: 'GET, HEAD, POST, PUT, DELETE, OPTIONS', get: 404 },
  { path: '/api/things/1', allow: 'GET, HEAD, PUT, PATCH, DELETE, OPTIONS', get: 200 },
  { path: '/api/things/missing', allow: 'GET, HEAD, PUT, PATCH, DELETE, OPTIONS', get: 404 },
  { path: '/api/unknown/1', allow: 'GET, HEAD, PUT, PATCH, DELETE, OPTIONS', get: 400 },
  { path: '/api/things/1/name', allow: 'GET, HEAD, PUT, PATCH, OPTIONS', get: 200 },
  { path: '/api/things/1/list/5/deep/er', allow: 'GET, HEAD, PUT, PATCH, OPTIONS', get: 200 },
  { path: '/api/things/1/nothing/here', allow: 'GET, HEAD, PUT, PATCH, OPTIONS', get: 404 },
  { path: '/api/things/missing/name', allow: 'GET, HEAD, PUT, PATCH, OPTIONS', get: 400 },
  { path: '/api/unknown/1/name', allow: 'GET, HEAD, PUT, PATCH, OPTIONS', get: 400 },
]

for (const { path, allow, get } of RESOURCES) {
  test(`${path} responds to GET with ${get}, and to HEAD with the same headers and no body`, async () => {
    const got = await send(url, 'GET', path)
    const head = await send(url, 'HEAD', path)
    assert.equal(got.status, get)
    assert.equal(head.status, get)
    assert.equal(head.text, '')
    assert.notEqual(got.text, '')
    for (const headers of [got.headers, head.headers]) {
      delete headers.date
      delete headers['x-request-id']
    }
    assert.deepEqual(head.headers, got.headers)
  })

  test(`${path} responds to OPTIONS with the allowed methods`, async () => {
    const { status, headers, text } = await send(url, 'OPTIONS', path)
    assert.equal(status, 200)
    assert.equal(headers.allow, allow)
    assert.equal(headers['accept-patch'], allow.includes('PATCH') ? PATCHES : undefined)
    assert.match(String(headers['journal-position']), /^\d+$/)
    assert.equal(text, '')
  })

  test(`${path} rejects every other method with 405 and the allowed ones`, async () => {
    for (const method of METHODS.filter((name) => name !== 'CONNECT' && !allow.split(', ').includes(name))) {
      const { status, headers, text } = await send(url, method, path, { headers: { 'Content-Length': 0 } })
      assert.equal(status, 405, method)
      assert.equal(headers.allow, allow, method)
      assert.equal(headers['content-type'], 'application/problem+json', method)
      assert.equal(JSON.parse(text).status, 405, method)
    }
  })
}

test('/api lists the names of the collections', async () => {
  const { headers, json } = await send(url, 'GET', '/api')
  assert.equal(headers['content-type'], 'application/json')
  assert.deepEqual(json(), ['things', 'empty'])
})

test('a path inside an item returns the value there', async () => {
  const values: Readonly<Record<string, unknown>> = {
    '/api/things/1/name': 'one',
    '/api/things/1/id': 1,
    '/api/things/1/list': [{ id: 5, deep: { er: true } }, 'second'],
    '/api/things/1/list/5': { id: 5, deep: { er: true } },
    '/api/things/1/list/5/deep/er/': true,
  }
  for (const [path, value] of Object.entries(values)) {
    const { status, headers, json } = await send(url, 'GET', path)
    assert.equal(status, 200, path)
    assert.equal(headers['content-type'], 'application/json')
    assert.deepEqual(json(), value, path)
  }
  for (const nothing of [
    'list/0/deep',
    'list/1',
    'list/2',
    'list/length',
    'name/0',
    'toString',
    '__proto__',
    'constructor/name',
    'name//',
  ]) {
    assert.equal((await send(url, 'GET', `/api/things/1/${nothing}`)).status, 404, nothing)
  }
})

test('a path inside an item supports names with slashes, empty names and null', async () => {
  const item = { 'a/b': { '': 'empty', 'ü%': [null] } }
  const location = (await sendJson(url, 'POST', '/api/paths', item)).headers.location ?? ''
  assert.equal((await send(url, 'GET', `${location}/a%2Fb//`)).text, '"empty"')
  assert.equal((await send(url, 'GET', `${location}/a%2Fb/%C3%BC%25/0`)).text, 'null')
  assert.equal((await send(url, 'GET', `${location}/a/b`)).status, 404)
})

test('a write in an unknown collection gets 404, a POST creates it', async () => {
  const item = { name: 'x' }
  assert.equal((await sendJson(url, 'PUT', '/api/nowhere/1', item)).status, 404)
  assert.equal((await sendJson(url, 'PATCH', '/api/nowhere/1', item)).status, 404)
  assert.equal((await send(url, 'DELETE', '/api/nowhere/1')).status, 404)
  assert.equal((await send(url, 'GET', '/api/nowhere')).status, 404)
  const { status, headers, json } = await sendJson(url, 'POST', '/api/nowhere', item)
  assert.equal(status, 201)
  assert.equal(headers.location, '/api/nowhere/0')
  assert.deepEqual(json(), { id: 0 })
  assert.deepEqual((await send(url, 'GET', '/api/nowhere')).json(), [{ id: 0, name: 'x' }])
})

test('an item is created, read, replaced, patched and deleted', async () => {
  const created = await sendJson(url, 'POST', '/api/life/', { name: 'a', n: 1 })
  assert.equal(created.status, 201)
  assert.equal(created.headers['content-type'], 'application/json')
  const path = created.headers.location ?? ''
  assert.equal(path, '/api/life/0')
  assert.deepEqual((await send(url, 'GET', path)).json(), { id: 0, name: 'a', n: 1 })
  const replaced = await sendJson(url, 'PUT', path, { name: 'b' })
  assert.equal(replaced.status, 204)
  assert.equal(replaced.text, '')
  assert.deepEqual((await send(url, 'GET', path)).json(), { id: 0, name: 'b' })
  assert.equal((await sendJson(url, 'PATCH', `${path}/`, { n: 2 })).status, 204)
  assert.deepEqual((await send(url, 'GET', path)).json(), { id: 0, name: 'b', n: 2 })
  const deleted = await send(url, 'DELETE', path)
  assert.equal(deleted.status, 204)
  assert.equal(deleted.headers.etag, undefined)
  for (const method of ['GET', 'HEAD', 'DELETE']) assert.equal((await send(url, method, path)).status, 404, method)
  assert.equal((await sendJson(url, 'PUT', path, {})).status, 404)
  assert.equal((await sendJson(url, 'PATCH', path, { n: 1 })).status, 404)
  assert.deepEqual((await send(url, 'GET', '/api/life')).json(), [])
})

test('paths are case-sensitive, and an empty segment in the middle gets 404', async () => {
  for (const path of ['/API', '/Api/things', '/api/Things/1', '/api//1', '/api//', '/apix', '//api/things']) {
    const { status } = await send(url, 'GET', path)
    assert.ok(status === 404 || status === 400, `${path}: ${status}`)
  }
})

test('a request target may be an absolute URL, whose host replaces the Host header', async () => {
  for (const target of ['http://127.0.0.1/api', 'HTTP://LOCALHOST:1/api?a=1', 'http://[::1]/api', 'http:///api']) {
    const headers = target === 'http:///api' ? {} : { Host: 'evil.example' }
    const { status, json } = await send(url, 'GET', target, { headers })
    assert.equal(status, 200, target)
    assert.ok(json<string[]>().includes('things'))
  }
  for (const target of ['http://evil.example/api', 'http://localhost@evil.example/api', 'http://[::/api', 'x://y?z']) {
    const { status } = await send(url, 'GET', target, { headers: { Host: 'localhost' } })
    assert.equal(status, 421, target)
  }
  assert.equal((await send(url, 'GET', 'http:///api', { headers: { Host: 'evil.example' } })).status, 421)
})

test('the host of an absolute URL is compared with the origin of a page, on every way to a route', async () => {
  const origin = 'http://page.example'
  const body = '{"n":1}'
  const common = { 'Content-Type': 'application/json', 'Content-Length': body.length }
  const post = (target: string, host: string, more = {}) =>
    send(anyHost.url, 'POST', target, { body, headers: { ...common, Host: host, Origin: origin, ...more } })
  assert.equal((await post('http://page.example/api/things', 'other.example')).status, 201)
  assert.equal((await post('http://other.example/api/things', 'page.example')).status, 403)
  const offer = { Connection: 'Upgrade', Upgrade: 'h2c' }
  assert.equal((await post('http://page.example/api/things', 'other.example', offer)).status, 201)
  assert.equal((await post('http://other.example/api/things', 'page.example', offer)).status, 403)
})
