import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Failures } from '../../src/access/gate.ts'
import { clock } from './clock.ts'

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
