import assert from 'node:assert/strict'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, afterEach, test } from 'node:test'
import { temporaryDirectory } from '../support/directory.ts'
import { swaggerAsset } from '../support/pages.ts'
import { type Reply, send, sendBytes, sendJson } from '../support/requests.ts'
import { runToEnd } from '../support/server.ts'
import { startHere } from '../support/service.ts'
import { assertSound } from './soundness.ts'

const OUTSIDE = 'stands outside of the served directory'
const pages = await temporaryDirectory({ after })
const wwwroot = join(pages, 'wwwroot')
await mkdir(join(wwwroot, 'inner'), { recursive: true })
await writeFile(join(wwwroot, 'index.html'), '<p>home')
await writeFile(join(wwwroot, 'inner', 'page.html'), '<p>inner')
await writeFile(join(pages, 'outside.txt'), OUTSIDE)
await writeFile(join(wwwroot, '.env'), OUTSIDE)
await symlink(join(pages, 'outside.txt'), join(wwwroot, 'file-link.txt'))
await symlink(pages, join(wwwroot, 'directory-link'))
await symlink('..', join(wwwroot, 'inner', 'up'))
await symlink('/', join(wwwroot, 'root-link'))
await symlink('loop', join(wwwroot, 'loop'))

const ITEMS = Array.from({ length: 50 }, (_, id) => ({
  id,
  name: `${'a'.repeat(500)}${id}`,
  at: '2026-11-20T12:00:00.123456',
  deep: { list: [{ n: id }, [{ n: id }], null] },
}))
const flags = ['--Api.UpsertOnPut', 'true']
const service = await startHere({ after }, { data: { things: ITEMS }, flags, wwwroot })
const { url } = service
const get = (path: string, headers = {}): Promise<Reply> => send(url, 'GET', path, { headers })

afterEach(async () => {
  assert.equal((await get('/api/things/7')).status, 200)
  assert.doesNotMatch(service.log.join(''), /"level":(50|60)/)
  await assertSound(service)
})

test('queries that try to make a regular expression slow', async () => {
  const values = [
    ...[
      'a'.repeat(5000),
      `${'a'.repeat(4000)}!`,
      '('.repeat(3000),
      '(a+)+$',
      '^(([a-z])+.)+[A-Z]([a-z])+$',
      '.*'.repeat(1000),
    ],
    ...['0'.repeat(5000), `${'1'.repeat(5000)}x`, `1e${'9'.repeat(4000)}`, `-${'0'.repeat(4000)}.`, '1.'.repeat(2000)],
    ...[
      `2026-11-20T12:00:00.${'1'.repeat(4000)}`,
      `2026-11-20T12:00:00.${'1'.repeat(4000)}x`,
      '2026-'.repeat(1000),
      `${'9'.repeat(4000)}-01-01`,
    ],
    ...[
      '_asc'.repeat(1500),
      '_'.repeat(5000),
      '.'.repeat(5000),
      ','.repeat(5000),
      '-'.repeat(5000),
      '%20'.repeat(2000),
    ],
    ...[
      'W/'.repeat(2000),
      '"'.repeat(5000),
      '['.repeat(5000),
      '{"a":'.repeat(1000),
      '\\'.repeat(3000),
      '%00'.repeat(2000),
    ],
  ].map((value) =>
    encodeURI(decodeURI(value))
      .slice(0, 6000)
      .replace(/%[^%]?$/, ''),
  )
  const names = [
    'name',
    'name_gt',
    'name_contains',
    'name_in',
    'at_lte',
    'deep.list.n',
    'q',
    'sort',
    'fields',
    'page',
    'asOf',
    'name_exists',
  ]
  for (const value of values) {
    for (const name of names) {
      const { status } = await get(`/api/things?${name}=${value}`)
      const isThen = name === 'asOf' && status === 404
      assert.ok(status === 200 || status === 400 || isThen, `${name}=${value.slice(0, 40)}: ${status}`)
    }
    const { status } = await get(`/api/things?${value}=1`)
    assert.ok(status === 200 || status === 400, `${value.slice(0, 40)}: ${status}`)
    for (const name of ['from', 'limit', 'since', 'until', 'type', 'id', 'actor', value]) {
      const { status } = await get(`/events?${name}=${value}`)
      assert.ok(status === 200 || status === 400, `events ${name.slice(0, 40)}=${value.slice(0, 40)}: ${status}`)
    }
  }
})

