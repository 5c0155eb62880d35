import assert from 'node:assert/strict'
import { request } from 'node:http'
import { after, type TestContext, test } from 'node:test'
import { io } from 'socket.io-client'
import { WebSocket } from 'ws'
import { authentication, basic, keyOf, login, passwordOf } from '../support/authentication.ts'
import { within } from '../support/deadline.ts'
import { send, sendBytes } from '../support/requests.ts'
import { type RunningProgram, startProgram } from '../support/server.ts'

const FORM = { 'Content-Type': 'application/x-www-form-urlencoded' }
/** The headers that a browser sends with a form, or any request without a preflight, from another site. */
const FOREIGN: readonly Readonly<Record<string, string>>[] = [
  { Origin: 'https://evil.example', 'Sec-Fetch-Site': 'cross-site' },
  { Origin: 'https://evil.example' },
  { Origin: 'null' },
  { 'Sec-Fetch-Site': 'cross-site' },
]

/** Nobody has to say who they are. */
const open = await startProgram({ after }, { data: { c: [{ id: 1 }] } })

function assertRefused({ status, headers, text }: Awaited<ReturnType<typeof send>>, expected: number): void {
  assert.equal(status, expected, text)
  assert.equal(headers['content-type'], 'application/problem+json')
}

async function headOf({ url }: RunningProgram): Promise<number> {
  return (await send(url, 'GET', '/events?order=desc&limit=1')).json<{ position: number }[]>()[0]?.position ?? 0
}

/** How a WebSocket ended before it was one, or `open`. */
function opening(t: TestContext, url: string, headers: Readonly<Record<string, string>>): Promise<string> {
  const socket = new WebSocket(url.replace('http', 'ws'), { headers })
  t.after(() => socket.terminate())
  return within(
    'a WebSocket, or why there is none',
    new Promise((resolve) => {
      socket.once('open', () => resolve('open'))
      socket.once('error', ({ message }) => resolve(message))
    }),
  )
}

test('DNS rebinding reaches nothing when authentication is off', async (t) => {
  const { url } = open
  const head = await headOf(open)
  const { port } = new URL(url)
  for (const name of [`evil.example:${port}`, 'evil.example', `127.0.0.1.evil.example:${port}`]) {
    const headers = { Host: name, Origin: `http://${name}`, 'Sec-Fetch-Site': 'same-origin' }
    for (const path of [
      '/api',
      '/api/c',
      '/api/c/1',
      '/events',
      '/health',
      '/openapi.json',
      '/metrics',
      '/',
      '/swagger/',
    ]) {
      assertRefused(await send(url, 'GET', path, { headers: { Host: name } }), 421)
      assertRefused(await send(url, 'GET', path, { headers }), 421)
    }
    for (const [method, path] of [
      ['POST', '/api/c'],
      ['PUT', '/api/c/1'],
      ['DELETE', '/api/c/1'],
      ['POST', '/admin/reload'],
      ['POST', '/admin/restore'],
    ] as const) {
      const body = method === 'DELETE' ? {} : { body: '{"to":1}' }
      const typed = { 'Content-Type': 'application/json', Host: name }
      assertRefused(await send(url, method, path, { headers: typed, ...body }), 421)
      assertRefused(await send(url, method, path, { headers: { ...headers, ...typed }, ...body }), 421)
    }
    assert.match(await opening(t, `${url}/ws`, headers), /421/)
    assert.match(await opening(t, `${url}/socket.io/?EIO=4&transport=websocket`, headers), /403|400/)
    assert.equal((await send(url, 'GET', '/socket.io/?EIO=4&transport=polling', { headers })).status, 403)
  }
  assert.equal(await headOf(open), head)
})

