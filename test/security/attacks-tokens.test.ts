import assert from 'node:assert/strict'
import { createHmac, generateKeyPairSync, sign } from 'node:crypto'
import { after, afterEach, test } from 'node:test'
import { SignJWT } from 'jose'
import { WebSocket } from 'ws'
import { authentication, basic, keyOf, passwordOf, SECRET, tokenOf } from '../support/authentication.ts'
import { until } from '../support/deadline.ts'
import { send, sendBytes } from '../support/requests.ts'
import { startHere } from '../support/service.ts'
import { assertSound } from './soundness.ts'

const flags = authentication(['token', 'basic', 'apikey'], ['--Limits.FailuresPerMinute', '100000'])
const service = await startHere({ after }, { data: { things: [{ id: 1 }] }, flags })
const { url } = service
const good = await tokenOf(url, 'admin')
const [header, payload, signature] = good.split('.') as [string, string, string]

afterEach(async () => {
  assert.equal((await send(url, 'GET', '/api', { headers: { Authorization: `Bearer ${good}` } })).status, 200)
  assert.doesNotMatch(service.log.join(''), /"level":(50|60)/)
  await assertSound(service)
})

const encode = (value: unknown) =>
  Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')

function hmac(head: unknown, body: unknown, secret: string | Buffer = SECRET, algorithm = 'sha256'): string {
  const text = `${encode(head)}.${encode(body)}`
  return `${text}.${createHmac(algorithm, secret).update(text).digest('base64url')}`
}

const HS256 = { alg: 'HS256', typ: 'JWT' }
const inAnHour = Math.floor(Date.now() / 1000) + 3600
const CLAIMS = { iss: 'recollect', sub: 'admin', jti: 'mine', exp: inAnHour }

/** Refused at every door that takes a token. */
async function refused(what: string, token: string): Promise<void> {
  for (const path of ['/api', '/events', '/admin/reload']) {
    const { status, headers } = await send(url, 'GET', path, { headers: { Authorization: `Bearer ${token}` } })
    assert.equal(status, 401, `${what} at ${path}`)
    assert.match(String(headers['www-authenticate']), /^Bearer /)
  }
  const query = new URLSearchParams({ access_token: token })
  const headers = { Accept: 'text/event-stream' }
  assert.equal((await send(url, 'GET', `/events?${query}`, { headers })).status, 401, what)
  const socket = new WebSocket(`${url.replace('http', 'ws')}/ws?${query}`)
  let why = ''
  socket.on('error', ({ message }) => {
    why = message
  })
  await until('an answer', () => socket.readyState === socket.CLOSED)
  assert.equal(why, 'Unexpected server response: 401', what)
}

test('a token without a signature: alg none, in every spelling', async () => {
  for (const alg of ['none', 'None', 'NONE', 'nOnE', '', null, undefined, 0, [], ['none'], {}]) {
    await refused(`alg ${JSON.stringify(alg)}`, `${encode({ ...HS256, alg })}.${payload}.`)
    await refused(`alg ${JSON.stringify(alg)}, signed`, `${encode({ ...HS256, alg })}.${payload}.${signature}`)
  }
  await refused('none, and two parts', `${encode({ alg: 'none' })}.${payload}`)
})

test('another algorithm, with a key of the server or of the token', async () => {
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const pem = publicKey.export({ type: 'spki', format: 'pem' }) as string
  const jwk = publicKey.export({ format: 'jwk' })
  const text = `${encode({ alg: 'RS256', typ: 'JWT', jwk })}.${encode(CLAIMS)}`
  await refused(
    'RS256 with its own key',
    `${text}.${sign('sha256', Buffer.from(text), privateKey).toString('base64url')}`,
  )
  await refused('a public key as the secret', hmac(HS256, CLAIMS, pem))
  await refused('HS384', hmac({ ...HS256, alg: 'HS384' }, CLAIMS, SECRET, 'sha384'))
  await refused('HS512', hmac({ ...HS256, alg: 'HS512' }, CLAIMS, SECRET, 'sha512'))
  const own = 'a secret of somebody else, of 32 bytes and more'
  const jwks = [{ jwk: { kty: 'oct', k: encode(own) } }, { jku: `${url}/keys` }, { x5u: url }, { x5c: [encode(own)] }]
  const kids = [{ kid: '../../../dev/null' }, { kid: "' OR 1=1" }, { kid: '__proto__' }]
  for (const fields of [...jwks, ...kids])
    await refused(Object.keys(fields).join(), hmac({ ...HS256, ...fields }, CLAIMS, own))
  for (const secret of [
    '',
    '\0',
    'secret',
    'null',
    'undefined',
    SECRET.slice(0, -1),
    `${SECRET}\n`,
    Buffer.alloc(32),
  ]) {
    await refused('a guessed secret', hmac(HS256, CLAIMS, secret))
  }
  await refused('a critical extension', hmac({ ...HS256, crit: ['b64'], b64: false }, CLAIMS))
  await refused('a critical extension that nobody knows', hmac({ ...HS256, crit: ['x'], x: 1 }, CLAIMS))
})

