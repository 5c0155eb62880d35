import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Access, ANYBODY, type Claim, type Credentials } from '../../src/access/access.ts'
import type { Principal } from '../../src/access/accounts.ts'
import { TrustedProxies } from '../../src/access/addresses.ts'
import { credentialsOf, Failures, Gate, isRefused, type RefusedAccess } from '../../src/access/gate.ts'
import { Hosts, Origins } from '../../src/access/origins.ts'
import { hashPassword } from '../../src/access/passwords.ts'
import { Tokens } from '../../src/access/tokens.ts'
import { clock } from '../support/clock.ts'

const ANNA = { scheme: 'password', actor: 'anna' } as const
const SOMEBODY: Principal = { actor: 'anna', role: 'reader' }
/** Without the account, of which only its identity matters. */
const named = (admitted: Principal | RefusedAccess) =>
  isRefused(admitted) ? admitted : { actor: admitted.actor, role: admitted.role }
const TOO_MANY = (waitSeconds: number) => ({ refused: 'TooManyRequests', waitSeconds })
const WRONG = { refused: 'Unauthenticated' }

/** Basic credentials of a user `anna`, whose password is `right`. */
const password = (text: string) => ({ authorization: `Basic ${Buffer.from(`anna:${text}`).toString('base64')}` })
const HASH = await hashPassword('right')

async function opened({ limit = 3, isOn = true } = {}) {
  const time = clock()
  const tokens = await Tokens.open(Buffer.alloc(32), 100, time.now, { read: async () => [], write: async () => {} })
  const apiKeys = [{ name: 'anna', key: 'right', role: 'reader' }] as const
  const users = [{ name: 'anna', password: HASH, role: 'reader' }] as const
  const access = isOn ? await Access.open({ schemes: ['token', 'basic', 'apikey'], users, apiKeys, tokens }) : undefined
  const failures = new Failures(limit, time.elapsedMs)
  const failed: [address: string, claim: Claim][] = []
  const gate = new Gate({
    access,
    failures,
    proxies: new TrustedProxies(['10.0.0.1']),
    origins: new Origins([]),
    hosts: new Hosts([]),
    failed: (...failure) => failed.push(failure),
  })
  return { gate, time, tokens, failed }
}

/** A check that ends when it is told to. */
function pending() {
  const waiting: ((principal: Principal | undefined) => void)[] = []
  let begun = 0
  const check = () => {
    begun++
    return new Promise<Principal | undefined>((resolve) => waiting.push(resolve))
  }
  return { check, begun: () => begun, endOne: (principal?: Principal) => waiting.shift()?.(principal) }
}

const settled = () => new Promise((resolve) => setImmediate(resolve))

test('with authentication off every request is allowed, whatever its credentials', async () => {
  const { gate } = await opened({ isOn: false, limit: 1 })
  for (let count = 0; count < 5; count++) assert.equal(await gate.admit({ apiKey: 'wrong' }, () => 'a'), ANYBODY)
  assert.ok(gate.isValid(ANYBODY))
})

test('an address that is locked out waits even with the right password; other addresses do not', async () => {
  const { gate, time } = await opened({ limit: 3 })
  for (const wrong of [{ apiKey: 'wrong' }, { authorization: 'Bearer a.b.c' }, password('wrong')]) {
    assert.deepEqual(await gate.admit(wrong, () => 'a'), WRONG)
  }
  for (const wrong of [{ apiKey: 'wrong' }, { accessToken: 'a.b.c' }, password('wrong')]) {
    assert.deepEqual(await gate.admit(wrong, () => 'a'), TOO_MANY(60))
  }
  assert.deepEqual(await gate.admit(password('right'), () => 'a'), TOO_MANY(60))
  assert.deepEqual(named(await gate.admit(password('right'), () => 'b')), SOMEBODY)
  time.pass(60_000)
  assert.deepEqual(named(await gate.admit(password('right'), () => 'a')), SOMEBODY)
})

test('a valid API key or token is accepted despite earlier failures', async () => {
  const { gate, tokens } = await opened({ limit: 1 })
  const token = await tokens.issue('anna')
  for (let count = 0; count < 5; count++) await gate.admit(password('wrong'), () => 'a')
  assert.deepEqual(named(await gate.admit({ apiKey: 'right' }, () => 'a')), SOMEBODY)
  for (const brought of [{ authorization: `Bearer ${token}` }, { accessToken: token }]) {
    const admitted = await gate.admit(brought, () => 'a')
    assert.ok(!isRefused(admitted) && admitted.actor === 'anna')
  }
})

