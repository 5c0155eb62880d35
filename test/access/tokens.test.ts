import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { SignJWT } from 'jose'
import { type Revocation, type RevocationStore, type Token, Tokens } from '../../src/access/tokens.ts'
import { tokensInDirectory } from '../../src/engine/token-storage.ts'
import { Corruption } from '../../src/runtime/errors.ts'
import { authentication, basic, keyOf, passwordOf } from '../support/authentication.ts'
import { clock } from '../support/clock.ts'
import { type Reply, send } from '../support/requests.ts'
import { startHere } from '../support/service.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'

const SECRET = Buffer.from('a secret of at least 32 bytes, as is asked for')
const OTHER_SECRET = Buffer.from('another one of at least 32 bytes, as is asked')

const FORM = 'application/x-www-form-urlencoded'
const CLIENT_SECRET = 'a+b %: €&='
const users = [
  { Username: 'meter:1', Password: CLIENT_SECRET, Role: 'writer' },
  { Username: 'admin', Password: passwordOf('admin') },
]
const flags = ['--Authentication.Enabled', 'true', '--Authentication.Users', JSON.stringify(users)]
const { url, log } = await startHere({ after }, { data: { things: [] }, flags })

/** Where revocations are kept, and what it takes to have a write fail. */
function store() {
  let kept: readonly Revocation[] = []
  const writes: (readonly Revocation[])[] = []
  const state = { failure: undefined as Error | undefined }
  const revocations: RevocationStore = {
    read: async () => kept,
    write: async (list) => {
      if (state.failure) throw state.failure
      writes.push(list)
      kept = list
    },
  }
  return { ...revocations, writes, state }
}

async function opened({ seconds = 100, time = clock(), kept = store(), secret = SECRET } = {}) {
  return { tokens: await Tokens.open(secret, seconds, time.now, kept), time, kept }
}

async function issued(tokens: Tokens, user = 'anna'): Promise<{ readonly jwt: string; readonly token: Token }> {
  const jwt = await tokens.issue(user)
  const token = await tokens.verify(jwt)
  assert.ok(token)
  return { jwt, token }
}

test('a token names its user, and no two tokens are equal', async () => {
  const { tokens } = await opened()
  const [one, other] = [await issued(tokens), await issued(tokens)]
  assert.equal(one.token.user, 'anna')
  assert.notEqual(one.token.id, other.token.id)
  assert.notEqual(one.jwt, other.jwt)
})

test('a token is valid until the moment it expires', async () => {
  const { tokens, time } = await opened({ seconds: 100 })
  const { jwt, token } = await issued(tokens)
  time.pass(99_999)
  assert.ok(await tokens.verify(jwt))
  assert.ok(tokens.isValid(token))
  time.pass(1)
  assert.equal(await tokens.verify(jwt), undefined)
  assert.equal(tokens.isValid(token), false)
})

test('a token stays valid after a restart with the same secret, and not with another', async () => {
  const { tokens, time } = await opened()
  const { jwt } = await issued(tokens)
  assert.ok(await (await opened({ time })).tokens.verify(jwt))
  assert.equal(await (await opened({ time, secret: OTHER_SECRET })).tokens.verify(jwt), undefined)
})

test('tokens that are forged, truncated, unsigned, or of another algorithm or issuer are rejected', async () => {
  const { tokens, time } = await opened()
  const { jwt } = await issued(tokens)
  const [header = '', payload = '', signature = ''] = jwt.split('.')
  const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as Record<string, unknown>
  const signed = (change: Record<string, unknown>, alg = 'HS256', secret = SECRET) => {
    const changed = Object.fromEntries(Object.entries({ ...claims, ...change }).filter(([, value]) => value !== null))
    return new SignJWT(changed).setProtectedHeader({ alg }).sign(secret)
  }
  assert.ok(await tokens.verify(await signed({})), 'the claims are good as they are')
  for (const bad of [
    '',
    'a.b.c',
    `${header}.${payload}`,
    `${header}.${payload}.`,
    `${header}.${encoded({ ...claims, sub: 'admin' })}.${signature}`,
    `${encoded({ alg: 'none' })}.${payload}.`,
    `${encoded({ alg: 'none' })}.${payload}.${signature}`,
    `${jwt}x`,
    `${jwt}.x`,
    await signed({}, 'HS384'),
    await signed({}, 'HS512'),
    await signed({}, 'HS256', OTHER_SECRET),
    await signed({ iss: 'somebody' }),
    await signed({ iss: null }),
    await signed({ exp: null }),
    await signed({ jti: null }),
    await signed({ sub: null }),
    await signed({ exp: Math.floor(time.now().getTime() / 1000) }),
    await signed({ exp: 'never' }),
    await signed({ nbf: Math.floor(time.now().getTime() / 1000) + 60 }),
  ]) {
    assert.equal(await tokens.verify(bad), undefined, bad)
  }
})

