import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type IssuedToken, Session } from '../../src/client/credentials.ts'
import { connect } from '../../src/client/index.ts'
import { type Problem, problem, problemOf } from '../../src/client/problem.ts'
import { each, until, within } from '../support/deadline.ts'
import { startGuarded } from './host.ts'

const ADA = { username: 'ada', password: 'sesame' }
const LIFETIME_MS = 1_800_000

/** A session whose tokens are called 1, 2, 3…, and a clock for it. */
function startSession(t: Pick<TestContext, 'after'>) {
  const clock = { nowMs: 0 }
  const logins = { count: 0, failure: undefined as Problem | undefined }
  Object.defineProperty(performance, 'now', { configurable: true, value: () => clock.nowMs })
  t.after(async () => void Reflect.deleteProperty(performance, 'now'))
  const login = async (): Promise<IssuedToken> => {
    logins.count++
    await Promise.resolve()
    if (logins.failure) throw logins.failure
    return { token: String(logins.count), expiresInSeconds: LIFETIME_MS / 1000 }
  }
  return { session: new Session(ADA, login), clock, logins }
}

test('a token is renewed once for all that need another one, and beside the requests while it is valid', async (t) => {
  const { session, clock, logins } = startSession(t)
  const many = () => Promise.all(Array.from({ length: 200 }, async () => (await session.current()).token))
  assert.deepEqual(new Set(await within('the first token', many())), new Set(['1']))
  clock.nowMs = 0.95 * LIFETIME_MS
  assert.deepEqual(new Set(await within('the valid token', many())), new Set(['1']))
  await until('the next token', () => session.token === '2')
  assert.equal(logins.count, 2)
  clock.nowMs = 3 * LIFETIME_MS
  assert.deepEqual(new Set(await within('the third token', many())), new Set(['3']))
  assert.equal(logins.count, 3)
})

test('a token whose renewal fails is used until it is over, and renewed again later', async (t) => {
  const { session, clock, logins } = startSession(t)
  await session.current()
  clock.nowMs = 0.95 * LIFETIME_MS
  const tokenAt = async (ms: number) => {
    clock.nowMs = ms
    const { token } = await session.current()
    // The next connection waits for the renewal.
    await session.forConnection()
    return [token, logins.count]
  }
  logins.failure = problem('Unavailable', 503, 'not now')
  assert.deepEqual(await tokenAt(clock.nowMs), ['1', 2])
  assert.deepEqual(await tokenAt(clock.nowMs + 999), ['1', 2])
  assert.deepEqual(await tokenAt(clock.nowMs + 1), ['1', 3])
  logins.failure = await problemOf(new Response('', { status: 429, headers: { 'Retry-After': '30' } }))
  assert.deepEqual(await tokenAt(clock.nowMs + 1000), ['1', 4])
  assert.deepEqual(await tokenAt(clock.nowMs + 29_999), ['1', 4])
  logins.failure = problem('Unauthenticated', 401, 'wrong')
  assert.deepEqual(await tokenAt(clock.nowMs + 1), ['1', 5])
  assert.deepEqual(await tokenAt(LIFETIME_MS - 1), ['1', 5], 'a wrong password is not sent again')
  clock.nowMs = LIFETIME_MS
  await assert.rejects(session.current(), { status: 401 })
})

test('a new connection gets the next token when the last one is about to end', async (t) => {
  const { session, clock } = startSession(t)
  assert.equal((await session.forConnection()).token, '1')
  clock.nowMs = 0.95 * LIFETIME_MS
  assert.equal((await session.forConnection()).token, '2')
})

test('Basic credentials are sent only to a server without tokens, and until it has some', async (t) => {
  const { session, logins } = startSession(t)
  logins.failure = await problemOf(new Response('nothing here', { status: 404 }))
  await assert.rejects(session.current(), { status: 503, code: 'Unavailable' })
  logins.failure = problem('NotFound', 404, 'no tokens')
  const sent = await session.current()
  assert.deepEqual(sent, ADA)
  assert.equal(await session.rejected(sent), false)
  const again = await session.current()
  logins.failure = undefined
  assert.equal(await session.rejected(again), true)
  assert.match(String((await session.current()).token), /^\d$/)
})

test('a password that the server does not know any more is sent once for each request', async (t) => {
  const { session, logins } = startSession(t)
  logins.failure = problem('NotFound', 404, 'no tokens')
  const sent = await session.current()
  logins.failure = problem('Unauthenticated', 401, 'wrong')
  const before = logins.count
  assert.equal(await session.rejected(sent), false)
  assert.equal(logins.count, before + 1)
  logins.failure = problem('Unavailable', 503, 'not now')
  assert.equal(await session.rejected(sent), true, 'the next connection says why')
})

const { fetch } = globalThis

/** Responds to requests in place of a server. */
function respond(t: Pick<TestContext, 'after'>, answer: (path: string, init: RequestInit) => Promise<Response>): void {
  globalThis.fetch = (input, init = {}) => answer(new URL(String(input)).pathname, init)
  t.after(async () => {
    globalThis.fetch = fetch
  })
}

const NOWHERE = 'http://localhost'