test('headers that try to make a regular expression slow', async () => {
  const long = (text: string) => text.repeat(Math.floor(14_000 / text.length))
  for (const text of [
    '"',
    'W/"',
    'W/',
    ' ',
    ',',
    ', ',
    '";',
    'a=b;',
    'return=',
    'q=0.',
    '*/*,',
    '\t',
    '=',
    '%',
    'aA',
    '/',
    '-',
  ]) {
    const value = `x${long(text)}x`
    for (const name of [
      'If-None-Match',
      'If-Match',
      'Accept',
      'Prefer',
      'Origin',
      'X-Request-Id',
      'Authorization',
      'X-Forwarded-For',
      'Range',
      'Cookie',
    ]) {
      const { status } = await get('/api/things/7', { [name]: value })
      assert.ok([200, 304].includes(status), `${name}: ${value.slice(0, 20)}: ${status}`)
    }
    const typed = await send(url, 'POST', '/api/things', {
      headers: { 'Content-Type': `application/json;${value}` },
      body: '[',
    })
    assert.ok([400, 415].includes(typed.status), `${text}: ${typed.status}`)
  }
})

test('more than a thousand parameters, and a query longer than 16 KB', async () => {
  const many = (count: number) => Array.from({ length: count }, (_, index) => `a=${index % 10}`).join('&')
  assert.equal((await get(`/api/things?${many(1000)}`)).status, 200)
  for (const path of ['/api/things', '/events']) {
    assert.equal((await get(`${path}?${many(1001)}`)).status, 400)
    assert.equal((await get(`${path}?q=${'x'.repeat(17_000)}`)).status, 414)
    assert.equal((await get(`${path}?${'&'.repeat(17_000)}`)).status, 414)
  }
  assert.equal((await get(`/api/things?${'&'.repeat(16_000)}`)).status, 200)
})

