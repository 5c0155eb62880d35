import assert from 'node:assert/strict'
import { Agent, type OutgoingHttpHeaders, request } from 'node:http'
import { after, before, test } from 'node:test'
import Koa, { type Middleware } from 'koa'
import { OpenApiDocument, type Operation } from '../security/document.ts'
import { authentication, basic, keyOf, passwordOf, tokenOf } from '../support/authentication.ts'
import { fetch, within } from '../support/deadline.ts'
import { Random, SEED } from '../support/random.ts'
import { type OwnService, registeredRoutes, startHere } from '../support/service.ts'

/**
 * Each request is sent to two services that are in the same state. The second one has a middleware, so that it leaves
 * all requests to Koa.
 */

const DATA = {
  things: Array.from({ length: 30 }, (_, id) => ({ id, n: id % 3, text: 'ä€😀'.repeat(id % 4) })),
  long: Array.from({ length: 25 }, (_, id) => ({ id, text: 'aä€😀'.repeat(2200) })),
  profile: { name: 'Ada' },
}
const BODY_BYTES = 2000
const NOW = new Date('2026-11-20T12:00:00Z')
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']
/** A list of items, and a single object. */
/** The share of all cases that is tested, at random. */
const SHARE = Number(process.env.FAST_FRONT_SHARE ?? 0.3)
const COLLECTIONS = ['things', 'profile']
/** The values of each other parameter of a path. */
const SEGMENTS: Readonly<Record<string, string>> = { id: '7', rest: 'text', position: '3' }
/** The values of each parameter of the OpenAPI document. */
const VALUES: Readonly<Record<string, readonly string[]>> = {
  filters: [
    'n=1',
    'n=1&_=7&take=2',
    'id[]=1&id[1]=3',
    `q=${'x'.repeat(16_384)}`,
    'n_gt=0&text_contains=%C3%A4',
    'n_exists=maybe',
  ],
  q: ['q=€', 'q='],
  sort: ['sort=-n,id', 'sort=n_asc'],
  page: ['page=2&pageSize=7', 'page=0'],
  pageSize: ['pageSize=3', 'pageSize=x', 'pageSize=3&pageSize=4'],
  per_page: ['per_page=4&page=8'],
  skip: ['skip=5&take=2', 'skip=5&page=2'],
  take: ['take=0'],
  offset: ['offset=3'],
  limit: ['limit=2', 'limit=x'],
  fields: ['fields=text', 'fields=id,n'],
  _embed: ['_embed=things', '_embed=thing&_limit=3', '_embed=x'],
  _dependent: ['_dependent=things', '_dependent=x'],
  _expand: ['_expand=thing', '_expand=x'],
  aggregate: ['aggregate=count,avg(n)', 'aggregate=x'],
  groupBy: ['aggregate=count&groupBy=n&sort=-count', 'groupBy=n'],
  window: ['aggregate=count&window=1h', 'aggregate=count&window=1h&groupBy=type'],
  tz: ['tz=UTC'],
  fill: ['fill=null'],
  distinct: ['distinct=n', 'distinct=n&page=2&pageSize=1'],
  newestBy: ['newestBy=n'],
  all: ['all=true', 'all=true&n=1&fields=id', 'all=x', 'all=true&page=2'],
  dryRun: ['n=2&dryRun=true', 'dryRun=x'],
  asOf: ['asOf=3', 'asOf=20', 'asOf=58', 'asOf=999', 'asOf=x', 'asOf=2020-01-01'],
  journal: ['journal=x'],
  from: ['from=2', 'from=now', '_dc=7&limit[]=1', 'from=9999', 'from=-1'],
  order: ['order=desc&limit=2', 'order=up'],
  collection: ['collection=things&limit=3', 'collection=nothing'],
  id: ['collection=things&id=7'],
  type: ['type=ItemDeleted', 'type=x'],
  actor: ['actor=nobody'],
  requestId: ['requestId=none'],
  since: ['since=2026-01-01&limit=1', 'since=x'],
  until: ['until=2020-01-01'],
  follow: ['follow=false&limit=1', 'follow=true'],
  count: ['count=true', 'count=true&asOf=20', 'count=x'],
  changes: ['changes=true&limit=3', 'changes=true', 'changes=x'],
  'If-Match': ['*', '"other"', 'x'],
  'If-None-Match': ['*', '"other"', 'W/"other", "more"'],
  'If-Unchanged-Since': ['0', '999999', 'x'],
  'Wait-For-Position': ['1', '999999', 'x'],
  'Idempotency-Key': ['one', 'one', '', 'x'.repeat(300)],
  Prefer: ['return=representation', 'return=minimal', 'handling=lenient'],
  'Last-Event-ID': ['2', 'x'],
  'X-Request-Id': ['mine-1', 'not / one!'],
}
/** Addresses as they are not usually sent, and of what there is not. */
const ADDRESSES = [
  '/api/',
  '/api/long?pageSize=24',
  '/api/nothing',
  '/api/nothing/7',
  '/api/things/999',
  '/api/things/007',
  '/api/things/%37',
  '/api/things/%',
  '/api/things/7/',
  '/api/things/7/n/more',
  '/api/things/7?',
  '/api/things?n=1#n=2',
  '/api//things',
  '/api/things//7',
  '/API/things',
  '/api/profile/',
  '/api/profile/name',
  '/api/profile/name?asOf=58',
  '/api/profile?asOf=58&n=1',
  '/api/pro%66ile',
  '/events/',
  '/events/9999',
  '/events/x',
  '/events/1/2',
  '/events?limit=1&access_token=x',
  '/nothing',
]
const LIST = '/api/things'
const JSON_TYPE = 'application/json'
const PATCH_TYPE = 'application/json-patch+json'
const TYPES = [JSON_TYPE, PATCH_TYPE, 'application/merge-patch+json', 'application/json+merge-patch']
/** Bodies by what is sent as Content-Type. */
const BODIES: readonly (readonly [type: string | undefined, body: string])[] = [
  ...TYPES.flatMap((type) =>
    ['{"n":1}', '{"n":null,"text":"ä€😀"}', '[]', 'null', '{"n":1', '{"id":8}', ''].map(
      (body) => [type, body] as const,
    ),
  ),
  [PATCH_TYPE, '[{"op":"replace","path":"/n","value":9}]'],
  [PATCH_TYPE, '[{"op":"test","path":"/n","value":"no"}]'],
  [JSON_TYPE, `{"n":"${'x'.repeat(BODY_BYTES)}"}`],
  [`${JSON_TYPE}; charset=utf-8`, '{"n":1}'],
  [`${JSON_TYPE}; charset=latin1`, '{"n":1}'],
  [JSON_TYPE, '[{"n":1},{"n":2}]'],
  ['application/x-ndjson', '{"n":1}\n{"n":2}\n'],
  ['text/csv', 'n,text\r\n1,a\r\n'],
  ['text/plain', '{"n":1}'],
  [undefined, '{"n":1}'],
]