test('a request that waits for its token ends with its signal and with the client', async (t) => {
  respond(t, async () => Response.json([]))
  const client = connect(NOWHERE, { token: () => new Promise<string>(() => {}) })
  const leaving = new AbortController()
  const aborted = client.collection('a').get({ signal: leaving.signal })
  const followed = each('an event', client.events({ follow: true, signal: leaving.signal })).next()
  const closed = client.collection('a').get()
  const ended = assert.rejects(within('the end of a request', aborted), /enough/)
  const left = assert.rejects(followed, /enough/)
  leaving.abort(new Error('enough'))
  await Promise.all([ended, left])
  client.close()
  await assert.rejects(within('the end of a request', closed), { name: 'AbortError' })
})

/** A server that issues tokens when told to, and accepts none of them. */
function startLogins(t: Pick<TestContext, 'after'>) {
  const paths: string[] = []
  const tokens: (string | null)[] = []
  let issue = (): void => {}
  const issued = new Promise<void>((resolve) => {
    issue = resolve
  })
  respond(t, async (path, { headers }) => {
    paths.push(path)
    tokens.push(new Headers(headers).get('Authorization'))
    if (path !== '/token') return new Response('', { status: 401 })
    await issued
    return Response.json({ access_token: 'late', expires_in: 60 })
  })
  return { paths, tokens, issue }
}

test('a login that was requested before other credentials were set is not used', async (t) => {
  for (const set of ['authenticate', 'logout', 'login'] as const) {
    const { issue } = startLogins(t)
    const sent: unknown[] = []
    const client = connect(NOWHERE)
    const late = assert.rejects(within('the login', client.login('ada', 'old')), { name: 'AbortError' })
    if (set === 'authenticate') client.authenticate({ token: 'newer' })
    if (set === 'logout') await client.logout()
    const newer = set === 'login' ? client.login('ada', 'new') : undefined
    issue()
    await late
    await newer
    respond(t, async (_path, { headers }) => {
      sent.push(new Headers(headers).get('Authorization'))
      return Response.json([])
    })
    await client.collections()
    assert.deepEqual(sent, [{ authenticate: 'Bearer newer', logout: null, login: 'Bearer late' }[set]])
  }
})

test('a request that waits for a wrong password continues with the credentials that replace it', async (t) => {
  let reject = (): void => {}
  const rejected = new Promise<void>((resolve) => {
    reject = resolve
  })
  const sent: unknown[] = []
  respond(t, async (path, { headers }) => {
    sent.push(path, new Headers(headers).get('Authorization'))
    if (path !== '/token') return Response.json([])
    await rejected
    return new Response('', { status: 401 })
  })
  const client = connect(NOWHERE, ADA)
  const answered = within('the answer', client.collections())
  await until('the login', () => sent.length === 2)
  client.authenticate({ token: 'good' })
  reject()
  assert.deepEqual(await answered, [])
  assert.deepEqual(sent, ['/token', null, '/api', 'Bearer good'])
})

test('a request during a logout does not log in again', async (t) => {
  const { paths, tokens, issue } = startLogins(t)
  const client = connect(NOWHERE, ADA)
  const waiting = assert.rejects(within('the answer', client.collections()), { status: 401 })
  await until('the login', () => paths.length === 1)
  await client.logout()
  issue()
  await waiting
  assert.deepEqual(paths, ['/token', '/api'])
  assert.deepEqual(tokens, [null, null])
})

test('a request that is rejected after a logout does not log in again', async (t) => {
  const paths: string[] = []
  let reject = (): void => {}
  const rejected = new Promise<void>((resolve) => {
    reject = resolve
  })
  respond(t, async (path) => {
    paths.push(path)
    if (path === '/token') return Response.json({ access_token: 'one', expires_in: 60 })
    if (path === '/api') await rejected
    return new Response('', { status: 401 })
  })
  const client = connect(NOWHERE, ADA)
  const answered = assert.rejects(within('the answer', client.collections()), { status: 401 })
  await until('the request', () => paths.length === 2)
  await client.logout()
  reject()
  await answered
  assert.deepEqual(paths, ['/token', '/api', '/logout'])
})

test('a logout stops using the credentials also when the token cannot be revoked', async (t) => {
  for (const [status, isReported] of [
    [204, false],
    [401, false],
    [404, false],
    [503, true],
  ] as const) {
    const sent: unknown[] = []
    respond(t, async (path, { headers }) => {
      sent.push(path, new Headers(headers).get('Authorization'))
      return path === '/logout' ? new Response(null, { status }) : Response.json([])
    })
    const client = connect(NOWHERE, { token: 'one' })
    const over = client.logout()
    if (isReported) await assert.rejects(over, { status })
    else await over
    await client.collections()
    assert.deepEqual(sent, ['/logout', 'Bearer one', '/api', null])
  }
})

test('a logout from a server without tokens stops sending the password', async (t) => {
  const server = await startGuarded(t, { a: [] }, ['basic'])
  const client = connect(server.url, await server.credentialsOf('basic', 'reader'))
  assert.deepEqual(await client.collections(), ['a'])
  await client.logout()
  await assert.rejects(client.collections(), { status: 401 })
})
