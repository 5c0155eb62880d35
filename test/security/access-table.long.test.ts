import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { SignJWT } from 'jose'
import type { Scheme } from '../../src/access/access.ts'
import { includes, type Role } from '../../src/access/roles.ts'
import { authentication, basic, keyOf, login, passwordOf, ROLES, SECRET, tokenOf } from '../support/authentication.ts'
import { swaggerAsset } from '../support/pages.ts'
import { send, sendBytes } from '../support/requests.ts'
import { type RunningProgram, startProgram } from '../support/server.ts'
import { registeredRoutes } from '../support/service.ts'

const METHODS = ['GET', 'HEAD', 'OPTIONS', 'POST', 'PUT', 'PATCH', 'DELETE'] as const
type Method = (typeof METHODS)[number]

/** A route: a path to try it by, who may, and what those get who may. */
interface Row {
  /** As it is registered; undefined for what is served without a route, or not at all. */
  readonly route?: string
  readonly path: string
  readonly safe?: Role
  readonly unsafe?: Role
  /** To GET (and HEAD); the default is that of what is not there. */
  readonly get?: number
  /** Where a method is missing it is not allowed; undefined where no method is. */
  readonly others?: Readonly<Partial<Record<Method, number>>>
}

/** Schemes that are in use together. With ACCESS_TABLE=each also each by itself. */
const SCHEMES: readonly (readonly Scheme[])[] = [
  ['token', 'basic', 'apikey'],
  ...(process.env.ACCESS_TABLE === 'each' ? ([['token'], ['basic'], ['apikey']] as const) : []),
]

/** Stands in the items, and in nothing that is public. */
const KEPT = 'kept-from-strangers'
const DATA = { sensors: [{ id: 1, name: KEPT }], profile: { name: KEPT } }
/** A condition that no item fulfils, so that nothing changes from one request to the next. */
const NEVER = { 'If-Match': '"never"' }

const ITEMS = { safe: 'reader', unsafe: 'writer' } as const
const READ = { safe: 'reader', unsafe: 'reader' } as const
const ADMIN = { safe: 'admin', unsafe: 'admin' } as const

const TABLE: readonly Row[] = [
  { route: '/api', path: '/api', safe: 'reader', unsafe: 'admin', get: 200, others: { POST: 400 } },
  { route: '/api/:collection', path: '/api/sensors', ...ITEMS, get: 200, others: { POST: 400, PUT: 400, DELETE: 400 } },
  {
    route: '/api/:collection',
    path: '/api/profile',
    ...ITEMS,
    get: 200,
    others: { POST: 400, PUT: 400, PATCH: 400, DELETE: 412 },
  },
  {
    route: '/api/:collection/:id',
    path: '/api/sensors/1',
    ...ITEMS,
    get: 200,
    others: { PUT: 400, PATCH: 400, DELETE: 412 },
  },
  {
    route: '/api/:collection/:id/*rest',
    path: '/api/sensors/1/name',
    ...ITEMS,
    get: 200,
    others: { PUT: 400, PATCH: 400 },
  },
  { route: '/events', path: '/events', ...READ, get: 200, others: {} },
  { route: '/events/:position', path: '/events/2', ...READ, get: 200, others: {} },
  { route: '/admin/reload', path: '/admin/reload', ...ADMIN, get: 405, others: { POST: 200 } },
  { route: '/admin/settings/reload', path: '/admin/settings/reload', ...ADMIN, get: 405, others: { POST: 200 } },
  { route: '/admin/retention', path: '/admin/retention', ...ADMIN, get: 405, others: { POST: 200 } },
  { route: '/admin/verify', path: '/admin/verify', ...ADMIN, get: 405, others: { POST: 200 } },
  { route: '/admin/snapshot', path: '/admin/snapshot', ...ADMIN, get: 405, others: { POST: 200 } },
  { route: '/admin/restore', path: '/admin/restore', ...ADMIN, get: 405, others: { POST: 400 } },
  { route: '/admin/reset', path: '/admin/reset', ...ADMIN, get: 405, others: { POST: 200 } },
  { route: '/metrics', path: '/metrics', ...READ, get: 200, others: {} },
  { route: '/logout', path: '/logout', ...READ, get: 405, others: { POST: 400 } },
  { route: '/token', path: '/token', get: 405, others: { POST: 415 } },
  { route: '/health', path: '/health', get: 200, others: {} },
  { route: '/openapi.json', path: '/openapi.json', get: 200, others: {} },
  { route: '/swagger', path: '/swagger', get: 301, others: {} },
  { path: '/swagger/', get: 200, others: {} },
  { path: swaggerAsset('swagger-ui.min.css'), get: 200, others: {} },
  { path: '/', get: 200, others: {} },
  { path: '/collections.html', get: 200, others: {} },
  { path: '/client/index.js', get: 200, others: {} },
  { path: '/nothing' },
  { path: '/admin', ...ADMIN },
  { path: '/admin/nothing', ...ADMIN },
  { path: '/events/2/item', ...READ },
]
/** Those that the app has; a table may know of more. */
const registered = new Set((await registeredRoutes({ after })).keys())
const ROWS = TABLE.filter(({ route }) => route === undefined || registered.has(route))

