import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { SignJWT } from 'jose'
import { io, type Socket } from 'socket.io-client'
import { WebSocket } from 'ws'
import { authentication, basic, keyOf, passwordOf, SECRET, tokenOf } from '../support/authentication.ts'
import { fetch, until } from '../support/deadline.ts'
import { send, sendJson } from '../support/requests.ts'
import { type RunningProgram, startProgram } from '../support/server.ts'
import { startHere } from '../support/service.ts'

const ALL = ['token', 'basic', 'apikey'] as const

interface Entrance {
  readonly headers?: Readonly<Record<string, string>>
  /** Socket.IO's, in the handshake. */
  readonly auth?: Readonly<Record<string, unknown>>
  readonly query?: Readonly<Record<string, string>>
}

/** A client of either kind, with all that happened to it so far. */
interface Client {
  readonly told: unknown[]
  readonly state: () => 'trying' | 'in' | 'out'
  /** A WebSocket's code or Socket.IO's reason. */
  readonly why: () => string
}

function socketIo(t: TestContext, url: string, entrance: Entrance, transports = ['websocket']): Client {
  const { headers, auth, query } = entrance
  const socket: Socket = io(url, {
    transports,
    reconnection: false,
    forceNew: true,
    ...(headers && { extraHeaders: headers }),
    ...(auth && { auth }),
    ...(query && { query }),
  })
  t.after(() => socket.close())
  const told: unknown[] = []
  let state: ReturnType<Client['state']> = 'trying'
  let why = ''
  const ended = (reason: string) => {
    state = 'out'
    why = reason
  }
  socket.onAny((...message) => told.push(message))
  socket.on('connect', () => {
    state = 'in'
  })
  socket.on('connect_error', ({ message }) => ended(message))
  socket.on('disconnect', ended)
  return { told, state: () => state, why: () => why }
}

function plain(t: TestContext, url: string, { headers, query }: Entrance): Client {
  const search = query ? `?${new URLSearchParams(query)}` : ''
  const socket = new WebSocket(`${url.replace('http', 'ws')}/ws${search}`, headers ? { headers } : {})
  t.after(() => socket.terminate())
  const told: unknown[] = []
  let state: ReturnType<Client['state']> = 'trying'
  let why = ''
  socket.on('message', (bytes) => told.push(String(bytes)))
  socket.on('open', () => {
    state = 'in'
  })
  socket.on('error', ({ message }) => {
    why = message
  })
  socket.on('close', (code) => {
    state = 'out'
    why ||= String(code)
  })
  return { told, state: () => state, why: () => why }
}

async function entered(what: string, client: Client): Promise<Client> {
  await until(`${what} to be let in`, () => {
    assert.notEqual(client.state(), 'out', `${what}: ${client.why()}`)
    return client.state() === 'in'
  })
  return client
}

/** Waits for its end; it was told nothing. */
async function refused(what: string, client: Client): Promise<string> {
  await until(`${what} to be refused`, () => client.state() === 'out')
  assert.deepEqual(client.told, [], what)
  return client.why()
}

const bearer = (token: string) => ({ Authorization: `Bearer ${token}` })

/** Writes, and waits until somebody who may know was told: then all were who are told at all. */
async function write(
  server: RunningProgram,
  headers: Readonly<Record<string, string>>,
  witness: Client,
): Promise<void> {
  const before = witness.told.length
  assert.equal((await sendJson(server.url, 'POST', '/api/sensors', {}, headers)).status, 201)
  await until('the witness to be told', () => witness.told.length > before)
}

const server = await startProgram(
  { after },
  { data: { sensors: [] }, flags: authentication(ALL, ['--Limits.FailuresPerMinute', '10000']) },
)
const { url } = server

