import assert from 'node:assert/strict'
import { after, afterEach, test } from 'node:test'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { type Reply, send, sendBytes, sendJson } from '../support/requests.ts'
import { runToEnd } from '../support/server.ts'
import { startHere } from '../support/service.ts'
import { assertSound } from './soundness.ts'

const LIMIT = 1024 * 1024
const ITEM = { id: 1, name: 'one', a: [1, 2], o: { p: 'q' } }
const users = JSON.stringify([{ Username: 'admin', Password: 'right' }])
const flags = [
  '--Authentication.Users',
  users,
  '--Authentication.Enabled',
  'true',
  '--Limits.FailuresPerMinute',
  '100000',
]
const service = await startHere(
  { after },
  { data: { things: [ITEM] }, flags: [...flags, '--Authentication.AuthenticationType', 'token,basic'] },
)
const { url } = service
const ADMIN = { Authorization: `Basic ${Buffer.from('admin:right').toString('base64')}` }
const JSON_TYPE = { 'Content-Type': 'application/json', ...ADMIN }
const PATCH_TYPE = { 'Content-Type': 'application/json-patch+json', ...ADMIN }

afterEach(async () => {
  assert.deepEqual((await read('/api/things/1')).json(), ITEM)
  assert.doesNotMatch(service.log.join(''), /"level":(50|60)/)
  await assertSound(service)
})

function read(path: string): Promise<Reply> {
  return send(url, 'GET', path, { headers: ADMIN })
}

/** Every door that takes JSON, each with what it takes otherwise. */
const DOORS: readonly (readonly [method: string, path: string, type: string])[] = [
  ['POST', '/api/things', 'application/json'],
  ['POST', '/api/never', 'application/json'],
  ['PUT', '/api/things/1', 'application/json'],
  ['PATCH', '/api/things/1', 'application/merge-patch+json'],
  ['PATCH', '/api/things/1', 'application/json+merge-patch'],
  ['PATCH', '/api/things/1', 'application/json'],
  ['PATCH', '/api/things/1', 'application/json-patch+json'],
  ['POST', '/admin/restore', 'application/json'],
  ['POST', '/token', 'application/json'],
]

/** Sends it through every door: all refuse it with one of these. */
async function refusedAt(
  doors: typeof DOORS,
  statuses: readonly number[],
  body: string | Uint8Array,
  headers: Readonly<Record<string, string>> = {},
): Promise<void> {
  for (const [method, path, type] of doors) {
    const sent = { headers: { ...ADMIN, 'Content-Type': type, ...headers }, body }
    const { status, text } = await send(url, method, path, sent)
    const shown = body.slice(0, 60).toString()
    assert.ok(statuses.includes(status), `${method} ${path} (${type}) of ${shown}: ${status} ${text}`)
  }
}

const ITEM_DOORS = DOORS.filter(([, path]) => path.startsWith('/api'))

test('a member __proto__, plain or escaped, at any depth', async () => {
  for (const name of ['__proto__', '\\u005f\\u005fproto\\u005f\\u005f', '__pr\\u006fto__']) {
    for (const body of [
      `{"${name}":{"polluted":true}}`,
      `{"a":{"b":[{"${name}":{"polluted":true}}]}}`,
      `{"${name}":null}`,
      `{"${name}":[],"${name}":1}`,
      `[{"op":"add","path":"/x","value":{"${name}":{"polluted":true}}}]`,
      `{"to":0,"${name}":{"polluted":true}}`,
      `{"username":"admin","password":"wrong","${name}":{"polluted":true}}`,
    ]) {
      await refusedAt(DOORS, [400, 401], body)
      await refusedAt(ITEM_DOORS, [400], body)
    }
  }
})