test('a revoked token stays invalid after a restart; other tokens stay valid', async () => {
  const { tokens, time, kept } = await opened()
  const [one, other] = [await issued(tokens), await issued(tokens)]
  await tokens.revoke(one.token)
  for (const now of [tokens, (await opened({ time, kept })).tokens]) {
    assert.equal(await now.verify(one.jwt), undefined)
    assert.equal(now.isValid(one.token), false)
    assert.ok(await now.verify(other.jwt))
  }
})

test('a revocation is removed when its token expires', async () => {
  const { tokens, time, kept } = await opened({ seconds: 100 })
  for (let count = 0; count < 5; count++) await tokens.revoke((await issued(tokens)).token)
  time.pass(100_000)
  const last = await issued(tokens)
  await tokens.revoke(last.token)
  assert.deepEqual(kept.writes.at(-1), [{ id: last.token.id, expiresAt: last.token.expiresAt }])
})

test('concurrent revocations are all stored', async () => {
  const { tokens, time, kept } = await opened()
  const all = await Promise.all(Array.from({ length: 20 }, () => issued(tokens)))
  await Promise.all(all.map(({ token }) => tokens.revoke(token)))
  const { tokens: later } = await opened({ time, kept })
  for (const { jwt } of all) assert.equal(await later.verify(jwt), undefined)
})

test('when a revocation cannot be stored the client gets an error, and the token is invalid in this process', async () => {
  const { tokens, time, kept } = await opened()
  const [one, other] = [await issued(tokens), await issued(tokens)]
  kept.state.failure = new Error('the disk is full')
  await assert.rejects(tokens.revoke(one.token), { message: 'the disk is full' })
  assert.equal(await tokens.verify(one.jwt), undefined)

  kept.state.failure = undefined
  await tokens.revoke(other.token)
  const { tokens: later } = await opened({ time, kept })
  assert.equal(await later.verify(one.jwt), undefined, 'the next one that can be kept keeps it, too')
  assert.equal(await later.verify(other.jwt), undefined)
})

test('the start fails when the revocations cannot be read, as revoked tokens would become valid', async () => {
  const time = clock()
  const read = () => Promise.reject(new Error('it is damaged'))
  await assert.rejects(Tokens.open(SECRET, 100, time.now, { ...store(), read }), { message: 'it is damaged' })
})

/** Basic credentials as OAuth clients make them: form-urlencoded before (RFC 6749 §2.3.1). */
function client(id: string, secret: string): string {
  const encoded = (text: string) => new URLSearchParams({ text }).toString().slice('text='.length)
  return basic(encoded(id), encoded(secret))
}

function ask(fields: Readonly<Record<string, string>>, authorization?: string): Promise<Reply> {
  const headers = { 'Content-Type': FORM, ...(authorization !== undefined && { Authorization: authorization }) }
  return send(url, 'POST', '/token', { headers, body: new URLSearchParams(fields).toString() })
}

const GRANT = { grant_type: 'client_credentials' }

test('an OAuth client gets a token with its id and secret in the Authorization header, scope and other fields are ignored', async () => {
  for (const fields of [GRANT, { ...GRANT, scope: 'read write', audience: 'x' }, { ...GRANT, client_id: 'meter:1' }]) {
    const reply = await ask(fields, client('meter:1', CLIENT_SECRET))
    assert.equal(reply.status, 200, reply.text)
    assert.equal(reply.headers['cache-control'], 'no-store')
    const { access_token: token, token_type: type } = reply.json<{ access_token: string; token_type: string }>()
    assert.equal(type, 'Bearer')
    const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' }
    assert.equal((await send(url, 'POST', '/api/things', { headers, body: '{}' })).status, 201)
  }
})

test('clients that do not encode their id and secret get a token where neither has characters of their own meaning', async () => {
  assert.equal((await ask(GRANT, basic('admin', passwordOf('admin')))).status, 200)
})