test('queries for inherited members', async () => {
  for (const name of [
    '__proto__',
    'constructor',
    'constructor.prototype',
    'toString',
    'name.length',
    'deep.list.length',
    '__proto__.x',
    'hasOwnProperty',
    'deep.__proto__',
    '.',
    '..',
    '',
  ]) {
    const encoded = encodeURIComponent(name)
    for (const query of [
      `${encoded}=1`,
      `${encoded}_ne=1`,
      `${encoded}_gt=`,
      `sort=-${encoded}`,
      `${encoded}_exists=true`,
    ]) {
      const { status, text } = await get(`/api/things?${query}`)
      assert.ok(status === 200 || status === 400, `${query}: ${status} ${text}`)
      if (status === 200 && !query.startsWith('sort') && name !== '') assert.equal(text, '[]', query)
    }
    const { text, status } = await get(`/api/things?fields=${encoded}&pageSize=1`)
    assert.ok(status === 200 || status === 400, name)
    if (name !== '') assert.doesNotMatch(text, /:\d|native code|prototype":/, name)
  }
})

/** Each with its one spelling in an address. */
const IDS: readonly (readonly [id: string, segment: string])[] = [
  ['\r\nSet-Cookie: a=b', '%0D%0ASet-Cookie:%20a=b'],
  ['\r\n\r\n<script>', '%0D%0A%0D%0A%3Cscript%3E'],
  ['\0', '%00'],
  ['a\0b', 'a%00b'],
  ['..', '%2E%2E'],
  ['../../etc/passwd', '..%2F..%2Fetc%2Fpasswd'],
  ['..\\..\\x', '..%5C..%5Cx'],
  ['%2e%2e', '%252e%252e'],
  ['\u2028\u2029', '%E2%80%A8%E2%80%A9'],
  ['\u202Etxt.exe', '%E2%80%AEtxt.exe'],
  ['\ufeff', '%EF%BB%BF'],
  ['x'.repeat(5000), 'x'.repeat(5000)],
  ['€'.repeat(700), encodeURIComponent('€'.repeat(700))],
  ['__proto__', '__proto__'],
  ['constructor', 'constructor'],
  ['hasOwnProperty', 'hasOwnProperty'],
  ['{{7*7}}<%=7*7%>', '%7B%7B7*7%7D%7D%3C%25=7*7%25%3E'],
  ["';DROP TABLE items;--", "'%3BDROP%20TABLE%20items%3B--"],
  ['$(id)`id`|id', '%24(id)%60id%60%7Cid'],
]

test('ids that look like something else are ordinary ids', async () => {
  for (const [id, segment] of IDS) {
    for (const path of [`/api/odd/${segment}`, `/api/${segment}/${segment}`]) {
      const made = await sendJson(url, 'PUT', path, { said: id })
      assert.equal(made.status, 201, path.slice(0, 80))
      assert.equal(made.headers['set-cookie'], undefined)
      assert.match(String(made.headers.location), /^\/api\/[\x21-\x7e]+$/)
      const found = await get(String(made.headers.location))
      assert.deepEqual(found.json(), { id, said: id })
      assert.deepEqual((await get(`${path}/said`)).json(), id)
    }
    const list = await get(`/api/${segment}?pageSize=1`)
    // A name too long for a header has no links.
    if (segment.length > 2000) continue
    assert.match(String(list.headers.link), /^(<\/api\/[\x21-\x7e]+>; rel="\w+"(, |$))+$/)
    assert.equal((await get(`/events?collection=${segment}&id=${segment}`)).json<unknown[]>().length, 1)
  }
})

test('ids and names that are no valid text', async () => {
  for (const segment of [
    '%ED%A0%80',
    '%ED%B0%80',
    '%ff',
    '%C0%AF',
    '%zz',
    '%',
    '%u0041',
    '%ED%A0%80%ED%B0%80',
    '%F8%A1%A1%A1%A1',
  ]) {
    for (const path of [`/api/things/${segment}`, `/api/${segment}/1`, `/api/${segment}`, `/api/things/7/${segment}`]) {
      for (const [method, body] of [['GET'], ['PUT', {}], ['PATCH', { a: 1 }], ['DELETE'], ['POST', {}]] as const) {
        const { status } = body ? await sendJson(url, method, path, body) : await send(url, method, path)
        assert.ok([400, 405].includes(status), `${method} ${path}: ${status}`)
      }
    }
  }
  for (const id of ['\ud800', 'a\udc00', '\udc00\ud800']) {
    for (const text of [id, JSON.stringify(id).slice(1, -1)]) {
      const body = `{"id":"${text}"}`
      const { status } = await send(url, 'PUT', '/api/things/x', {
        headers: { 'Content-Type': 'application/json' },
        body,
      })
      assert.ok([400, 409, 422].includes(status), `${status}`)
    }
  }
  const long = `/api/things/${'x'.repeat(10_240)}`
  assert.equal((await sendJson(url, 'PUT', long, {})).status, 201)
  assert.equal((await send(url, 'DELETE', long)).status, 204)
  assert.equal((await get(`/api/things/${'x'.repeat(40_000)}`)).status, 414)
})

test('collection names that try to break a page, a document or an object', async () => {
  const names = [
    '__proto__',
    'constructor',
    'prototype',
    'toString',
    '</script><script>alert(1)</script>',
    '<img src=x onerror=alert(1)>',
    '"}},"paths":{',
    '{{constructor}}',
    '../../swagger',
    '\u2028',
  ]
  for (const name of names) {
    const path = `/api/${encodeURIComponent(name)}`
    const { status, headers } = await sendJson(url, 'POST', path, { [name === '__proto__' ? 'p' : name]: 'x' })
    assert.equal(status, 201, name)
    assert.equal((await get(String(headers.location))).status, 200)
  }
  const document = await get('/openapi.json')
  assert.equal(document.status, 200)
  assert.equal(document.headers['content-type'], 'application/json')
  assert.equal(document.headers['x-content-type-options'], 'nosniff')
  const { paths } = document.json<{ paths: Record<string, unknown> }>()
  const documented = Object.keys(paths).map(decodeURIComponent)
  for (const name of names) assert.ok(documented.includes(`/api/${name}`), name)
  const listed = (await get('/api')).json<string[]>()
  for (const name of names) assert.ok(listed.includes(name), name)
  const page = await get('/swagger/')
  assert.equal(page.status, 200)
  assert.doesNotMatch(page.text, /alert|onerror/)
  assert.match(
    String(page.headers['content-security-policy']),
    /script-src 'self' 'sha256-[^']+'(?!.*unsafe-inline.*script)/,
  )
  for (const name of [
    '__proto__',
    'constructor',
    'toString',
    '..%2f..%2f..%2fpackage.json',
    '%2e%2e/%2e%2e/main.js',
    'swagger-ui.css%00',
  ]) {
    assert.equal((await get(swaggerAsset(name))).status, 404, name)
  }
})