test('the names of the local machine, of --urls and of Http.Hosts are accepted, and requests without Host', async (t) => {
  const status = async (url: string, Host: string) => (await send(url, 'GET', '/api', { headers: { Host } })).status
  const { port } = new URL(open.url)
  for (const name of ['localhost', `127.0.0.1:${port}`, '[::1]:80', 'app.localhost']) {
    assert.equal(await status(open.url, name), 200, name)
  }
  assert.match(await sendBytes(open.url, 'GET /api HTTP/1.0\r\n\r\n'), /^HTTP\/1\.1 200 /)

  const named = await startProgram(t, { data: {}, flags: ['--Http.Hosts', 'data.example,10.0.0.5'] })
  assert.equal(await status(named.url, 'data.example:8443'), 200)
  assert.equal(await status(named.url, '10.0.0.5'), 200)
  assert.equal(await status(named.url, 'other.example'), 421)

  const guarded = await startProgram(t, { data: {}, flags: authentication(['apikey']) })
  assert.equal(await status(guarded.url, 'data.example'), 401, 'credentials are asked for, which no page has')

  const everywhere = ['--urls', 'http://0.0.0.0:0']
  const wide = await startProgram(t, { data: {}, flags: everywhere, isBare: true })
  const local = `http://127.0.0.1:${new URL(wide.url).port}`
  assert.equal(await status(local, 'data.example'), 200, 'others are meant to reach it, under names of their own')
  const bound = await startProgram(t, {
    data: {},
    flags: [...everywhere, '--Http.Hosts', 'data.example'],
    isBare: true,
  })
  const bounded = `http://127.0.0.1:${new URL(bound.url).port}`
  assert.equal(await status(bounded, 'data.example'), 200)
  assert.equal(await status(bounded, 'evil.example'), 421)
})

test('pages of other origins change nothing when authentication is off, even without a preflight', async () => {
  const { url } = open
  const head = await headOf(open)
  for (const page of FOREIGN) {
    for (const path of [
      '/admin/reload',
      '/admin/verify',
      '/admin/snapshot',
      '/admin/restore',
      '/admin/reset',
      '/token',
      '/logout',
      '/api/c',
      '/nothing',
    ]) {
      assertRefused(await send(url, 'POST', path, { headers: { ...page, ...FORM }, body: 'a=1' }), 403)
    }
    const json = { ...page, 'Content-Type': 'application/json' }
    assertRefused(await send(url, 'POST', '/api/c', { headers: json, body: '{"a":1}' }), 403)
    assertRefused(await send(url, 'PUT', '/api/c/1', { headers: json, body: '{"a":1}' }), 403)
    assertRefused(await send(url, 'DELETE', '/api/c/1', { headers: page }), 403)
    assert.equal(
      (await send(url, 'GET', '/api/c', { headers: page })).status,
      200,
      'the browser keeps the answer to itself',
    )
  }
  assert.equal(await headOf(open), head)

  for (const page of [
    { Origin: url, 'Sec-Fetch-Site': 'same-origin' },
    { Origin: 'null', 'Sec-Fetch-Site': 'same-origin' },
    { Origin: 'http://localhost:3000', 'Sec-Fetch-Site': 'same-site' },
    { 'Sec-Fetch-Site': 'none' },
    {},
  ]) {
    assert.equal((await send(url, 'POST', '/admin/reload', { headers: page })).status, 200, JSON.stringify(page))
    const json = { ...page, 'Content-Type': 'application/json' }
    assert.equal((await send(url, 'POST', '/api/c', { headers: json, body: '{}' })).status, 201)
  }
})