test('sockets need authentication', async (t) => {
  const token = await tokenOf(url, 'reader')
  const revoked = await tokenOf(url, 'reader')
  await send(url, 'POST', '/logout', { headers: bearer(revoked) })
  const expired = await signed({ exp: Math.floor(Date.now() / 1000) - 1 })
  const writer = { 'X-API-KEY': keyOf('writer') }
  const witness = await entered('the witness', plain(t, url, { headers: writer }))

  const right: readonly Entrance[] = [
    { headers: bearer(token) },
    { headers: { Authorization: basic('reader', passwordOf('reader')) } },
    { headers: { 'X-API-KEY': keyOf('reader') } },
    { headers: bearer(keyOf('reader')) },
    { headers: { Authorization: `ApiKey ${keyOf('reader')}` } },
    { query: { access_token: token } },
  ]
  const wrong: readonly Entrance[] = [
    {},
    { headers: bearer('a.b.c') },
    { headers: bearer(revoked) },
    { headers: bearer(expired) },
    { headers: { Authorization: basic('reader', 'wrong') } },
    { headers: { Authorization: basic('nobody', passwordOf('reader')) } },
    { headers: { 'X-API-KEY': 'wrong' } },
    { headers: { 'X-API-KEY': 'wrong', ...bearer(token) } },
    { query: { access_token: revoked } },
    { query: { access_token: '' } },
    { query: { token } },
    { query: { access_token: keyOf('admin') } },
    { query: { apiKey: keyOf('admin'), username: 'admin', password: passwordOf('admin') } },
  ]
  const rightAuth: readonly Entrance[] = [
    { auth: { token } },
    { auth: { username: 'reader', password: passwordOf('reader') } },
    { auth: { apiKey: keyOf('reader') } },
  ]
  const wrongAuth: readonly Entrance[] = [
    { auth: { token: revoked } },
    { auth: { token: expired } },
    { auth: { token: [token] } },
    { auth: { token: { toString: token } } },
    { auth: { username: 'reader', password: 'wrong' } },
    { auth: { username: 'reader' } },
    { auth: { username: ['reader'], password: [passwordOf('reader')] } },
    { auth: { apiKey: 'wrong' } },
    { auth: { apiKey: true } },
    { auth: JSON.parse('{"__proto__":{"admin":true},"constructor":1}') as Record<string, unknown> },
    { headers: { 'X-API-KEY': 'wrong' }, auth: { token } },
  ]

  await t.test('/ws accepts headers and access_token, and rejects others before the upgrade', async (t) => {
    const inside = await Promise.all(right.map((one) => entered(JSON.stringify(one), plain(t, url, one))))
    const whys = await Promise.all(wrong.map((one) => refused(JSON.stringify(one), plain(t, url, one))))
    for (const why of whys) assert.equal(why, 'Unexpected server response: 401')
    await write(server, writer, witness)
    for (const client of inside) await until('each to be told', () => client.told.length === 1)
  })

  for (const transport of ['websocket', 'polling']) {
    await t.test(
      `Socket.IO by ${transport} accepts headers and auth; other clients get nothing and are disconnected`,
      async (t) => {
        const all = await Promise.all(
          [...right, ...rightAuth].map((one) => entered(JSON.stringify(one), socketIo(t, url, one, [transport]))),
        )
        const whys = await Promise.all(
          [...wrong, ...wrongAuth].map((one) => refused(JSON.stringify(one), socketIo(t, url, one, [transport]))),
        )
        assert.equal(whys[0], 'Unauthenticated')
        await write(server, writer, witness)
        for (const client of all) await until('each to be told', () => client.told.length === 1)
      },
    )
  }

  await t.test('a connection that never authenticates gets nothing', async (t) => {
    const silent = new WebSocket(`${url.replace('http', 'ws')}/socket.io/?EIO=4&transport=websocket`)
    t.after(() => silent.terminate())
    const got: string[] = []
    silent.on('message', (bytes) => got.push(String(bytes)))
    await until('the handshake', () => got.length === 1)
    await write(server, writer, witness)
    for (const packet of [
      '42["subscribe",{"collection":"sensors"}]',
      '420["subscribe",{"collection":"sensors"}]',
      '2',
    ]) {
      silent.send(packet)
    }
    await until('its end', () => silent.readyState === silent.CLOSED)
    assert.deepEqual(
      got.slice(1).filter((packet) => packet !== '3'),
      [],
    )
  })

  await t.test('another namespace gives no access', async (t) => {
    for (const path of ['/admin', '/__proto__', '/socket.io']) {
      const client = socketIo(t, `${url}${path}`, {})
      assert.equal(await refused(path, client), 'Invalid namespace')
    }
  })

  await t.test('a connection that opens several sockets gets each event once', async () => {
    const poll = async (sid = '', body?: string) => {
      const init = { headers: writer, ...(body !== undefined && { method: 'POST', body }) }
      const answer = await fetch(`${url}/socket.io/?EIO=4&transport=polling${sid}`, init)
      assert.equal(answer.status, 200)
      return (await answer.text()).split('\x1e')
    }
    const [opened = ''] = await poll()
    const sid = `&sid=${(JSON.parse(opened.slice(1)) as { sid: string }).sid}`
    await poll(sid, Array(1000).fill('40').join('\x1e'))
    const answers: string[] = []
    await until('a thousand packets', async () => {
      answers.push(...(await poll(sid)))
      return answers.length >= 1000
    })
    assert.equal(answers.filter((packet) => packet.startsWith('40')).length, 1)
    const next = poll(sid)
    await write(server, writer, witness)
    assert.deepEqual(
      (await next).map((packet) => packet.slice(0, 12)),
      ['42["updated"'],
    )
  })
})