test('the table has a row for every route', () => {
  const known = TABLE.map(({ route }) => route)
  assert.ok(registered.size >= 15)
  assert.deepEqual(
    [...registered].filter((path) => !known.includes(path)),
    [],
  )
})

/** The credentials of a client and their role; no role for invalid ones. */
interface Visitor {
  readonly what: string
  readonly headers: Readonly<Record<string, string>>
  readonly role: Role | undefined
}

const bearer = (token: string) => ({ Authorization: `Bearer ${token}` })

async function visitors(url: string, scheme: Scheme): Promise<readonly Visitor[]> {
  switch (scheme) {
    case 'token':
      return tokenVisitors(url)
    case 'basic':
      return [
        { what: 'a wrong password', headers: { Authorization: basic('admin', 'wrong') }, role: undefined },
        ...ROLES.map((role) => ({ what: role, headers: { Authorization: basic(role, passwordOf(role)) }, role })),
      ]
    case 'apikey':
      return [
        { what: 'a wrong key', headers: { 'X-API-KEY': keyOf('admin').toUpperCase() }, role: undefined },
        { what: 'a key and more', headers: { 'X-API-KEY': `${keyOf('admin')}x` }, role: undefined },
        { what: 'no key', headers: { 'X-API-KEY': '' }, role: undefined },
        ...ROLES.map((role) => ({ what: role, headers: { 'X-API-KEY': keyOf(role) }, role })),
      ]
    default:
      return scheme satisfies never
  }
}

async function tokenVisitors(url: string): Promise<readonly Visitor[]> {
  const expired = await new SignJWT({})
    .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
    .setIssuer('recollect')
    .setSubject('admin')
    .setJti('expired')
    .setExpirationTime(Math.floor(Date.now() / 1000) - 1)
    .sign(Buffer.from(SECRET))
  const revoked = await tokenOf(url, 'admin')
  assert.equal((await send(url, 'POST', '/logout', { headers: bearer(revoked) })).status, 204)
  const right = await Promise.all(
    ROLES.map(async (role) => ({ what: role, headers: bearer(await tokenOf(url, role)), role })),
  )
  return [
    { what: 'a wrong token', headers: bearer('a.b.c'), role: undefined },
    { what: 'an expired token', headers: bearer(expired), role: undefined },
    { what: 'a revoked token', headers: bearer(revoked), role: undefined },
    ...right,
  ]
}

/** All that can be brought where these schemes are in use; what is right for another scheme is wrong. */
async function everybody(server: RunningProgram, schemes: readonly Scheme[]): Promise<readonly Visitor[]> {
  const all: Visitor[] = [{ what: 'nothing', headers: {}, role: undefined }]
  for (const scheme of ['basic', 'apikey', 'token'] as const) {
    const isUsed = schemes.includes(scheme)
    if (scheme === 'token' && !isUsed) continue
    const found = await visitors(server.url, scheme)
    all.push(
      ...found.map(({ what, headers, role }) => ({
        what: `${scheme}: ${what}`,
        headers,
        role: isUsed ? role : undefined,
      })),
    )
  }
  return all
}