test('a wrong secret in the header is 401 with a challenge for Basic and for tokens, and is logged', async () => {
  for (const authorization of [client('meter:1', 'wrong'), client('nobody', CLIENT_SECRET), basic('meter:1', 'x')]) {
    const reply = await ask(GRANT, authorization)
    assert.equal(reply.status, 401)
    assert.equal(reply.json<{ error: string }>().error, 'invalid_client')
    assert.equal(
      reply.headers['www-authenticate'],
      'Bearer realm="Recollect", Basic realm="Recollect", charset="UTF-8"',
    )
  }
  const failed = log.filter((line) => line.includes('a login failed'))
  assert.equal(failed.length, 3)
  assert.match(String(failed[0]), /"scheme":"password","actor":"meter:1"/)
})

test('a wrong secret in the body is 401 without a challenge for Basic, for which browsers would show a dialog', async () => {
  const reply = await ask({ ...GRANT, client_id: 'admin', client_secret: 'wrong' })
  assert.equal(reply.status, 401)
  assert.equal(reply.json<{ error: string }>().error, 'invalid_client')
  assert.equal(reply.headers['www-authenticate'], 'Bearer realm="Recollect"')
})

test('credentials both in the header and in the body are 400, as is a request without any', async () => {
  const right = client('meter:1', CLIENT_SECRET)
  const rows: readonly (readonly [fields: Readonly<Record<string, string>>, authorization: string | undefined])[] = [
    [{ ...GRANT, client_id: 'meter:1', client_secret: CLIENT_SECRET }, right],
    [{ ...GRANT, client_secret: CLIENT_SECRET }, right],
    [{ ...GRANT, client_id: 'admin' }, right],
    [GRANT, undefined],
    [{ ...GRANT, client_id: 'admin' }, undefined],
    [GRANT, 'Basic !'],
  ]
  for (const [fields, authorization] of rows) {
    const reply = await ask(fields, authorization)
    assert.equal(reply.status, 400, JSON.stringify(fields))
    assert.equal(reply.json<{ error: string }>().error, 'invalid_request')
  }
})

test('a grant other than those of clients and users is 400 unsupported_grant_type, and names the right ones', async () => {
  for (const grant of ['authorization_code', 'refresh_token', '', 'CLIENT_CREDENTIALS']) {
    const reply = await ask({ grant_type: grant, username: 'admin', password: passwordOf('admin') })
    assert.equal(reply.status, 400, grant)
    const { error, detail } = reply.json<{ error: string; detail: string }>()
    assert.equal(error, 'unsupported_grant_type')
    assert.match(detail, /one of client_credentials, password, not /)
  }
  const asUser = { grant_type: 'password', username: 'admin', password: passwordOf('admin') }
  assert.equal((await ask(asUser)).status, 200)
})

test('an API key as a Bearer value reads items, events and metrics; a wrong one is challenged for and logged', async (t) => {
  const own = await startHere(t, { data: { things: [{ id: 1 }] }, flags: authentication(['apikey']) })
  for (const path of ['/metrics', '/api/things/1', '/events']) {
    const headers = { Authorization: `Bearer ${keyOf('reader')}` }
    assert.equal((await send(own.url, 'GET', path, { headers })).status, 200, path)
    const wrong = await send(own.url, 'GET', path, { headers: { Authorization: 'Bearer wrong' } })
    assert.equal(wrong.status, 401, path)
    assert.equal(wrong.headers['www-authenticate'], 'Bearer realm="Recollect", ApiKey realm="Recollect"')
  }
  assert.match(own.log.join(''), /"scheme":"apikey"/)
})

const REVOKED = [{ id: 'a', expiresAt: 1 }]

test('revocations are stored as a JSON array, and read by the next start', async () => {
  const disk = new SimulatedDisk()
  await disk.files().makeDirectory('/data')
  const first = tokensInDirectory(disk.files(), '/data', false)
  assert.deepEqual(await first.revocations.read(), [])
  await first.revocations.write(REVOKED)
  assert.equal(String(disk.bytes('/data/revoked.json')), `${JSON.stringify(REVOKED)}\n`)
  assert.deepEqual(await tokensInDirectory(disk.files(), '/data', false).revocations.read(), REVOKED)
})

test('a file of revocations that is damaged in any way prevents the start', async () => {
  for (const text of ['', 'null', '0', '{}', '[{"id":"a"}]', '[{"id":"a","expiresAt":1}']) {
    const disk = new SimulatedDisk()
    disk.put('/data/revoked.json', Buffer.from(text))
    await assert.rejects(tokensInDirectory(disk.files(), '/data', false).revocations.read(), Corruption, text)
  }
})