test('a socket is closed when its token expires or is revoked', async (t) => {
  let passedMs = 0
  const { url } = await startHere(t, {
    data: { sensors: [] },
    flags: authentication(ALL, ['--Authentication.Token.ExpiresInSeconds', '7200']),
    now: () => new Date(Date.now() + passedMs),
  })
  const kinds = (token: string) => [
    plain(t, url, { headers: bearer(token) }),
    plain(t, url, { query: { access_token: token } }),
    socketIo(t, url, { auth: { token } }),
    socketIo(t, url, { headers: bearer(token) }, ['polling']),
  ]
  const stays = [
    plain(t, url, { headers: { 'X-API-KEY': keyOf('reader') } }),
    socketIo(t, url, { auth: { token: await tokenOf(url, 'reader') } }),
  ]
  const brief = kinds(await signed({ exp: Math.floor(Date.now() / 1000) + 3600 }))
  const longer = await tokenOf(url, 'reader')
  const revocable = kinds(longer)
  for (const client of [...stays, ...brief, ...revocable]) await entered('everybody', client)

  passedMs = 3_600_000
  for (const client of brief) await until('its end with the token', () => client.state() === 'out')
  assert.equal(brief[0]?.why(), '1008')
  assert.equal(brief[2]?.why(), 'transport close')
  for (const client of [...stays, ...revocable]) assert.equal(client.state(), 'in')

  assert.equal((await send(url, 'POST', '/logout', { headers: bearer(longer) })).status, 204)
  for (const client of revocable) await until('its end with the revocation', () => client.state() === 'out')
  for (const client of stays) assert.equal(client.state(), 'in')
})