function expected(row: Row, method: Method, visitor: Visitor, schemes: readonly Scheme[]): number {
  const isSafe = method === 'GET' || method === 'HEAD' || method === 'OPTIONS'
  const needed = isSafe ? row.safe : row.unsafe
  if (needed !== undefined && visitor.role === undefined) return 401
  if (needed !== undefined && !includes(visitor.role as Role, needed)) return 403
  const isForTokens = row.route === '/token' || row.route === '/logout'
  if (row.others === undefined || (isForTokens && !schemes.includes('token'))) {
    return method === 'GET' || method === 'HEAD' ? (isForTokens ? 404 : (row.get ?? 404)) : 404
  }
  if (method === 'OPTIONS') return 200
  if (method === 'GET' || method === 'HEAD') return row.get ?? 404
  if (row.route === '/logout' && method === 'POST') return visitor.what.startsWith('token') ? 204 : 400
  return row.others[method] ?? 405
}

/** The same path in other letters; undefined where there is no letter that is the route's own. */
function otherCase(path: string): string | undefined {
  const shouted = path.replace(/^\/[a-z]+/, (first) => first.toUpperCase())
  return shouted === path ? undefined : shouted
}

for (const schemes of SCHEMES) {
  describe(`by ${schemes.join(', ')}`, () => {
    let server: RunningProgram
    let all: readonly Visitor[]
    const ends: (() => Promise<unknown>)[] = []
    before(async () => {
      const scope = { after: (end: () => Promise<unknown>) => void ends.push(end) }
      const flags = authentication(schemes, ['--Limits.FailuresPerMinute', '1000000', '--Api.Reset', 'true'])
      server = await startProgram(scope, { data: DATA, flags })
      all = await everybody(server, schemes)
    })
    after(async () => {
      for (const end of ends) await end()
    })

    for (const row of ROWS) {
      test(`${row.path} allows exactly the permitted roles, for every method`, async () => {
        const wrong = await Promise.all(
          all.flatMap((visitor) =>
            METHODS.map(async (method) => {
              // A token that is revoked by its use serves once.
              const isSpent = row.route === '/logout' && visitor.role && visitor.what.startsWith('token')
              const headers = isSpent ? bearer(await tokenOf(server.url, visitor.role as Role)) : visitor.headers
              const { status, text } = await send(server.url, method, row.path, { headers: { ...headers, ...NEVER } })
              const wanted = expected(row, method, visitor, schemes)
              if (visitor.role === undefined && text.includes(KEPT)) return `${method} with ${visitor.what}: told`
              return status === wanted ? [] : `${method} with ${visitor.what}: ${status} instead of ${wanted}`
            }),
          ),
        )
        assert.deepEqual(wrong.flat(), [])
      })

      // Which schemes are in use makes no difference to how a path is read.
      const shouted = schemes.length > 1 ? otherCase(row.path) : undefined
      if (shouted === undefined) continue
      test(`${shouted} is rejected like the other spelling, and serves nobody`, async () => {
        const wrong = await Promise.all(
          all.flatMap((visitor) =>
            METHODS.map(async (method) => {
              const { status } = await send(server.url, method, shouted, { headers: { ...visitor.headers, ...NEVER } })
              const { safe, unsafe } = row
              const nowhere = { path: shouted, ...(safe && { safe }), ...(unsafe && { unsafe }) }
              const wanted = expected(nowhere, method, visitor, schemes)
              return status === wanted ? [] : `${method} with ${visitor.what}: ${status} instead of ${wanted}`
            }),
          ),
        )
        assert.deepEqual(wrong.flat(), [])
      })
    }

    test('no other spelling of a path reveals its content to an anonymous client', async () => {
      const spellings = [
        ...[
          '//api/sensors',
          '/./api/sensors',
          '/x/../api/sensors',
          '/%61pi/sensors',
          '/api%2Fsensors',
          '/api;x/sensors',
        ],
        ...[
          '/api/sensors/',
          '/api//sensors',
          '/api\\sensors',
          'http://x/api/sensors',
          'HTTP://x/api/sensors',
          '/api/./sensors',
        ],
        ...[
          '/api/sensors/1#',
          '/api/sensors?',
          '/api/sensors/1/',
          '/events/',
          '//events',
          '/events/2/',
          'x://y/events',
        ],
        ...[
          'http:///api/sensors',
          'http://[/api/sensors',
          'api/sensors',
          '/health/../api/sensors',
          '/swagger/../api/sensors',
        ],
        ...[
          '/swagger/..%2f..%2fapi/sensors',
          swaggerAsset('../../api/sensors'),
          '/\tapi/sensors',
          '/api\u00a0/sensors',
        ],
      ]
      for (const path of spellings) {
        for (const headers of [
          {},
          bearer('a.b.c'),
          { 'X-Original-URL': '/api/sensors', 'X-Rewrite-URL': '/api/sensors' },
        ]) {
          const bytes = Buffer.from(
            `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n${Object.entries(headers)
              .map(([name, value]) => `${name}: ${value}\r\n`)
              .join('')}\r\n`,
            'latin1',
          )
          const text = await sendBytes(server.url, bytes)
          assert.match(text, /^HTTP\/1\.1 (400|401|404) /, path)
          assert.doesNotMatch(text, new RegExp(KEPT), path)
        }
      }
    })

    test('a method override in a header or in the query is ignored', async () => {
      const [reader] = all.filter(({ role }) => role === 'reader')
      for (const path of ['/api/sensors/1?_method=DELETE', '/api/sensors/1']) {
        const headers = { ...reader?.headers, 'X-HTTP-Method-Override': 'DELETE', 'X-Method-Override': 'DELETE' }
        assert.equal((await send(server.url, 'POST', path, { headers })).status, 403, path)
      }
      assert.equal((await send(server.url, 'GET', '/api/sensors/1', { headers: reader?.headers ?? {} })).status, 200)
    })

    test('nothing was changed, and no request failed', async () => {
      const admin = all.find(({ role }) => role === 'admin')
      const { text, headers } = await send(server.url, 'GET', '/api/sensors', { headers: admin?.headers ?? {} })
      assert.deepEqual(JSON.parse(text), DATA.sensors)
      assert.equal(headers['journal-position'], '3')
      assert.doesNotMatch(server.stderr(), /"level":(50|60)/)
    })
  })
}