test('claims that are missing, wrong, or of a wrong type, with a valid signature', async () => {
  assert.equal(
    (await send(url, 'GET', '/api', { headers: { Authorization: `Bearer ${hmac(HS256, CLAIMS)}` } })).status,
    200,
  )
  const without = (name: string) => Object.fromEntries(Object.entries(CLAIMS).filter(([claim]) => claim !== name))
  for (const name of Object.keys(CLAIMS)) await refused(`no ${name}`, hmac(HS256, without(name)))
  const wrong: readonly Readonly<Record<string, unknown>>[] = [
    { exp: Math.floor(Date.now() / 1000) - 1 },
    { exp: 0 },
    { exp: -1 },
    { exp: String(inAnHour) },
    { exp: null },
    { exp: [inAnHour] },
    { exp: true },
    { nbf: inAnHour },
    { nbf: 'never' },
    { iss: 'somebody else' },
    { iss: '' },
    { iss: null },
    { iss: { toString: 'recollect' } },
    { sub: 'nobody' },
    { sub: '' },
    { sub: null },
    { sub: '__proto__' },
    { sub: 'constructor' },
    { sub: { admin: true } },
    { sub: 'admin-key' },
    { sub: 'ADMIN' },
    { sub: 'admin\0' },
  ]
  for (const claims of wrong) await refused(JSON.stringify(claims), hmac(HS256, { ...CLAIMS, ...claims }))
  for (const body of ['null', '[]', '"admin"', '{', '', '{"exp":1e999,"iss":"recollect","sub":"admin"}']) {
    await refused(body, hmac(HS256, body))
  }
})

test('a role in a token is ignored', async () => {
  const token = hmac(HS256, {
    ...CLAIMS,
    sub: 'reader',
    role: 'admin',
    Role: 'admin',
    roles: ['admin'],
    scope: 'admin',
  })
  const headers = { Authorization: `Bearer ${token}` }
  assert.equal((await send(url, 'GET', '/api', { headers })).status, 200)
  assert.equal((await send(url, 'DELETE', '/api/things/1', { headers })).status, 403)
  assert.equal((await send(url, 'POST', '/admin/reload', { headers })).status, 403)
})

test('an altered token: every part, every letter of the signature, and what surrounds it', async () => {
  const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as object
  await refused('another name', `${header}.${encode({ ...claims, sub: 'writer' })}.${signature}`)
  await refused('a later end', `${header}.${encode({ ...claims, exp: inAnHour + 1 })}.${signature}`)
  await refused('the parts of another', `${header}.${payload}.${(await tokenOf(url, 'reader')).split('.')[2]}`)
  for (const token of [
    ...[
      `${header}.${payload}`,
      `${header}.${payload}.`,
      `.${payload}.${signature}`,
      `${header}..${signature}`,
      '..',
      '.',
      'x',
    ],
    ...[
      `${good}.x`,
      `${good}.`,
      `.${good}`,
      `${good},${good}`,
      `${good} ${good}`,
      `x ${good}`,
      `"${good}"`,
      good.toUpperCase(),
    ],
    ...[`${header}.${payload}.${signature.slice(0, -1)}`, `${header}.${payload}.${signature}A`, signature, payload],
  ]) {
    const { status } = await send(url, 'GET', '/api', { headers: { Authorization: `Bearer ${token}` } })
    assert.equal(status, 401, token)
  }
  for (let at = 0; at < signature.length - 1; at++) {
    const letter = signature[at] === 'A' ? 'B' : 'A'
    const altered = `${signature.slice(0, at)}${letter}${signature.slice(at + 1)}`
    const { status } = await send(url, 'GET', '/api', {
      headers: { Authorization: `Bearer ${header}.${payload}.${altered}` },
    })
    assert.equal(status, 401, `letter ${at}`)
  }
})

