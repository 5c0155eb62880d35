import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SignJWT } from 'jose'
import { type Revocation, type RevocationStore, type Token, Tokens } from '../../src/access/tokens.ts'
import { clock } from './clock.ts'

const SECRET = Buffer.from('a secret of at least 32 bytes, as is asked for')
const OTHER_SECRET = Buffer.from('another one of at least 32 bytes, as is asked')

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
