import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Principal } from '../../src/access/access.ts'
import { Access, ANYBODY } from '../../src/access/access.ts'
import { TrustedProxies } from '../../src/access/addresses.ts'
import { Failures } from '../../src/access/failures.ts'
import { credentialsOf, Gate, isRefused } from '../../src/access/gate.ts'
import { Origins } from '../../src/access/origins.ts'
import { Tokens } from '../../src/access/tokens.ts'
import { clock } from './clock.ts'

const SOMEBODY: Principal = { actor: 'anna', role: 'reader' }
const TOO_MANY = (waitSeconds: number) => ({ refused: 'TooManyRequests', waitSeconds })
const WRONG = { refused: 'Unauthenticated' }

async function opened({ limit = 3, isOn = true } = {}) {
  const time = clock()
  const tokens = await Tokens.open(Buffer.alloc(32), 100, time.now, { read: async () => [], write: async () => {} })
  const apiKeys = [{ name: 'anna', key: 'right', role: 'reader' }] as const
  const access = isOn ? await Access.open({ schemes: ['apikey'], users: [], apiKeys, tokens }) : undefined
  const failures = new Failures(limit, time.elapsedMs)
  const gate = new Gate({ access, failures, proxies: new TrustedProxies(['10.0.0.1']), origins: new Origins([]) })
  return { gate, time }
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

test('where authentication is off, everybody is let in, whatever they bring', async () => {
  const { gate } = await opened({ isOn: false, limit: 1 })
  for (let count = 0; count < 5; count++) assert.equal(await gate.admit({ apiKey: 'wrong' }, () => 'a'), ANYBODY)
  assert.ok(gate.isValid(ANYBODY))
})

test('whoever was wrong too often waits, also with what is right; others do not', async () => {
  const { gate, time } = await opened({ limit: 3 })
  for (let count = 0; count < 3; count++) assert.deepEqual(await gate.admit({ apiKey: 'wrong' }, () => 'a'), WRONG)
  assert.deepEqual(await gate.admit({ apiKey: 'wrong' }, () => 'a'), TOO_MANY(60))
  assert.deepEqual(await gate.admit({ apiKey: 'right' }, () => 'a'), TOO_MANY(60))
  assert.deepEqual(await gate.admit({ apiKey: 'right' }, () => 'b'), SOMEBODY)
  time.pass(60_000)
  assert.deepEqual(await gate.admit({ apiKey: 'right' }, () => 'a'), SOMEBODY)
})

test('to bring nothing is no wrong guess', async () => {
  const { gate } = await opened({ limit: 1 })
  for (let count = 0; count < 5; count++) assert.deepEqual(await gate.admit({}, () => 'a'), WRONG)
  assert.deepEqual(await gate.admit({ apiKey: 'right' }, () => 'a'), SOMEBODY)
})

test('of any number of guesses at once no more are looked at than the limit allows', async () => {
  const { gate } = await opened({ limit: 3 })
  const { check, begun, endOne } = pending()
  const answers = Promise.all(Array.from({ length: 50 }, () => gate.attempt('a', check)))
  await settled()
  assert.equal(begun(), 3)
  for (let count = 0; count < 3; count++) endOne()
  const refused = await answers
  assert.equal(begun(), 3)
  assert.deepEqual(refused.slice(0, 3), [WRONG, WRONG, WRONG])
  assert.deepEqual(refused.slice(3), Array(47).fill(TOO_MANY(60)))
})

test('many who are right at once all come in, although some of them wait', async () => {
  const { gate } = await opened({ limit: 3 })
  const { check, begun, endOne } = pending()
  const answers = Promise.all(Array.from({ length: 10 }, () => gate.attempt('a', check)))
  for (let ended = 0; ended < 10; ended++) {
    await settled()
    assert.ok(begun() - ended <= 3)
    endOne(SOMEBODY)
  }
  assert.deepEqual(await answers, Array(10).fill(SOMEBODY))
})

test('a check that throws lets the next one go on', async () => {
  const { gate } = await opened({ limit: 1 })
  const broken = () => Promise.reject(new Error('out of memory'))
  const answers = await Promise.allSettled([gate.attempt('a', broken), gate.attempt('a', async () => SOMEBODY)])
  assert.deepEqual(
    answers.map(({ status }) => status),
    ['rejected', 'fulfilled'],
  )
  assert.equal(isRefused(await gate.attempt('a', async () => SOMEBODY)), false)
})

test('what a request brings, and where from', async () => {
  const { gate } = await opened()
  const fields = { authorization: 'Bearer x', 'x-api-key': ['a', 'b'], 'x-forwarded-for': ['198.51.100.1', '10.0.0.1'] }
  assert.deepEqual(credentialsOf(fields, 't'), { authorization: 'Bearer x', apiKey: 'a, b', accessToken: 't' })
  assert.deepEqual(credentialsOf({}), { authorization: undefined, apiKey: undefined, accessToken: undefined })
  assert.equal(gate.addressOf('10.0.0.1', fields), '198.51.100.1')
  assert.equal(gate.addressOf('203.0.113.9', fields), '203.0.113.9')
})