interface Asked {
  readonly method: string
  readonly path: string
  readonly headers?: OutgoingHttpHeaders
  readonly body?: string
  /** Whether the fast front serves it, where it is known what it should do. */
  readonly isFast?: boolean | undefined
}

interface Pair {
  readonly front: OwnService
  readonly koa: OwnService
}

interface Credentials {
  readonly name: string
  readonly headers: OutgoingHttpHeaders
  /** The allowed access. */
  readonly may: 'nothing' | 'read' | 'write'
}

let routes: ReadonlyMap<string, ReadonlySet<string>>
before(async () => {
  const registered = await registeredRoutes({ after })
  // Other paths show times and sizes, delete what the cases need, or are Koa's alone.
  const compared = /^\/(?:api|events|openapi\.json|admin\/(?:settings|snapshot|restore))(?:\/|$)/
  routes = new Map([...registered].filter(([path]) => compared.test(path)))
})

for (const isOn of [true, false]) {
  test(`the fast front returns the same as Koa with authentication ${isOn ? 'on' : 'off'}: status, headers, body`, async (t) => {
    const flags = ['--Limits.BodyBytes', String(BODY_BYTES), '--Limits.WaitSeconds', '0']
    const access = isOn
      ? authentication(['token', 'basic', 'apikey'], ['--Limits.FailuresPerMinute', '100000'])
      : ['--Authentication.Enabled', 'false']
    const start = (middleware: readonly Middleware[]) =>
      startHere(t, { data: DATA, flags: [...flags, ...access], now: () => NOW, middleware })
    const pair: Pair = { front: await start([]), koa: await start([(_ctx, next) => next()]) }
    const credentials = isOn ? await presented(pair) : [{ name: 'none', headers: {}, may: 'write' } as const]
    const contexts = t.mock.method(Koa.prototype, 'createContext').mock
    const agent = new Agent({ keepAlive: true })
    t.after(() => agent.destroy())

    const cases = await casesOf(pair, credentials)
    assert.ok(cases.length > 200, `${cases.length} cases`)
    const random = new Random(SEED)
    for (const asked of cases.filter(() => random.chance(SHARE))) {
      const context = `${asked.method} ${asked.path} ${JSON.stringify(asked.headers)} ${asked.body ?? ''}`
      const before = contexts.callCount()
      const one = await exchange(agent, pair.front.url, asked)
      const between = contexts.callCount()
      const other = await exchange(agent, pair.koa.url, asked)
      assert.equal(contexts.callCount(), between + 1, `${context} is left to Koa`)
      if (asked.isFast !== undefined)
        assert.equal(between === before, asked.isFast, `${context} is through the fast front`)
      assert.deepEqual(one, other, context)
    }
  })
}