test('pages of other origins cannot lock out an address, neither by forms to /token nor by tokens in addresses', async (t) => {
  const flags = authentication(['token', 'basic', 'apikey'], ['--Limits.FailuresPerMinute', '3'])
  const { url } = await startProgram(t, { data: {}, flags: [...flags, '--Cors.Origins', 'https://app.example'] })
  for (const page of FOREIGN) {
    for (let count = 0; count < 5; count++) {
      const body = 'username=admin&password=wrong'
      assertRefused(await send(url, 'POST', '/token', { headers: { ...FORM, ...page }, body }), 403)
      const stream = { Accept: 'text/event-stream', ...page }
      assertRefused(await send(url, 'GET', '/events?access_token=wrong', { headers: stream }), 403)
      await opening(t, `${url}/ws?access_token=wrong`, page)
    }
  }
  assert.equal((await login(url, 'admin', passwordOf('admin'))).status, 200)
  const named = { ...FORM, Origin: 'https://app.example', 'Sec-Fetch-Site': 'cross-site' }
  const body = `username=admin&password=${encodeURIComponent(passwordOf('admin'))}`
  assert.equal((await send(url, 'POST', '/token', { headers: named, body })).status, 200)
  const remembered = { Authorization: basic('admin', passwordOf('admin')) }
  for (const page of FOREIGN) {
    assertRefused(await send(url, 'POST', '/admin/reload', { headers: { ...remembered, ...page } }), 403)
  }
})

test('handshakes without credentials do not use up the sockets of authenticated clients', async (t) => {
  const flags = authentication(['apikey'], ['--Limits.SocketsPerAddress', '40'])
  const { url } = await startProgram(t, { data: {}, flags })
  const handshake = () => send(url, 'GET', '/socket.io/?EIO=4&transport=polling')
  const replies = await Promise.all(Array.from({ length: 100 }, handshake))
  const opened = replies.filter(({ status }) => status === 200)
  assert.ok(opened.length <= 32, `${opened.length} were opened`)
  for (const { status } of replies) assert.ok(status === 200 || status === 403, String(status))
  const headers = { 'X-API-KEY': keyOf('reader') }
  for (let count = 0; count < 40; count++) assert.equal(await opening(t, `${url}/ws`, headers), 'open')
  assert.match(await opening(t, `${url}/ws`, headers), /429/)
})

test('handshakes without credentials that end make room for others', async (t) => {
  const { url } = await startProgram(t, { data: {}, flags: authentication(['apikey']) })
  const polling = '/socket.io/?EIO=4&transport=polling'
  for (let round = 0; round < 3; round++) {
    const replies = await Promise.all(Array.from({ length: 32 }, () => send(url, 'GET', polling)))
    for (const { status, text } of replies) {
      assert.equal(status, 200)
      const { sid } = JSON.parse(text.slice(1)) as { sid: string }
      assert.equal((await send(url, 'POST', `${polling}&sid=${sid}`, { body: '1' })).status, 200)
    }
    const client = io(url, { forceNew: true, reconnection: false, auth: { apiKey: keyOf('reader') } })
    t.after(() => client.close())
    await within(
      'a connection in the room that was made',
      new Promise((resolve, reject) => client.once('connect', () => resolve(undefined)).once('connect_error', reject)),
    )
  }
})

test('a handshake that fails after it was admitted releases its slot', async (t) => {
  const { url } = await startProgram(t, { data: {}, flags: ['--Limits.SocketsPerAddress', '3'] })
  for (let count = 0; count < 10; count++) {
    assert.equal((await send(url, 'GET', '/socket.io/?EIO=3&transport=polling')).status, 400)
    await badUpgrade(url)
  }
  for (let count = 0; count < 3; count++) assert.equal(await opening(t, `${url}/ws`, {}), 'open')
  assert.match(await opening(t, `${url}/ws`, {}), /429/)
})

/** An upgrade whose key is none. */
function badUpgrade(url: string): Promise<void> {
  return within(
    'the end of a bad upgrade',
    new Promise((resolve) => {
      const headers = {
        Connection: 'Upgrade',
        Upgrade: 'websocket',
        'Sec-WebSocket-Version': '13',
        'Sec-WebSocket-Key': 'x',
      }
      const asked = request(`${url}/ws`, { headers })
      asked.on('response', (response) => response.resume().on('close', () => resolve()))
      asked.on('error', () => resolve())
      asked.end()
    }),
  )
}