test('the queue of password checks is bounded per address and in total, and requests beyond it are rejected at once', async () => {
  const { gate } = await opened({ limit: 3 })
  const { check, begun, endOne } = pending()
  const refused: unknown[] = []
  const attempt = (address: string) => void gate.attempt(address, ANNA, check).then((one) => refused.push(one))
  for (let count = 0; count < 10_000; count++) attempt('a')
  await settled()
  assert.equal(begun(), 3)
  assert.deepEqual([refused.length, refused[0]], [10_000 - 128, TOO_MANY(1)])
  for (let address = 0; address < 10_000; address++) attempt(`address ${address}`)
  await settled()
  assert.equal(refused.length, 20_000 - 1024)
  while (begun() > 0 && refused.length < 20_000) {
    endOne(SOMEBODY)
    await settled()
  }
  assert.deepEqual(named(await gate.admit(password('right'), () => 'a')), SOMEBODY, 'there is room again')
})

test('only an API key, or a password or token that was verified before, is admitted without a check', async () => {
  const { gate, time, tokens } = await opened({ limit: 1 })
  const atOnce = (credentials: Credentials) => {
    const admitted = gate.admit(credentials, () => 'a')
    return admitted instanceof Promise || isRefused(admitted) ? undefined : admitted.actor
  }
  const bearer = { authorization: `Bearer ${await tokens.issue('anna')}` }
  assert.equal(atOnce({ apiKey: 'right' }), 'anna')
  for (const brought of [password('right'), bearer]) {
    assert.equal(atOnce(brought), undefined)
    assert.ok(!isRefused(await gate.admit(brought, () => 'a')))
    assert.equal(atOnce(brought), 'anna')
  }
  assert.equal(atOnce({}), undefined)
  assert.equal(atOnce(password('right')), 'anna', 'nothing was counted')
  await gate.admit(password('wrong'), () => 'a')
  assert.equal(atOnce(password('right')), undefined, 'this address waits')
  time.pass(100_000)
  assert.equal(atOnce(bearer), undefined, 'the token has expired')
})

test('a revoked token is no longer recognized', async () => {
  const { gate, tokens } = await opened()
  const bearer = { authorization: `Bearer ${await tokens.issue('anna')}` }
  const admitted = await gate.admit(bearer, () => 'a')
  assert.ok(!isRefused(admitted) && admitted.token)
  await tokens.revoke(admitted.token)
  assert.deepEqual(await gate.admit(bearer, () => 'a'), WRONG)
})

test('a request without credentials does not count as a failure', async () => {
  const { gate } = await opened({ limit: 1 })
  for (let count = 0; count < 5; count++) assert.deepEqual(await gate.admit({}, () => 'a'), WRONG)
  assert.deepEqual(named(await gate.admit({ apiKey: 'right' }, () => 'a')), SOMEBODY)
})

test('concurrent guesses are checked only up to the limit', async () => {
  const { gate } = await opened({ limit: 3 })
  const { check, begun, endOne } = pending()
  const answers = Promise.all(Array.from({ length: 50 }, () => gate.attempt('a', ANNA, check)))
  await settled()
  assert.equal(begun(), 3)
  for (let count = 0; count < 3; count++) endOne()
  const refused = await answers
  assert.equal(begun(), 3)
  assert.deepEqual(refused.slice(0, 3), [WRONG, WRONG, WRONG])
  assert.deepEqual(refused.slice(3), Array(47).fill(TOO_MANY(60)))
})

test('many concurrent requests with valid credentials are all accepted, although some wait', async () => {
  const { gate } = await opened({ limit: 3 })
  const { check, begun, endOne } = pending()
  const answers = Promise.all(Array.from({ length: 10 }, () => gate.attempt('a', ANNA, check)))
  for (let ended = 0; ended < 10; ended++) {
    await settled()
    assert.ok(begun() - ended <= 3)
    endOne(SOMEBODY)
  }
  assert.deepEqual(await answers, Array(10).fill(SOMEBODY))
})