test('a token of two megabytes, in a header, in an address and in a payload', async () => {
  const large = `${header}.${'A'.repeat(2 * 1024 * 1024)}.${signature}`
  const request = (target: string, field: string) =>
    `GET ${target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n${field}\r\n`
  for (const bytes of [
    request('/api', `Authorization: Bearer ${large}\r\n`),
    request(`/events?access_token=${large}`, 'Accept: text/event-stream\r\n'),
    request(
      `/ws?access_token=${large}`,
      'Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n',
    ),
  ]) {
    // The server answers and closes before it has read all: what it said may be lost with the connection.
    const answer = await sendBytes(url, bytes).catch(() => '')
    assert.match(answer, /^$|^HTTP\/1\.1 (400|414|431) /)
  }
  await refused('twelve kilobytes', `${header}.${'A'.repeat(12_000)}.${signature}`)
  const login = await send(url, 'POST', '/token', {
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ username: 'admin', password: 'x'.repeat(2 * 1024 * 1024) }),
  })
  assert.equal(login.status, 413)
})

test('Basic credentials that are no base64, no text, or no pair', async () => {
  const right = basic('admin', passwordOf('admin'))
  const odd = [
    ...['', ' ', '=', '====', 'A', 'YWRtaW4', 'YWRtaW4=', 'Og==', '!!!', '%%%', 'YWRtaW46\u00ff', '-_-_', 'YWRt aW46'],
    ...[Buffer.from([0xff, 0xfe, 0x3a, 0xff]).toString('base64'), Buffer.from('admin:\0').toString('base64')],
    ...[
      Buffer.from(`admin\0:${passwordOf('admin')}`).toString('base64'),
      Buffer.from(`:admin:${passwordOf('admin')}`).toString('base64'),
    ],
    ...[
      Buffer.from(`admin:${passwordOf('admin')}`, 'latin1').toString('base64'),
      Buffer.from(`__proto__:x`).toString('base64'),
    ],
    ...['A'.repeat(14_000), '='.repeat(14_000), `${'A'.repeat(7000)}${'='.repeat(7000)}`],
  ].map((text) => `Basic ${text}`)
  const schemes = [
    'Basic',
    'basic',
    'Bearer',
    'Negotiate x',
    'Digest username="admin"',
    `${right}, ${right}`,
    `Bearer ${right}`,
    right.slice(6),
    ':',
    ',',
  ]
  for (const Authorization of [...odd, ...schemes]) {
    const { status } = await send(url, 'GET', '/api', { headers: { Authorization } })
    assert.equal(status, 401, Authorization.slice(0, 60))
  }
  assert.equal(
    (await send(url, 'GET', '/api', { headers: { Authorization: right.replace('Basic', 'bAsIc  ') } })).status,
    200,
  )
})

test('contradicting credentials are rejected', async () => {
  const status = async (headers: Readonly<Record<string, string | readonly string[]>>) => {
    const lines = Object.entries(headers).flatMap(([name, values]) =>
      [values].flat().map((value) => `${name}: ${value}\r\n`),
    )
    const bytes = Buffer.from(
      `POST /admin/reload HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n${lines.join('')}\r\n`,
      'latin1',
    )
    return Number((await sendBytes(url, bytes)).slice(9, 12))
  }
  const admin = `Bearer ${good}`
  const reader = `Bearer ${await tokenOf(url, 'reader')}`
  assert.equal(await status({ Authorization: [reader, admin] }), 403)
  assert.equal(await status({ 'X-API-KEY': [keyOf('reader'), keyOf('admin')] }), 401)
  assert.equal(await status({ 'X-API-KEY': keyOf('reader'), Authorization: admin }), 403)
  assert.equal(await status({ 'X-API-KEY': '', Authorization: admin }), 401)
  assert.equal(await status({ Authorization: admin }), 200)
})

test('a revoked token stays revoked with other claims and in another spelling', async () => {
  const token = await new SignJWT({})
    .setProtectedHeader(HS256)
    .setIssuer('recollect')
    .setSubject('admin')
    .setJti('one')
    .setExpirationTime(inAnHour)
    .sign(Buffer.from(SECRET))
  const headers = { Authorization: `Bearer ${token}` }
  assert.equal((await send(url, 'POST', '/logout', { headers })).status, 204)
  await refused('the token itself', token)
  await refused('one with its id', hmac(HS256, { ...CLAIMS, jti: 'one', exp: inAnHour + 60 }))
  const padded = `${token}=`
  assert.equal((await send(url, 'GET', '/api', { headers: { Authorization: `Bearer ${padded}` } })).status, 401)
})