/** The credentials for both services, each of which has seen the valid ones before. */
async function presented({ front, koa }: Pair): Promise<readonly Credentials[]> {
  const token = await tokenOf(front.url, 'writer')
  const all: Credentials[] = [
    { name: 'none', headers: {}, may: 'nothing' },
    { name: 'token', headers: { Authorization: `Bearer ${token}` }, may: 'write' },
    { name: 'key', headers: { 'X-API-KEY': keyOf('writer') }, may: 'write' },
    { name: 'key as Bearer', headers: { Authorization: `Bearer ${keyOf('writer')}` }, may: 'write' },
    { name: 'key as ApiKey', headers: { Authorization: `ApiKey ${keyOf('reader')}` }, may: 'read' },
    { name: 'basic', headers: { Authorization: basic('writer', passwordOf('writer')) }, may: 'write' },
    { name: "a reader's key", headers: { 'X-API-KEY': keyOf('reader') }, may: 'read' },
    { name: 'wrong token', headers: { Authorization: `Bearer ${token.slice(0, -2)}` }, may: 'nothing' },
    { name: 'wrong key', headers: { 'X-API-KEY': 'wrong', Authorization: `Bearer ${token}` }, may: 'nothing' },
    { name: 'wrong password', headers: { Authorization: basic('writer', 'wrong') }, may: 'nothing' },
    { name: 'no scheme', headers: { Authorization: 'Digest x' }, may: 'nothing' },
  ]
  for (const { headers } of all)
    for (const { url } of [front, koa]) await fetch(`${url}/api`, { headers } as RequestInit)
  return all
}

/** Each route with each method and all credentials; each of its parameters and bodies with one credential after the other. */
async function casesOf({ front }: Pair, credentials: readonly Credentials[]): Promise<readonly Asked[]> {
  const cases: Asked[] = []
  const able = credentials.filter(({ may }) => may === 'write')
  const next = (): Credentials => able[cases.length % able.length] as Credentials
  const add = (asked: Asked, who = next()): void => {
    const headers = { ...asked.headers, ...who.headers }
    cases.push({ ...asked, headers, isFast: isPlain(asked) })
  }
  for (const path of [...routes.keys()].flatMap(addressesOf)) {
    for (const method of METHODS) {
      const sent = takesBody(method) ? { headers: { 'Content-Type': JSON_TYPE }, body: '{"n":2}' } : {}
      // Without filters the collection would be removed.
      const search = method === 'DELETE' && path === LIST ? '?dryRun=true' : ''
      for (const who of credentials) add({ method, path: path + search, ...sent }, who)
    }
  }
  const reply = await fetch(`${front.url}/openapi.json`)
  const { operations } = new OpenApiDocument(await reply.json())
  // Other requests need what these delete.
  const later: Asked[] = []
  for (const operation of operations.filter(isGeneric)) {
    for (const address of addressesOf(operation.path.replaceAll(/\{(\w+)\}/g, ':$1'))) {
      for (const asked of conditions(operation, address)) {
        if (operation.method === 'DELETE' && operation.path === '/api/{collection}') later.push(asked)
        else add(asked)
      }
    }
  }
  for (const path of ADDRESSES) for (const method of ['GET', 'DELETE']) add({ method, path })
  const parameters = `${JSON_TYPE}; charset=utf-8`
  for (const Accept of [
    'text/html',
    '*/*',
    'application/x-ndjson',
    parameters,
    `${JSON_TYPE};q=0.1, application/x-ndjson`,
  ]) {
    for (const path of ['/events?limit=2', '/events/2', '/api/things/7'])
      add({ method: 'GET', path, headers: { Accept } })
  }
  for (const Accept of ['text/html', 'text/csv', 'application/x-ndjson', parameters, `${JSON_TYPE};q=0.1, text/csv`]) {
    for (const path of ['/api/things?pageSize=3', '/api/long?all=true', '/api/things?n_gte=0&all=true&fields=id']) {
      add({ method: 'GET', path, headers: { Accept } })
    }
  }
  for (const path of ['/events?limit=2', '/events?limit=1&follow=true&from=3']) {
    add({ method: 'GET', path, headers: { Accept: 'text/event-stream' } })
  }
  for (const asked of later) add(asked)
  return cases
}