test('the next check runs after a check that throws', async () => {
  const { gate } = await opened({ limit: 1 })
  const broken = () => Promise.reject(new Error('out of memory'))
  const answers = await Promise.allSettled([
    gate.attempt('a', ANNA, broken),
    gate.attempt('a', ANNA, async () => SOMEBODY),
  ])
  assert.deepEqual(
    answers.map(({ status }) => status),
    ['rejected', 'fulfilled'],
  )
  assert.equal(isRefused(await gate.attempt('a', ANNA, async () => SOMEBODY)), false)
})

test('credentials are read from the headers and the address of a request', async () => {
  const { gate } = await opened()
  const fields = { authorization: 'Bearer x', 'x-api-key': ['a', 'b'], 'x-forwarded-for': ['198.51.100.1', '10.0.0.1'] }
  assert.deepEqual(credentialsOf(fields, 't'), { authorization: 'Bearer x', apiKey: 'a, b', accessToken: 't' })
  assert.deepEqual(credentialsOf({}), { authorization: undefined, apiKey: undefined, accessToken: undefined })
  assert.equal(gate.addressOf('10.0.0.1', fields), '198.51.100.1')
  assert.equal(gate.addressOf('203.0.113.9', fields), '203.0.113.9')
})

test('wrong credentials are logged with address, scheme and user; valid and missing ones are not', async () => {
  const { gate, failed, tokens } = await opened({ limit: 100 })
  const [stranger, forged] = [await tokens.issue('nobody'), `${await tokens.issue('anna')}x`]
  const mistyped = { authorization: `Basic ${Buffer.from('her secret:').toString('base64')}` }
  const wrong = [
    password('wrong'),
    mistyped,
    { authorization: 'Basic !' },
    { apiKey: 'wrong' },
    { accessToken: forged },
  ]
  for (const one of [...wrong, { authorization: `Bearer ${stranger}` }, {}, password('right'), { apiKey: 'right' }]) {
    await gate.admit(one, () => 'a')
  }
  assert.deepEqual(failed, [
    ['a', { scheme: 'password', actor: 'anna' }],
    ['a', { scheme: 'password' }],
    ['a', { scheme: 'password' }],
    ['a', { scheme: 'apikey' }],
    ['a', { scheme: 'token', actor: 'anna' }],
    ['a', { scheme: 'token' }],
  ])
})

test('an address is locked out when it exceeds the limit of failures', () => {
  const time = clock()
  const failures = new Failures(3, time.elapsedMs)
  for (const left of [3, 2, 1]) {
    assert.equal(failures.left('a'), left)
    assert.equal(failures.waitSeconds('a'), 0)
    failures.add('a')
  }
  assert.equal(failures.left('a'), 0)
  assert.equal(failures.waitSeconds('a'), 60)
  assert.equal(failures.waitSeconds('b'), 0)
})

test('the lock-out ends a minute after the first failure, and one more try is allowed', () => {
  const time = clock()
  const failures = new Failures(2, time.elapsedMs)
  failures.add('a')
  time.pass(20_000)
  failures.add('a')
  assert.equal(failures.waitSeconds('a'), 40)
  time.pass(39_001)
  assert.equal(failures.waitSeconds('a'), 1)
  time.pass(999)
  assert.equal(failures.waitSeconds('a'), 0)
  assert.equal(failures.left('a'), 1)
  failures.add('a')
  assert.equal(failures.waitSeconds('a'), 20)
  time.pass(60_000)
  assert.equal(failures.left('a'), 2)
})

test('failures beyond the limit do not extend the lock-out beyond a minute', () => {
  const time = clock()
  const failures = new Failures(2, time.elapsedMs)
  for (let count = 0; count < 100; count++) failures.add('a')
  assert.equal(failures.waitSeconds('a'), 60)
  time.pass(60_000)
  assert.equal(failures.left('a'), 2)
})

test('the failures of at most ten thousand addresses are remembered, and the oldest are evicted', () => {
  const time = clock()
  const failures = new Failures(1, time.elapsedMs)
  for (let address = 0; address < 10_001; address++) failures.add(`address ${address}`)
  assert.equal(failures.waitSeconds('address 0'), 0)
  assert.equal(failures.waitSeconds('address 1'), 60)
  failures.add('address 1')
  failures.add('another')
  assert.equal(failures.waitSeconds('address 1'), 60, 'the one that failed again is not the oldest any more')
  assert.equal(failures.waitSeconds('address 2'), 0)
})