test('constructor.prototype and other inherited names are ordinary data', async () => {
  const names = Object.getOwnPropertyNames(Object.prototype).filter((name) => name !== '__proto__')
  const body = `{${names.map((name) => `"${name}":{"prototype":{"polluted":true},"call":1}`).join()},"then":"x","toJSON":"y","length":1e9}`
  const headers = { ...JSON_TYPE, Prefer: 'return=representation' }
  const made = await send(url, 'POST', '/api/inherited', { headers, body })
  assert.equal(made.status, 201)
  const { id } = made.json<{ id: number }>()
  const expected = { id, ...(JSON.parse(body) as object) }
  assert.deepEqual(made.json(), expected)
  for (const type of ['application/merge-patch+json', 'application/json']) {
    const patched = await send(url, 'PATCH', `/api/inherited/${id}`, {
      headers: { ...headers, 'Content-Type': type },
      body,
    })
    assert.deepEqual([patched.status, patched.json()], [200, expected])
  }
  const removed = `{${names.map((name) => `"${name}":null`).join()}}`
  assert.equal((await send(url, 'PATCH', `/api/inherited/${id}`, { headers: JSON_TYPE, body: removed })).status, 204)
  assert.deepEqual(
    (await read(`/api/inherited/${id}`)).json(),
    JSON.parse(`{"id":${id},"then":"x","toJSON":"y","length":1e9}`),
  )
  for (const name of [...names, '__proto__', '__proto__/polluted', 'constructor/prototype']) {
    assert.equal((await read(`/api/inherited/${id}/${name}`)).status, 404, name)
  }
})

test('a JSON Patch with pointers to inherited members', async () => {
  const pointers = [
    ...['/__proto__', '/__proto__/polluted', '/constructor/prototype', '/constructor/prototype/x'],
    ...['/toString/call', '/hasOwnProperty/call', '/valueOf/x', '/a/__proto__/x', '/a/constructor/prototype/x'],
    ...[
      '/o/__proto__',
      '/o/constructor/prototype/polluted',
      '/o/p/__proto__/x',
      '/o/p/length',
      '/a/push/call',
      '/name/length',
    ],
    ...[
      '/a/length',
      '/a/0/constructor/prototype/x',
      '/a/-1',
      '/a/01',
      '/a/1e0',
      '/a/4294967295',
      '/a/99999999999999999999',
    ],
    ...['__proto__/x', 'constructor/prototype/x', '/~0__proto__', '/_~1_proto__/x', '/o/~01'].filter(
      (one) => !one.includes('~'),
    ),
  ]
  for (const path of pointers) {
    const patches = [
      [{ op: 'add', path, value: true }],
      [{ op: 'replace', path, value: true }],
      [{ op: 'remove', path }],
      [{ op: 'copy', from: '/name', path }],
      [{ op: 'move', from: '/name', path }],
      [{ op: 'copy', from: path, path: '/taken' }],
      [{ op: 'move', from: path, path: '/taken' }],
      [
        { op: 'add', path: '/name', value: 'changed' },
        { op: 'add', path, value: {} },
      ],
      [
        { op: 'add', path, value: {} },
        { op: 'add', path: `${path}/polluted`, value: true },
        { op: 'remove', path: '/nothing' },
      ],
    ]
    for (const patch of patches) {
      const { status, text } = await send(url, 'PATCH', '/api/things/1', {
        headers: PATCH_TYPE,
        body: JSON.stringify(patch),
      })
      assert.equal(status, 422, `${JSON.stringify(patch)}: ${status} ${text}`)
    }
  }
  for (const path of ['/toString', '/hasOwnProperty', '/valueOf', '/constructor', '/prototype', '/o/constructor']) {
    const body = JSON.stringify([
      { op: 'add', path, value: 'mine' },
      { op: 'test', path, value: 'mine' },
      { op: 'remove', path },
    ])
    assert.equal((await send(url, 'PATCH', '/api/things/1', { headers: PATCH_TYPE, body })).status, 204, path)
  }
})

test('a JSON Patch with parts of wrong types', async () => {
  const odd = [
    [{ op: '__proto__', path: '/x' }],
    [{ op: 'constructor', path: '/x' }],
    [{ op: 'toString', path: '/x' }],
    [{ op: ['add'], path: '/x', value: 1 }],
    [{ op: { toString: 'add' }, path: '/x', value: 1 }],
    [{ op: 'add', path: ['x'], value: 1 }],
    [{ op: 'add', path: { length: 1, 0: '/' }, value: 1 }],
    [{ op: 'add', path: null, value: 1 }],
    [{ op: 'copy', from: 7, path: '/x' }],
    [{ op: 'move', path: '/x' }],
    [{ op: 'add', path: '/x' }],
    [{ op: 'add', path: '/~2', value: 1 }],
    [null],
    [[{ op: 'add', path: '/x', value: 1 }]],
    { length: 1, 0: { op: 'add', path: '/x', value: 1 } },
    'add',
  ]
  for (const patch of odd) {
    const { status } = await send(url, 'PATCH', '/api/things/1', { headers: PATCH_TYPE, body: JSON.stringify(patch) })
    assert.equal(status, 400, JSON.stringify(patch))
  }
})