/** The methods through the fast front, for the paths that stand for all collections. */
function isGeneric({ method, path }: Operation): boolean {
  return /^\/(api|events)(\/\{|$)/.test(path) && method !== 'HEAD' && method !== 'OPTIONS'
}

/** Requests to the address: one for each value of each parameter, and for each body. */
function* conditions({ method, parameters, bodies }: Operation, address: string): Generator<Asked> {
  const body = bodies.size > 0 ? { body: '{"n":3}', headers: { 'Content-Type': JSON_TYPE } } : {}
  for (const { name, in: place } of parameters) {
    if (place === 'path') continue
    for (const value of VALUES[name] ?? assert.fail(`no value of the parameter ${name} is tested`)) {
      if (place === 'query') yield { method, path: `${address}?${encodeURI(value)}`, ...body }
      else yield { method, path: address, ...body, headers: { ...body.headers, [name]: value } }
    }
  }
  if (bodies.size === 0) return
  for (const [type, text] of BODIES) {
    const headers = type === undefined ? {} : { 'Content-Type': type }
    yield { method, path: address, headers, body: text }
  }
}

/** The addresses of a route: of each collection. */
function addressesOf(route: string): readonly string[] {
  const addresses = COLLECTIONS.map((collection) => {
    const segments: typeof SEGMENTS = { ...SEGMENTS, collection }
    return route.replaceAll(/[:*](\w+)/g, (_, name: string) => segments[name] ?? assert.fail(`no value of ${name}`))
  })
  return [...new Set(addresses)]
}

function takesBody(method: string): boolean {
  return method === 'POST' || method === 'PUT' || method === 'PATCH'
}

/** Whether a request to the address of a route needs nothing that only Koa has; undefined where another address is asked. */
function isPlain({ method, path, headers = {}, body = '' }: Asked): boolean | undefined {
  const route = [...routes].find(([one]) => addressesOf(one).includes(path.replace(/\?.*/, '')))
  if (!route) return undefined
  if (path.includes('#')) return false
  if (method === 'HEAD' || method === 'OPTIONS' || !route[1].has(method)) return false
  return !takesBody(method) || (TYPES.includes(String(headers['Content-Type'])) && body.length <= BODY_BYTES)
}

/** The response without the parts that differ between services and requests. */
function exchange(agent: Agent, url: string, { method, path, headers = {}, body }: Asked): Promise<object> {
  const { hostname, port } = new URL(url)
  const length = body === undefined ? {} : { 'Content-Length': Buffer.byteLength(body) }
  const options = { agent, hostname, port, method, path, headers: { ...headers, ...length } }
  return within(
    `the response to ${method} ${path}`,
    new Promise((resolve, reject) => {
      const sent = request(options, (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.on('error', reject)
        response.on('end', () => {
          const { statusCode, rawHeaders } = response
          const fields: string[] = []
          for (let at = 0; at < rawHeaders.length; at += 2) {
            if (rawHeaders[at] !== 'Date') fields.push(anonymous(`${rawHeaders[at]}: ${rawHeaders[at + 1]}`))
          }
          resolve({
            status: statusCode,
            fields: fields.sort(),
            body: anonymous(Buffer.concat(chunks).toString('latin1')),
          })
        })
      })
      sent.on('error', reject)
      sent.end(body)
    }),
  )
}

/** Without the ids of journals and requests. */
function anonymous(text: string): string {
  return text.replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'id')
}
