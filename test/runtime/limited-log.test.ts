import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pino } from 'pino'
import { Estimate, LimitedLog, TEN_IN_TEN_SECONDS } from '../../src/runtime/limited-log.ts'
import { SimulatedClock } from '../support/clock.ts'

function limited() {
  const lines: Record<string, unknown>[] = []
  const clock = new SimulatedClock()
  const log = pino({ base: null, timestamp: false }, { write: (line) => void lines.push(JSON.parse(line)) })
  return { log: new LimitedLog(log, clock.elapsedMs), lines, clock }
}

test('each kind has one line a minute, and its next line the number of those left out', async () => {
  const { log, lines, clock } = limited()
  for (let count = 0; count < 1000; count++) {
    log.error({ n: count }, 'the disk is full')
    log.warn({ n: count }, 'the clock has jumped')
    await clock.pass(59)
  }
  assert.deepEqual(lines, [
    { level: 50, n: 0, msg: 'the disk is full' },
    { level: 40, n: 0, msg: 'the clock has jumped' },
  ])
  await clock.pass(1000)
  log.error({ n: 1000 }, 'the disk is full')
  assert.deepEqual(lines.slice(2), [{ level: 50, n: 1000, unlogged: 999, msg: 'the disk is full' }])
  await clock.pass(60_000)
  log.error({ n: 1001 }, 'the disk is full')
  assert.deepEqual(lines.slice(3), [{ level: 50, n: 1001, msg: 'the disk is full' }])
})

test('a kind about single requests has ten lines in ten seconds', async () => {
  const { log, lines, clock } = limited()
  for (let count = 0; count < 25; count++) log.warn({}, 'a login failed', TEN_IN_TEN_SECONDS)
  assert.equal(lines.length, 10)
  await clock.pass(10_000)
  log.warn({}, 'a login failed', TEN_IN_TEN_SECONDS)
  assert.deepEqual(lines.slice(10), [{ level: 40, unlogged: 15, msg: 'a login failed' }])
})

test('the end of a trouble is logged once, if the trouble was, and when new trouble could be logged', async () => {
  const { log, lines, clock } = limited()
  const recover = () => log.recovered('the disk is full', { path: '/a' }, 'the disk has room again')
  recover()
  assert.deepEqual(lines, [])
  for (let again = 0; again < 3; again++) {
    log.error({}, 'the disk is full')
    recover()
  }
  assert.deepEqual(lines, [{ level: 50, msg: 'the disk is full' }])
  await clock.pass(60_000)
  for (let again = 0; again < 2; again++) recover()
  log.error({}, 'the disk is full')
  assert.deepEqual(lines.slice(1), [
    { level: 30, path: '/a', unlogged: 2, msg: 'the disk has room again' },
    { level: 50, msg: 'the disk is full' },
  ])
})

test('the rest of work is estimated from its rate since it began', () => {
  let ms = 5000
  const estimate = new Estimate(() => ms)
  assert.equal(estimate.secondsLeft(100, 1000), undefined)
  ms += 2000
  assert.equal(estimate.secondsLeft(100, 1000), undefined)
  ms += 1000
  assert.equal(estimate.secondsLeft(400, 1000), 6)
  ms += 3000
  assert.equal(estimate.secondsLeft(1000, 1000), 0)
})