test('copies that double: twenty of them, of text and of structure, and a thousand small ones', async () => {
  const doubling = (from: string) =>
    Array.from({ length: 20 }, (_, index) => [
      { op: 'add', path: `/d${index}`, value: {} },
      { op: 'copy', from, path: `/d${index}/one` },
      { op: 'copy', from, path: `/d${index}/two` },
      { op: 'move', from: `/d${index}`, path: from },
    ]).flat()
  const bombs = [
    [{ op: 'add', path: '/bomb', value: 'x'.repeat(100) }, ...doubling('/bomb')],
    [
      { op: 'add', path: '/bomb', value: [] },
      ...Array.from({ length: 40 }, () => ({ op: 'copy', from: '/bomb', path: '/bomb/-' })),
    ],
    [
      { op: 'add', path: '/bomb', value: 'x'.repeat(LIMIT / 4) },
      ...Array.from({ length: 900 }, (_, index) => ({ op: 'copy', from: '/bomb', path: `/copy${index}` })),
    ],
    [
      { op: 'add', path: '/n', value: {} },
      ...Array.from({ length: 200 }, (_, index) => ({ op: 'add', path: `/n${'/n'.repeat(index + 1)}`, value: {} })),
    ],
    Array.from({ length: 1001 }, (_, index) => ({ op: 'add', path: `/m${index}`, value: 0 })),
  ]
  for (const bomb of bombs) {
    const { status, text } = await send(url, 'PATCH', '/api/things/1', {
      headers: PATCH_TYPE,
      body: JSON.stringify(bomb),
    })
    assert.ok(status === 422 || status === 400, `${status} ${text}`)
  }
})

test('nesting a hundred thousand deep, of arrays, of objects, of both, closed or not', async () => {
  const deep = 100_000
  for (const body of [
    '['.repeat(deep) + ']'.repeat(deep),
    `${'{"a":'.repeat(deep)}1${'}'.repeat(deep)}`,
    `${'[{"a":'.repeat(deep / 2)}1${'}]'.repeat(deep / 2)}`,
    '['.repeat(deep),
    '{"a":'.repeat(deep),
    `{"a":${'['.repeat(deep)}${']'.repeat(deep)}}`,
    `[{"op":"add","path":"/x","value":${'['.repeat(deep)}${']'.repeat(deep)}}]`,
  ]) {
    await refusedAt(DOORS, [400, 401, 413, 422], body)
  }
  // As a body of POST it is a list of one item.
  const patch = `[{"op":"add","path":"${'/a'.repeat(deep)}","value":1}]`
  await refusedAt(
    DOORS.filter(([method, path]) => method !== 'POST' || !path.startsWith('/api')),
    [400, 401, 413, 422],
    patch,
  )
  await refusedAt(ITEM_DOORS, [400], `{"a":${'['.repeat(deep)}${']'.repeat(deep)}}`)
})

test('invalid and too large numbers', async () => {
  for (const number of [
    '1e999',
    '-1e999',
    '1e309',
    `1${'0'.repeat(400)}`,
    '9'.repeat(1000),
    `${'9'.repeat(100_000)}`,
  ]) {
    await refusedAt(ITEM_DOORS, [400, 422], `{"n":${number}}`)
    await refusedAt(
      [['PATCH', '/api/things/1', 'application/json-patch+json']],
      [400, 422],
      `[{"op":"add","path":"/n","value":${number}}]`,
    )
  }
  for (const number of ['NaN', 'Infinity', '-Infinity', '0x10', '01', '1.', '.5', '+1', '1e', '١']) {
    await refusedAt(ITEM_DOORS, [400], `{"n":${number}}`)
  }
  const zeros = '0'.repeat(900_000)
  // A number that would become 0 is rejected; 0 itself is not.
  await refusedAt(ITEM_DOORS, [400, 422], `{"n":0.${zeros}1}`)
  const small = await send(url, 'POST', '/api/numbers', { headers: JSON_TYPE, body: `{"n":0.${zeros}}` })
  assert.equal(small.status, 201, small.text)
})