test('an unknown user is rejected with the same message as a wrong password', async (t) => {
  const { url } = await startProgram(t, { data: DATA, flags: authentication(['token', 'basic']) })
  const withoutIds = (text: string) => text.replace(/"instance":"[^"]*"/, '')
  const answers = await Promise.all(
    [basic('nobody', passwordOf('admin')), basic('admin', 'wrong'), basic('', ''), basic('__proto__', 'x')].map(
      async (Authorization) => {
        const { status, text, headers } = await send(url, 'GET', '/api', { headers: { Authorization } })
        return [status, withoutIds(text), headers['www-authenticate']]
      },
    ),
  )
  for (const answer of answers) assert.deepEqual(answer, answers[0])
  assert.equal(answers[0]?.[0], 401)
  const logins = await Promise.all([login(url, 'nobody', passwordOf('admin')), login(url, 'admin', 'wrong')])
  assert.deepEqual(
    logins.map(({ status }) => status),
    [401, 401],
  )
  assert.equal(logins[0]?.text, logins[1]?.text)
})

test('a login by a user of each role gives a token of that role', async (t) => {
  const { url } = await startProgram(t, { data: DATA, flags: authentication(['token']) })
  for (const role of ROLES) {
    const reply = await login(url, role, passwordOf(role))
    assert.equal(reply.status, 200)
    assert.equal(reply.headers['cache-control'], 'no-store')
    const { access_token, ...rest } = reply.json<Record<string, unknown>>()
    assert.deepEqual(rest, { token_type: 'Bearer', expires_in: 3600 })
    const deleted = await send(url, 'DELETE', '/api/sensors/2', { headers: bearer(String(access_token)) })
    assert.equal(deleted.status, role === 'reader' ? 403 : 404)
  }
})
