import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compareInstants, parseInstant, readInstant } from '../../src/json/instant.ts'
import { forAll } from '../support/random.ts'

function micros(text: string): bigint | undefined {
  const instant = parseInstant(text)
  return instant && BigInt(instant.ms) * 1000n + BigInt(instant.micros)
}

test('a date means its midnight, and a time without a zone is UTC', () => {
  assert.equal(micros('2026-11-20'), 1795132800_000000n)
  assert.equal(micros('2026-11-20T00:00'), 1795132800_000000n)
  assert.equal(micros('2026-11-20T00:00:00'), 1795132800_000000n)
  assert.equal(micros('2026-11-20T00:00:00Z'), 1795132800_000000n)
  assert.equal(micros('1970-01-01'), 0n)
})

test('time zones are applied, in every format of ISO 8601', () => {
  for (const zone of ['+02:00', '+0200', '+02']) {
    assert.equal(micros(`2026-11-20T02:00:00${zone}`), micros('2026-11-20T00:00:00Z'), zone)
  }
  assert.equal(micros('2026-11-19T18:30:00-05:30'), micros('2026-11-20'))
  assert.equal(micros('2026-11-20t00:00:00z'), micros('2026-11-20'))
})

test('microseconds are kept, finer digits are cut off', () => {
  assert.equal(micros('1970-01-01T00:00:00.000001'), 1n)
  assert.equal(micros('1970-01-01T00:00:00.5'), 500_000n)
  assert.equal(micros('1970-01-01T00:00:00,123456'), 123_456n)
  assert.equal(micros('1970-01-01T00:00:00.1234569999'), 123_456n)
  assert.equal(micros('1969-12-31T23:59:59.999999'), -1n)
})

test('years of one and two digits are literal, and leap days exist in leap years only', () => {
  assert.equal(micros('0001-01-01'), BigInt(Date.parse('0001-01-01T00:00:00Z')) * 1000n)
  assert.equal(micros('0099-12-31'), BigInt(Date.parse('0099-12-31T00:00:00Z')) * 1000n)
  assert.notEqual(micros('2024-02-29'), undefined)
  assert.notEqual(micros('2000-02-29'), undefined)
  assert.equal(micros('1900-02-29'), undefined)
  assert.equal(micros('2026-02-29'), undefined)
})

test('impossible dates and times are text', () => {
  for (const text of [
    '',
    '2026',
    '2026-11',
    '2026-13-01',
    '2026-00-10',
    '2026-04-31',
    '2026-11-20T24:00:00',
    '2026-11-20T12:60',
    '2026-11-20T12:00:61',
    '2026-11-20T12:00:00.',
    '2026-11-20T12:00:00+24:00',
    '2026-11-20T12:00:00+02:60',
    '2026-11-20T12',
    '2026-11-20Z',
    '2026-11-20 12:00',
    ' 2026-11-20',
    '2026-11-20\n',
    '+2026-11-20',
    '02026-11-20',
    '2026-11-20T12:00:00Z and more',
  ]) {
    assert.equal(parseInstant(text), undefined, JSON.stringify(text))
  }
})

test('in a query the plus of a time zone may have become a space', () => {
  const zoned = parseInstant('2026-11-20T12:00:00.25+02:00')
  assert.ok(zoned)
  assert.deepEqual(readInstant('2026-11-20T12:00:00.25 02:00'), zoned)
  assert.deepEqual(readInstant('2026-11-20T12:00:00.25 0200'), zoned)
  assert.deepEqual(readInstant('2026-11-20T12:00:00.25 02'), zoned)
  assert.equal(readInstant('2026-11-20 02'), undefined)
})

test('instants compare by milliseconds, then by microseconds', () => {
  assert.ok(compareInstants({ ms: 1, micros: 999 }, { ms: 2, micros: 0 }) < 0)
  assert.ok(compareInstants({ ms: 2, micros: 1 }, { ms: 2, micros: 0 }) > 0)
  assert.equal(compareInstants({ ms: 2, micros: 1 }, { ms: 2, micros: 1 }), 0)
})

test('instants of any year agree with Date', () => {
  const first = Date.parse('0000-01-01T00:00:00Z')
  const range = Date.parse('9999-12-31T23:59:59Z') - first
  forAll(20_000, (random) => {
    const ms = first + random.integer(range)
    const text = new Date(ms).toISOString()
    assert.deepEqual(parseInstant(text), { ms, micros: 0 }, text)
    const zoned = text.replace('Z', random.pick(['+05:30', '+0530']))
    assert.deepEqual(parseInstant(zoned), { ms: ms - 330 * 60_000, micros: 0 }, zoned)
    const date = `${text.slice(0, 8)}${random.pick(['28', '29', '30', '31'])}`
    const day = new Date(`${date}T00:00:00Z`)
    const exists = day.toISOString().startsWith(date)
    assert.deepEqual(parseInstant(date), exists ? { ms: day.getTime(), micros: 0 } : undefined, date)
  })
})