test('the last of two members with one name counts, in every spelling', async () => {
  const headers = { ...JSON_TYPE, Prefer: 'return=representation' }
  const body = '{"a":1,"\\u0061":2,"a":3,"id":"x","i\\u0064":"y"}'
  const { status, text } = await send(url, 'POST', '/api/doubled', { headers, body })
  assert.equal(status, 201)
  assert.deepEqual(JSON.parse(text), { a: 3, id: 0 })
  await refusedAt([['PUT', '/api/things/1', 'application/json']], [409], '{"id":1,"id":2}')
  const merged = await send(url, 'PATCH', '/api/things/1', { headers: JSON_TYPE, body: '{"id":1,"\\u0069d":2}' })
  assert.equal(merged.status, 409)
})

test('invalid UTF-8 and invalid JSON', async () => {
  const bytes = [
    'ff',
    'c3',
    'c328',
    'eda080',
    'edb080',
    'c0af',
    'f0288cbc',
    'f8a1a1a1a1',
    'e28228',
    'fe',
    'f4908080',
  ].map((hex) => Buffer.concat([Buffer.from('{"a":"'), Buffer.from(hex, 'hex'), Buffer.from('"}')]))
  for (const body of [
    ...bytes,
    Buffer.from('{"a":1}', 'utf16le'),
    Buffer.from('fffe7b007d00', 'hex'),
    Buffer.alloc(1000),
  ]) {
    await refusedAt(ITEM_DOORS, [400], body)
  }
  for (const body of [
    '{"a":"\n"}',
    '{"a":1}//',
    '/**/{}',
    '{a:1}',
    "{'a':1}",
    '{"a":1}\0',
    '\0',
    'null',
    '{"a":undefined}',
    '{"\\ud":1}',
  ]) {
    await refusedAt(ITEM_DOORS, [400], body)
  }
})

test('compressed bodies that are damaged, endless, or larger than they look', async () => {
  const bomb = Buffer.alloc(60 * LIMIT, ' ')
  const packed = { gzip: gzipSync(bomb), deflate: deflateSync(bomb), br: brotliCompressSync(bomb) }
  for (const [encoding, body] of Object.entries(packed)) {
    assert.ok(body.length < LIMIT / 10)
    await refusedAt(DOORS, [413], body, { 'Content-Encoding': encoding })
    for (const damaged of [
      body.subarray(0, 20),
      Buffer.from('{}'),
      Buffer.from([0]),
      Buffer.concat([Buffer.from([31, 139]), body]),
    ]) {
      await refusedAt(DOORS, [400, 413], damaged, { 'Content-Encoding': encoding })
    }
  }
  const twice = gzipSync(packed.gzip)
  await refusedAt(DOORS, [400, 413, 415], twice, { 'Content-Encoding': 'gzip, gzip' })
  await refusedAt(DOORS, [400, 413], twice, { 'Content-Encoding': 'gzip' })
  const many = Buffer.concat(Array.from({ length: 200 }, () => gzipSync(Buffer.alloc(LIMIT / 2, ' '))))
  await refusedAt(DOORS, [400, 413], many, { 'Content-Encoding': 'gzip' })
  for (const encoding of ['zstd', 'compress', '__proto__', 'constructor', 'toString', '']) {
    await refusedAt(ITEM_DOORS, [400, 415], '[', { 'Content-Encoding': encoding })
  }
})

test('five thousand names in one body are stored and a hundred thousand are rejected: short ones, numbers, and hash collisions', async () => {
  const total = 100_000
  const kinds = [
    Array.from({ length: total }, (_, index) => index.toString(36)),
    Array.from({ length: total }, (_, index) => String(index)),
    Array.from({ length: total / 2 }, (_, index) => String(2 ** 32 + index * 65_536)),
    // Both pairs of letters have the same hash in Java and in many other languages.
    Array.from({ length: 2 ** 15 }, (_, bits) =>
      Array.from({ length: 15 }, (_, at) => ((bits >> at) & 1 ? 'Aa' : 'BB')).join(''),
    ).slice(0, 25_000),
  ]
  for (const [index, names] of kinds.entries()) {
    for (const few of [names.slice(0, 4900), names]) {
      const isRejected = few.length > 5000
      const whole = `{${few.map((name) => `"${name}":0`).join()}}`
      const { status } = await send(url, 'POST', '/api/names', { headers: JSON_TYPE, body: whole })
      const expected = whole.length > LIMIT ? 413 : isRejected ? 422 : 201
      assert.equal(status, expected, `${index}: ${few.length} names`)
      const wide = JSON.stringify([
        { op: 'add', path: '/w', value: JSON.parse(whole) },
        { op: 'test', path: '/w', value: {} },
      ])
      const patched = await send(url, 'PATCH', '/api/things/1', { headers: PATCH_TYPE, body: wide })
      assert.equal(patched.status, wide.length > LIMIT ? 413 : isRejected ? 422 : 409)
    }
  }
})