test('rejected input is returned only as JSON, which browsers do not interpret as a page', async () => {
  for (const path of [
    '/<script>alert(1)</script>',
    '/api/<script>/1',
    '/%3Cscript%3Ealert(1)%3C/script%3E',
    '/api/nothing/%3Cimg%20src=x%3E',
    '/events/<script>',
  ]) {
    const { status, headers } = await get(path)
    assert.ok(status >= 400 && status < 500, path)
    assert.equal(headers['content-type'], 'application/problem+json')
    assert.equal(headers['x-content-type-options'], 'nosniff')
  }
})

test('paths out of the served directory, in every encoding, and by links', async () => {
  const up = [
    '..',
    '%2e%2e',
    '%2E.',
    '.%2e',
    '%252e%252e',
    '..%c0%af',
    '%c0%ae%c0%ae',
    '\u002e\u002e',
    '....',
    '..;',
    '..%00',
    '%uff0e%uff0e',
    '..%5c',
    '..\\',
  ]
  const slash = ['/', '%2f', '%5c', '\\', '%252f', '//', '/./']
  for (const dots of up) {
    for (const between of slash) {
      for (const depth of [1, 2, 6]) {
        const climb = `${dots}${between}`.repeat(depth)
        for (const target of ['outside.txt', 'etc/passwd'.replace('/', between), 'wwwroot/.env']) {
          for (const start of ['/', '/inner/', swaggerAsset(''), '/inner%2f']) {
            const reply = await sendBytes(
              url,
              `GET ${start}${climb}${target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`,
            )
            assert.match(reply, /^HTTP\/1\.1 (400|404) /, `${start}${climb}${target}`)
          }
        }
      }
    }
  }
  const links = [
    '/file-link.txt',
    '/directory-link',
    '/directory-link/',
    '/directory-link/outside.txt',
    '/inner/up/.env',
    '/root-link/etc/passwd',
    '/root-link/',
    '/loop',
    '/.env',
    '/inner/up/up/outside.txt',
  ]
  for (const path of links) {
    const { status, text } = await get(path)
    assert.ok(status === 404 || status === 400, `${path}: ${status}`)
    assert.ok(!text.includes(OUTSIDE))
  }
  assert.equal((await get('/inner/page.html')).text, '<p>inner')
  assert.equal((await get('/inner/up/inner/page.html')).text, '<p>inner')
})

test('the journal is intact afterwards', async (t) => {
  const { code, stdout } = await runToEnd(t, service.directory, ['verify', '--file', service.file])
  assert.equal(code, 0, stdout)
})