test('pages of other origins are rejected on every transport; the same origin and the local machine are not', async (t) => {
  const named = ['https://app.example', 'http://app.example:8080']
  const open = await startProgram(t, { data: {} })
  const strict = await startProgram(t, { data: {}, flags: ['--Cors.Origins', named.join(',')] })
  const every = await startProgram(t, { data: {}, flags: ['--Cors.Origins', '*'] })
  const apps = ['capacitor://localhost', 'app://obsidian.md', 'chrome-extension://mhjfbmdgcfjbbpae', 'null']
  const mobile = await startProgram(t, { data: {}, flags: ['--Cors.Origins', apps.join(',')] })
  const host = (url: string) => new URL(url).host
  const evil = [
    ...[
      'https://evil.example',
      'null',
      'file://',
      '',
      'http://localhost.evil.example',
      'http://evil.example/localhost',
    ],
    ...[
      'http://127.0.0.1.evil.example',
      'http://evil.example#localhost',
      'http://localhost@evil.example',
      'localhost',
      '*',
    ],
    ...['https://app.example.evil.example', 'http://app.example', 'https://app.example:444', 'data:text/html,x'],
  ]
  const local = ['http://localhost', 'http://localhost:3000', 'https://127.0.0.1:8443', 'http://[::1]:1']
  const cases: readonly (readonly [url: string, origins: readonly string[], isIn: boolean])[] = [
    [open.url, evil, false],
    [open.url, [...local, `http://${host(open.url)}`], true],
    [strict.url, [...evil, ...local], false],
    [strict.url, [...named, `http://${host(strict.url)}`], true],
    [every.url, ['https://evil.example', 'null', 'tauri://localhost'], true],
    [mobile.url, apps, true],
    [mobile.url, ['http://localhost', 'tauri://localhost', 'app://evil.example', 'file://'], false],
  ]
  for (const [url, origins, isIn] of cases) {
    for (const Origin of origins) {
      const headers = { Origin }
      const clients = [
        ['/ws', plain(t, url, { headers })],
        ['websocket', socketIo(t, url, { headers })],
        ['polling', socketIo(t, url, { headers }, ['polling'])],
      ] as const
      for (const [kind, client] of clients) {
        const what = `${kind} from ${JSON.stringify(Origin)}`
        if (isIn) await entered(what, client)
        else await refused(what, client)
      }
      const preflight = await send(url, 'OPTIONS', '/api', {
        headers: { Origin, 'Access-Control-Request-Method': 'PUT' },
      })
      assert.equal(preflight.headers['access-control-allow-origin'], isIn ? Origin : undefined, Origin)
      const { headers: answered } = await send(url, 'GET', '/api', { headers })
      assert.equal(answered['access-control-allow-origin'], isIn ? Origin : undefined, Origin)
      assert.equal(answered['access-control-allow-credentials'], undefined)
      assert.match(String(answered.vary), /Origin/)
    }
  }
})

test('the sockets of an address are limited, over all kinds together, and one that closes makes room', async (t) => {
  const flags = authentication(ALL, ['--Limits.SocketsPerAddress', '3', '--Limits.TrustedProxies', '127.0.0.1'])
  const { url } = await startProgram(t, { data: {}, flags })
  const headers = { 'X-API-KEY': keyOf('reader') }
  const first = await entered('the first', plain(t, url, { headers }))
  const socket = await entered('the second', socketIo(t, url, { headers }))
  await entered('the third', socketIo(t, url, { headers }, ['polling']))
  assert.equal(await refused('one too many', plain(t, url, { headers })), 'Unexpected server response: 429')
  await refused('one too many', socketIo(t, url, { headers }))
  await refused('one too many', socketIo(t, url, { headers }, ['polling']))

  const elsewhere = { ...headers, 'X-Forwarded-For': '198.51.100.7, 127.0.0.1' }
  await entered('one from another address', plain(t, url, { headers: elsewhere }))
  assert.equal(first.state(), 'in')
  assert.equal(socket.state(), 'in')

  const token = await tokenOf(url, 'reader')
  const far = { 'X-Forwarded-For': '203.0.113.1' }
  for (let count = 0; count < 3; count++) {
    await entered('one with a token', plain(t, url, { headers: { ...bearer(token), ...far } }))
  }
  assert.match(await refused('a fourth', plain(t, url, { headers: { ...bearer(token), ...far } })), /429/)
  await send(url, 'POST', '/logout', { headers: bearer(token) })
  await until('room', async () => {
    const client = plain(t, url, { headers: { ...headers, ...far } })
    await until('an answer', () => client.state() !== 'trying')
    return client.state() === 'in'
  })
})

test('concurrent sockets with a slow password check are bounded, too', async (t) => {
  const { url } = await startProgram(t, {
    data: {},
    flags: authentication(['basic'], ['--Limits.SocketsPerAddress', '5']),
  })
  const headers = { Authorization: basic('reader', passwordOf('reader')) }
  const clients = Array.from({ length: 60 }, () => plain(t, url, { headers }))
  await until('an answer to each', () => clients.every(({ state }) => state() !== 'trying'))
  // One beyond the limit may be open until its close frame arrives.
  await until('the end of those beyond the limit', () => clients.filter(({ state }) => state() === 'in').length === 5)
})

/** Signed as the server signs its own. */
function signed({ exp }: { readonly exp: number }): Promise<string> {
  return new SignJWT({})
    .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
    .setIssuer('recollect')
    .setSubject('reader')
    .setJti(`until ${exp}`)
    .setExpirationTime(exp)
    .sign(Buffer.from(SECRET))
}