test('a wrong Content-Length: more, less, none, endless', async () => {
  const head = (fields: string) =>
    `POST /api/things HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nAuthorization: ${ADMIN.Authorization}\r\n${fields}\r\n\r\n`
  assert.match(await sendBytes(url, `${head('Content-Length: 99999999999999999999')}{`), /^HTTP\/1\.1 4\d\d /)
  assert.match(await sendBytes(url, `${head('Content-Length: -1')}{}`), /^HTTP\/1\.1 400 /)
  assert.match(await sendBytes(url, `${head('Content-Length: 10485761')}`), /^HTTP\/1\.1 413 /)
  const cut = await sendBytes(url, `${head('Content-Length: 10')}{`, { hangUp: true }).catch(() => '')
  assert.match(cut, /^$|^HTTP\/1\.1 400 /)
  assert.match(await sendBytes(url, `${head('Content-Length: 1')}{"a":1}`), /^HTTP\/1\.1 400 /)
  assert.match(
    await sendBytes(url, `${head('Transfer-Encoding: chunked')}fffffffff\r\n{`, { hangUp: true }).catch(
      () => 'HTTP/1.1 400 ',
    ),
    /^$|^HTTP\/1\.1 4\d\d /,
  )
  const endless = Buffer.alloc(3 * LIMIT, 'x')
  const chunk = Buffer.concat([Buffer.from(`${endless.length.toString(16)}\r\n`), endless, Buffer.from('\r\n')])
  const answer = await sendBytes(url, Buffer.concat([Buffer.from(head('Transfer-Encoding: chunked')), chunk])).catch(
    () => 'HTTP/1.1 413 ',
  )
  assert.match(answer, /^HTTP\/1\.1 413 /)
})

test('malformed credentials for a token', async () => {
  const form = (body: string, type = 'application/x-www-form-urlencoded') =>
    send(url, 'POST', '/token', { headers: { 'Content-Type': type }, body })
  for (const body of [
    'username[]=admin&password[]=right',
    'username=admin&password=wrong&password=right',
    'username[toString]=admin&password=right',
    '__proto__[username]=admin&__proto__[password]=right',
    'constructor[prototype][username]=admin&password=right',
    'hasOwnProperty=1&username=admin',
    `${'a=1&'.repeat(2000)}username=admin&password=right`,
    `a${'[b]'.repeat(2000)}=1`,
    '%ff=%ff&username=%ed%a0%80&password=%00',
    '&'.repeat(10_000),
    '',
  ]) {
    const { status, text } = await form(body)
    assert.ok([400, 401, 413, 415].includes(status), `${body.slice(0, 60)}: ${status} ${text}`)
  }
  const part = (name: string, value: string) =>
    `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`
  const file =
    '--b\r\nContent-Disposition: form-data; name="username"; filename="../../x"\r\nContent-Type: text/plain\r\n\r\nadmin\r\n'
  for (const body of [
    `${part('username', 'admin')}${part('password', 'wrong')}--b--`,
    `${file}${part('password', 'right')}--b--`,
    `${part('__proto__', 'x')}${part('username', 'admin')}--b--`,
    `${part('username', 'admin')}`,
    `${Array.from({ length: 50 }, (_, index) => part(`f${index}`, 'x')).join('')}--b--`,
    part('username', 'x'.repeat(100_000)),
    'no parts at all',
    '--b\r\nContent-Disposition: form-data; name="\r\n\r\n',
  ]) {
    const { status, text } = await form(body, 'multipart/form-data; boundary=b')
    assert.ok([400, 401, 413].includes(status), `${body.slice(0, 80)}: ${status} ${text}`)
  }
  for (const type of [
    'multipart/form-data',
    `multipart/form-data; boundary=${'x'.repeat(5000)}`,
    'multipart/form-data; boundary=',
  ]) {
    assert.ok([400, 401, 413, 415].includes((await form('--b--', type)).status), type.slice(0, 40))
  }
  assert.equal((await sendJson(url, 'POST', '/token', { username: 'admin', password: 'right' })).status, 200)
})

test('the journal is intact afterwards', async (t) => {
  const { code, stdout } = await runToEnd(t, service.directory, ['verify', '--file', service.file])
  assert.equal(code, 0, stdout)
})
