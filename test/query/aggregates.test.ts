import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { IANAZone } from 'luxon'
import { parsePath } from '../../src/json/paths.ts'
import type { JsonObject, JsonValue } from '../../src/json/value.ts'
import { parseWindow } from '../../src/query/aggregate/window.ts'
import { Queries } from '../../src/query/queries.ts'
import { parseParameters, parseQuery } from '../../src/query/query.ts'
import { Refusal } from '../../src/runtime/errors.ts'
import { answerOf, whole } from '../support/api.ts'
import { type CollectionWriter, collectionOf } from '../support/collections.ts'
import { SEED } from '../support/random.ts'

const LIMITS = { parameters: 100, pageSize: 1000 }
const TIME = parsePath('timestamp')

interface Asked {
  readonly rows: JsonValue[]
  readonly total: number
}

/** The response for a collection of these items. */
async function ask({ collection, views }: CollectionWriter, search: string, time = TIME): Promise<Asked> {
  const queries = new Queries({ views, bytes: 2 ** 20 })
  const query = parseQuery(parseParameters(search, 100), LIMITS, { time })
  const { text, total } = await answerOf(queries, collection, query)
  return { rows: JSON.parse(whole(text)) as JsonValue[], total }
}

const rowsOf = async (items: readonly JsonObject[], search: string): Promise<JsonValue[]> => {
  return (await ask(collectionOf(items), search)).rows
}

const READINGS: readonly JsonObject[] = [
  { mac: 'a', timestamp: '2026-01-01T00:10:00', data: { temperature: 20 } },
  { mac: 'b', timestamp: '2026-01-01T00:20:00', data: { temperature: 5 } },
  { mac: 'a', timestamp: '2026-01-01T00:50:00', data: { temperature: 22 } },
  { mac: 'a', timestamp: '2026-01-01T03:00:00', data: { temperature: 26 } },
  { mac: 'a', timestamp: '2026-01-01T00:30:00', data: {} },
  { mac: 'b', data: { temperature: 100 } },
]

test('numbers are summed by sensor and hour; an item without a time is in no window', async () => {
  const search =
    'aggregate=count,avg(data.temperature),min(data.temperature),max(data.temperature)&groupBy=mac&window=1h'
  const columns = (count: number, avg: number, min: number, max: number) => ({
    count,
    'avg(data.temperature)': avg,
    'min(data.temperature)': min,
    'max(data.temperature)': max,
  })
  assert.deepEqual(await rowsOf(READINGS, search), [
    { mac: 'a', window: '2026-01-01T00:00:00.000Z', ...columns(3, 21, 20, 22) },
    { mac: 'a', window: '2026-01-01T03:00:00.000Z', ...columns(1, 26, 26, 26) },
    { mac: 'b', window: '2026-01-01T00:00:00.000Z', ...columns(1, 5, 5, 5) },
  ])
})

test('without groups and windows there is one row, also of no items', async () => {
  const search =
    'aggregate=count,sum(data.temperature),count(mac),stddev(data.temperature),max(mac),delta(data.temperature)'
  const row = (count: number, sum: number | null, macs: number, others: readonly JsonValue[]) => ({
    count,
    'sum(data.temperature)': sum,
    'count(mac)': macs,
    'stddev(data.temperature)': others[0],
    'max(mac)': others[1],
    'delta(data.temperature)': others[2],
  })
  assert.deepEqual(await rowsOf(READINGS, 'aggregate=count,sum(data.temperature)'), [
    { count: 6, 'sum(data.temperature)': 173 },
  ])
  assert.deepEqual(await rowsOf(READINGS, `${search}&mac=none`), [row(0, null, 0, [null, null, null])])
  assert.deepEqual(await rowsOf([], search), [row(0, null, 0, [null, null, null])])
  assert.deepEqual(await rowsOf(READINGS, `${search}&mac=none&groupBy=mac`), [])
  assert.deepEqual(await rowsOf(READINGS, `${search}&mac=none&window=1h`), [])
  assert.deepEqual(await rowsOf([], 'distinct=mac'), [])
})

test('first and last are the values of the earliest and the latest item, in any order of arrival', async () => {
  const search = 'aggregate=first(data.temperature),last(data.temperature)&groupBy=mac'
  assert.deepEqual(await rowsOf([...READINGS].reverse(), search), [
    { mac: 'a', 'first(data.temperature)': 20, 'last(data.temperature)': 26 },
    { mac: 'b', 'first(data.temperature)': 5, 'last(data.temperature)': 5 },
  ])
})

test('percentiles are exact, interpolated between two numbers', async () => {
  const items = [4, 1, 3, 2, 'x', null].map((n) => ({ n }))
  assert.deepEqual(await rowsOf(items, 'aggregate=p0(n),p50(n),p75(n),p100(n)'), [
    { 'p0(n)': 1, 'p50(n)': 2.5, 'p75(n)': 3.25, 'p100(n)': 4 },
  ])
  const hundred = Array.from({ length: 101 }, (_, n) => ({ n }))
  assert.deepEqual(await rowsOf(hundred, 'aggregate=p29(n),p57(n)'), [{ 'p29(n)': 29, 'p57(n)': 57 }])
})

test('the standard deviation is that of a sample, also of large numbers that hardly differ', async () => {
  const of = async (...numbers: readonly JsonValue[]) => {
    const [row] = (await rowsOf([{ n: numbers }], 'aggregate=stddev(n) as s')) as { readonly s: number | null }[]
    return row?.s
  }
  assert.equal(await of(2, 4, 4, 4, 5, 5, 7, 9), Math.sqrt(32 / 7))
  assert.equal(await of(1e15, 1e15 + 1, 1e15 + 2), 1)
  assert.equal(await of(0.1, 0.1, 0.1), 0)
  assert.equal(await of(-1.5, 'x', true, 1.5), Math.sqrt(4.5))
  assert.equal(await of(7), null)
  assert.equal(await of('x', null), null)
})

test('count of a field is the number of its values that are not null, in lists of each', async () => {
  const items = [{ n: 1 }, { n: null }, {}, { n: 'x' }, { n: [true, null, [2]] }, { n: { m: 1 } }]
  assert.deepEqual(await rowsOf(items, 'aggregate=count,count(n),count(n.m),count(nothing)'), [
    { count: 6, 'count(n)': 4, 'count(n.m)': 1, 'count(nothing)': 0 },
  ])
})

/** Readings of two meters in no order; that of `a` restarts at 0 after 03:00. */
const METERS: readonly JsonObject[] = [
  { mac: 'a', timestamp: '2026-01-01T03:50:00', n: 4 },
  { mac: 'a', timestamp: '2026-01-01T00:10:00', n: 100 },
  { mac: 'b', timestamp: '2026-01-01T00:15:00', n: 7 },
  { mac: 'a', timestamp: '2026-01-01T00:40:00', n: 103 },
  { mac: 'a', timestamp: '2026-01-01T03:00:00', n: 110.5 },
  { mac: 'a', timestamp: '2026-01-01T01:20:00', n: 'broken' },
  { mac: 'a', timestamp: '2026-01-01T03:10:00', n: 1 },
  { mac: 'b', timestamp: '2026-01-01T03:15:00', n: 7 },
]

test('delta is the increase of a counter between readings in the order of event time, also after a restart', async () => {
  assert.deepEqual(await rowsOf(METERS, 'aggregate=delta(n)&groupBy=mac'), [
    { mac: 'a', 'delta(n)': 14.5 },
    { mac: 'b', 'delta(n)': 0 },
  ])
  assert.deepEqual(await rowsOf(METERS, 'aggregate=delta(n)&mac=a&timestamp_lt=2026-01-01T00:30'), [
    { 'delta(n)': null },
  ])
  const places = [5, 8, 2, 3].map((n) => ({ n }))
  assert.deepEqual(
    await rowsOf(places, 'aggregate=delta(n)'),
    [{ 'delta(n)': null }],
    'without times there is no order',
  )
  const same = [5, 8, 2, 3].map((n) => ({ n, timestamp: '2026-01-01' }))
  assert.deepEqual(await rowsOf(same, 'aggregate=delta(n)'), [{ 'delta(n)': 6 }], 'of equal times, by place')
  const many = Array.from({ length: 10_000 }, (_, n) => ({
    n: ((n * 4001) % 10_000) / 10,
    timestamp: (n * 4001) % 10_000,
  }))
  assert.deepEqual(await rowsOf(many, 'aggregate=delta(n)'), [{ 'delta(n)': 999.9 }])
})

test('the increase between two windows is that of the window with the later reading', async () => {
  const rows = async (search: string) => {
    const found = (await rowsOf(METERS, `aggregate=delta(n) as d&groupBy=mac&window=1h&${search}`)) as {
      readonly window: string
      readonly mac: string
      readonly d: number | null
    }[]
    return found.map(({ mac, window, d }) => [mac, window.slice(11, 16), d])
  }
  const windows = [
    ['a', '00:00', 3],
    ['a', '01:00', null],
    ['a', '03:00', 11.5],
    ['b', '00:00', null],
    ['b', '03:00', 0],
  ]
  assert.deepEqual(await rows(''), windows)
  assert.deepEqual(await rows('fill=null&mac=a'), [...windows.slice(0, 2), ['a', '02:00', null], windows[2]])
})

test('a column has the name of its alias, by which rows are sorted', async () => {
  const search =
    'aggregate=count AS readings,max(data.temperature)+as+highest,p50(data.temperature) as t.p50&groupBy=mac'
  const rows = [
    { mac: 'a', readings: 4, highest: 26, 't.p50': 22 },
    { mac: 'b', readings: 2, highest: 100, 't.p50': 52.5 },
  ]
  assert.deepEqual(await rowsOf(READINGS, search), rows)
  for (const column of ['highest', 't.p50'])
    assert.deepEqual(await rowsOf(READINGS, `${search}&sort=-${column}`), [...rows].reverse())
  assert.deepEqual(await rowsOf(READINGS, 'aggregate=count as __proto__'), [JSON.parse('{"__proto__":6}')])
  const both = 'aggregate=max(data.temperature),%20max(data.temperature) as max&mac=b'
  assert.deepEqual(await rowsOf(READINGS, both), [{ 'max(data.temperature)': 100, max: 100 }])
})

test('values that are no numbers are ignored, and a result of none is null', async () => {
  const items = [{ n: 'x' }, { n: [1, 2, { m: 3 }] }, { n: null }, { n: true }, {}]
  assert.deepEqual(await rowsOf(items, 'aggregate=count,sum(n),avg(n),max(n),sum(m)'), [
    { count: 5, 'sum(n)': 3, 'avg(n)': 1.5, 'max(n)': 2, 'sum(m)': null },
  ])
  assert.deepEqual(await rowsOf([{ n: 'b' }, { n: 'a' }], 'aggregate=min(n),max(n),sum(n)'), [
    { 'min(n)': 'a', 'max(n)': 'b', 'sum(n)': null },
  ])
})

test('empty windows are omitted, included, or filled with the previous values', async () => {
  const search = 'aggregate=count,max(data.temperature)&window=1h&mac=a'
  const filled = (temperature: number | null) => [
    { window: '2026-01-01T00:00:00.000Z', count: 3, 'max(data.temperature)': 22 },
    { window: '2026-01-01T01:00:00.000Z', count: 0, 'max(data.temperature)': temperature },
    { window: '2026-01-01T02:00:00.000Z', count: 0, 'max(data.temperature)': temperature },
    { window: '2026-01-01T03:00:00.000Z', count: 1, 'max(data.temperature)': 26 },
  ]
  assert.deepEqual(await rowsOf(READINGS, `${search}&fill=null`), filled(null))
  assert.deepEqual(await rowsOf(READINGS, `${search}&fill=previous`), filled(22))
  const [first, , , last] = filled(null)
  assert.deepEqual(await rowsOf(READINGS, search), [first, last])
})

test('empty windows are filled from the beginning to the end of the range of event times', async () => {
  const hours = async (search: string) => {
    const rows = await rowsOf(READINGS, `aggregate=count,max(data.temperature) as t&window=1h&fill=null&${search}`)
    return (rows as { window: string; count: number }[]).map(({ window, count }) => `${window.slice(8, 13)} ${count}`)
  }
  const until4 = ['01T00 4', '01T01 0', '01T02 0', '01T03 1']
  const range = 'timestamp_gte=2025-12-31T22:00:00Z&timestamp_lt=2026-01-01T04:00:00Z'
  assert.deepEqual(await hours(range), ['31T22 0', '31T23 0', ...until4])
  assert.deepEqual(await hours('timestamp_gt=2025-12-31T23:59&timestamp_lte=2026-01-01T04:00'), [
    '31T23 0',
    ...until4,
    '01T04 0',
  ])
  assert.deepEqual(await hours('timestamp_lt=2026-01-01T04:00:00.000001Z'), [...until4, '01T04 0'])
  assert.deepEqual(await hours('timestamp_gte=2025-12-31T23:00:00Z'), ['31T23 0', ...until4])
  assert.deepEqual(await hours('timestamp_lt=1767232800&timestamp_gte=1767225600000'), ['01T00 4', '01T01 0'])
  assert.deepEqual(await hours(`${range}&timestamp_gt=2026-01-01T02:30Z&mac=b`), ['01T02 0', '01T03 0'])
  assert.deepEqual(await hours('timestamp_gte=2026-01-01T00:50Z&timestamp_lt=2026-01-01T00:10Z'), [])
  assert.deepEqual(await hours('mac=none&timestamp_gte=2026-01-01'), [])
  assert.deepEqual(await hours(`mac=none&groupBy=mac&${range}`), [])
  const previous = await rowsOf(READINGS, `aggregate=max(data.temperature) as t&window=2h&fill=previous&mac=b&${range}`)
  assert.deepEqual(
    (previous as { t: number | null }[]).map(({ t }) => t),
    [null, 5, 5],
  )
})

test('a day is one of the time zone, also when the clock changes', async () => {
  // In Helsinki 2026-03-29 has 23 hours and 2026-10-25 has 25.
  const hourly = (from: string, hours: number) =>
    Array.from({ length: hours }, (_, n) => ({ timestamp: Date.parse(from) + n * 3_600_000 }))
  const days = 'aggregate=count&window=1d&tz=Europe/Helsinki'
  assert.deepEqual(await rowsOf(hourly('2026-03-27T22:00:00Z', 24 + 23 + 24), days), [
    { window: '2026-03-28T00:00:00.000+02:00', count: 24 },
    { window: '2026-03-29T00:00:00.000+02:00', count: 23 },
    { window: '2026-03-30T00:00:00.000+03:00', count: 24 },
  ])
  assert.deepEqual(await rowsOf(hourly('2026-10-24T21:00:00Z', 25 + 24), days), [
    { window: '2026-10-25T00:00:00.000+03:00', count: 25 },
    { window: '2026-10-26T00:00:00.000+02:00', count: 24 },
  ])
  assert.deepEqual(await rowsOf(hourly('2026-10-25T00:00:00Z', 3), 'aggregate=count&window=1h&tz=Europe/Helsinki'), [
    { window: '2026-10-25T03:00:00.000+03:00', count: 1 },
    { window: '2026-10-25T03:00:00.000+02:00', count: 1 },
    { window: '2026-10-25T04:00:00.000+02:00', count: 1 },
  ])
})

test('a day is one of the time zone, also when the clock skips its last hour', async () => {
  // In Greenland the clock goes from 23:00 on Saturday to 0:00 on Sunday.
  const items = [27, 28, 29].map((day) => ({ timestamp: `2026-03-${day}T12:00:00` }))
  assert.deepEqual(await rowsOf(items, 'aggregate=count&window=1d&tz=America/Nuuk'), [
    { window: '2026-03-27T00:00:00.000-02:00', count: 1 },
    { window: '2026-03-28T00:00:00.000-02:00', count: 1 },
    { window: '2026-03-29T00:00:00.000-01:00', count: 1 },
  ])
})

test('windows of hours follow each other around changes of the clock, without gaps and overlaps', async () => {
  const counts = async (from: string, window: string) => {
    const items = Array.from({ length: 24 }, (_, n) => ({ timestamp: Date.parse(from) + n * 1_800_000 }))
    const rows = await rowsOf(items, `aggregate=count&window=${window}&tz=Europe/Helsinki&fill=null`)
    return (rows as { window: string; count: number }[]).map((row) => [row.window.slice(11, 16), row.count])
  }
  // From midnight in Helsinki: from 4:00 the clock is set back to 3:00, and from 3:00 on to 4:00.
  assert.deepEqual(await counts('2026-10-24T21:00:00Z', '2h'), [
    ['00:00', 4],
    ['02:00', 6],
    ['04:00', 4],
    ['06:00', 4],
    ['08:00', 4],
    ['10:00', 2],
  ])
  assert.deepEqual(await counts('2026-03-28T22:00:00Z', '3h'), [
    ['00:00', 6],
    ['04:00', 4],
    ['06:00', 6],
    ['09:00', 6],
    ['12:00', 2],
  ])
  assert.deepEqual(await counts('2026-10-24T21:00:00Z', '6h'), [
    ['00:00', 14],
    ['06:00', 10],
  ])
})

test('a window longer than the shift is one row when the clock is set back to before its border', async () => {
  const rows = async (from: string, search: string) => {
    const items = Array.from({ length: 12 }, (_, n) => ({ timestamp: Date.parse(from) + n * 1_800_000 }))
    const found = await rowsOf(items, `aggregate=count&${search}`)
    return (found as { window: string; count: number }[]).map(({ window, count }) => [
      window.replace(':00.000', ''),
      count,
    ])
  }
  assert.deepEqual(await rows('2026-10-24T22:00:00Z', 'window=2h&tz=Europe/Berlin'), [
    ['2026-10-25T00:00+02:00', 4],
    ['2026-10-25T02:00+02:00', 6],
    ['2026-10-25T04:00+01:00', 2],
  ])
  assert.deepEqual(await rows('2026-10-24T23:00:00Z', 'window=3h&tz=Europe/Helsinki'), [
    ['2026-10-25T00:00+03:00', 2],
    ['2026-10-25T03:00+03:00', 8],
    ['2026-10-25T06:00+02:00', 2],
  ])
  // In the Azores the clock is set back from 1:00 to 0:00.
  assert.deepEqual(await rows('2026-10-24T22:00:00Z', 'window=24h&tz=Atlantic/Azores'), [
    ['2026-10-24T00:00+00:00', 4],
    ['2026-10-25T00:00+00:00', 8],
  ])
  assert.deepEqual(await rows('2026-10-24T22:00:00Z', 'window=90m&tz=Europe/Berlin'), [
    ['2026-10-25T00:00+02:00', 3],
    ['2026-10-25T01:30+02:00', 5],
    ['2026-10-25T03:00+01:00', 3],
    ['2026-10-25T04:30+01:00', 1],
  ])
  // On Lord Howe Island it is set back by half an hour, from 2:00 to 1:30.
  assert.deepEqual((await rows('2026-04-04T13:30:00Z', 'window=45m&tz=Australia/Lord_Howe')).slice(0, 4), [
    ['2026-04-05T00:00+11:00', 1],
    ['2026-04-05T00:45+11:00', 1],
    ['2026-04-05T01:30+11:00', 3],
    ['2026-04-05T02:15+10:30', 1],
  ])
  assert.deepEqual((await rows('2026-04-04T14:30:00Z', 'window=30m&tz=Australia/Lord_Howe')).slice(0, 3), [
    ['2026-04-05T01:30+11:00', 1],
    ['2026-04-05T01:30+10:30', 1],
    ['2026-04-05T02:00+10:30', 1],
  ])
})

const ODD_CHANGES = [
  ['Europe/Berlin', '2026-10-25'],
  ['Europe/Helsinki', '2026-03-29'],
  ['Atlantic/Azores', '2026-10-25'],
  ['America/Havana', '2026-11-01'],
  ['America/Sao_Paulo', '2017-10-15'],
  ['America/Sao_Paulo', '2018-02-18'],
  ['America/Scoresbysund', '2023-10-29'],
  ['Antarctica/Troll', '2026-03-29'],
  ['Antarctica/Troll', '2026-10-25'],
  ['Asia/Beirut', '2026-10-25'],
  ['Australia/Lord_Howe', '2026-04-05'],
  ['Pacific/Apia', '2011-12-30'],
  ['America/Juneau', '1867-10-18'],
] as const
const LENGTHS = { '15m': 15, '45m': 45, '1h': 60, '90m': 90, '2h': 120, '5h': 300, '24h': 1440, '1d': 1440, '2d': 2880 }
const MINUTE = 60_000

test('each instant is in one window, windows follow each other, and those longer than the shift begin once', () => {
  for (const [tz, change] of ODD_CHANGES) {
    const zone = IANAZone.create(tz)
    const instants = Array.from({ length: 6 * 96 }, (_, n) => Date.parse(change) - 72 * 60 * MINUTE + n * 15 * MINUTE)
    const locals = instants.map((at) => at + zone.offset(at) * MINUTE)
    const shift = Math.max(...locals.map((local, index) => (locals[index - 1] ?? local) - local)) + 15 * MINUTE
    for (const [length, minutes] of Object.entries(LENGTHS)) {
      const window = parseWindow(length, tz)
      const other = parseWindow(length, tz)
      let highest = Number.NEGATIVE_INFINITY
      let last: { readonly number: number; readonly start: number } | undefined
      for (const [index, at] of instants.entries()) {
        const start = window.start(at)
        const until = window.until(at)
        const message = `${length} ${tz} ${new Date(at).toISOString()}`
        assert.ok(start <= at && at < until, message)
        assert.deepEqual(
          [other.start(until), other.start(until - 1), other.until(start)],
          [until, start, until],
          message,
        )
        highest = Math.max(highest, locals[index] as number)
        // A window of the local clock begins when the clock first reaches it.
        const number = Math.floor(highest / (minutes * MINUTE))
        if (minutes * MINUTE > shift && last) assert.equal(number !== last.number, start !== last.start, message)
        last = { number, start }
      }
    }
  }
})

test('windows of months and years begin on their first day, in UTC and in a time zone', async () => {
  const timestamps = ['2025-12-31T23:30:00Z', '2026-01-31T22:30:00Z', '2026-02-28T23:00:00Z', '2026-03-31T21:00:00Z']
  const windows = async (search: string) => {
    const items = timestamps.map((timestamp) => ({ timestamp }))
    const rows = (await rowsOf(items, `aggregate=count&${search}`)) as { window: string; count: number }[]
    return rows.map(({ window, count }) => [window.replace('T00:00:00.000', ' '), count])
  }
  assert.deepEqual(await windows('window=1mo'), [
    ['2025-12-01 Z', 1],
    ['2026-01-01 Z', 1],
    ['2026-02-01 Z', 1],
    ['2026-03-01 Z', 1],
  ])
  assert.deepEqual(await windows('window=1mo&tz=Europe/Helsinki'), [
    ['2026-01-01 +02:00', 1],
    ['2026-02-01 +02:00', 1],
    ['2026-03-01 +02:00', 1],
    ['2026-04-01 +03:00', 1],
  ])
  assert.deepEqual(await windows('window=3mo&tz=Europe/Helsinki'), [
    ['2026-01-01 +02:00', 3],
    ['2026-04-01 +03:00', 1],
  ])
  assert.deepEqual(await windows('window=1y'), [
    ['2025-01-01 Z', 1],
    ['2026-01-01 Z', 3],
  ])
  assert.deepEqual(await windows('window=1y&tz=America/New_York&fill=null'), [
    ['2025-01-01 -05:00', 1],
    ['2026-01-01 -05:00', 3],
  ])
  assert.equal(parseWindow('1000y').text(parseWindow('1000y').start(-3e15)), '-094030-01-01T00:00:00.000Z')
})

test('a time zone may be an offset, whose plus sign may have become a space', async () => {
  const items = [{ timestamp: '2026-01-01T21:45:00Z' }, { timestamp: '2026-01-01T22:15:00Z' }]
  const days = [
    { window: '2026-01-01T00:00:00.000+02:00', count: 1 },
    { window: '2026-01-02T00:00:00.000+02:00', count: 1 },
  ]
  for (const tz of ['+02:00', '%2B02:00', '+0200', '%2B02']) {
    assert.deepEqual(await rowsOf(items, `aggregate=count&window=1d&tz=${tz}`), days, tz)
  }
  assert.deepEqual(await rowsOf(items, 'aggregate=count&window=1mo&tz=-03:30'), [
    { window: '2026-01-01T00:00:00.000-03:30', count: 2 },
  ])
  assert.deepEqual(await rowsOf(items, 'aggregate=count&window=1h&tz=%2B00:00'), [
    { window: '2026-01-01T21:00:00.000Z', count: 1 },
    { window: '2026-01-01T22:00:00.000Z', count: 1 },
  ])
})

test('an hour starts with the local clock in zones with half hours, and a week on Monday', async () => {
  const items = [{ timestamp: '2026-01-01T00:15:00Z' }, { timestamp: '2026-01-01T00:45:00Z' }]
  assert.deepEqual(await rowsOf(items, 'aggregate=count&window=1h&tz=Asia/Kolkata'), [
    { window: '2026-01-01T05:00:00.000+05:30', count: 1 },
    { window: '2026-01-01T06:00:00.000+05:30', count: 1 },
  ])
  for (const tz of ['', '&tz=UTC', '&tz=Etc/UTC']) {
    const [row] = (await rowsOf(items, `aggregate=count&window=1w${tz}`)) as { readonly window: string }[]
    assert.equal(Date.parse(row?.window ?? ''), Date.parse('2025-12-29T00:00:00Z'), tz)
  }
})

test('a time zone in another spelling is the same one, and takes no memory of its own', (t) => {
  const create = t.mock.method(IANAZone, 'create')
  const start = Date.parse('2026-01-01T00:00:00Z')
  for (const zone of ['Europe/Helsinki', 'europe/helsinki', 'EUROPE/HelsinkI']) {
    assert.equal(parseWindow('1h', zone).text(start), '2026-01-01T02:00:00.000+02:00')
  }
  assert.deepEqual([...new Set(create.mock.calls.map(({ arguments: [name] }) => name))], ['Europe/Helsinki'])
})

test('event times are ISO 8601 with or without a zone, seconds, or milliseconds', async () => {
  const items = ['2026-01-01T12:00:00', '2026-01-01T14:00:00+02:00', 1_767_268_800, 1_767_268_800_000, 'soon', null]
  assert.deepEqual(
    await rowsOf(
      items.map((timestamp) => ({ timestamp })),
      'aggregate=count&window=1m',
    ),
    [{ window: '2026-01-01T12:00:00.000Z', count: 4 }],
  )
})

test('the distinct values of a field are listed in order', async () => {
  const items = ['b', 'a', 10, 9, 'b', null, 9].map((n) => ({ n }))
  assert.deepEqual(await rowsOf([...items, {}], 'distinct=n'), [null, 9, 10, 'a', 'b'])
})

test('a group or a distinct value is of any field, also of one named __proto__, which no item has', async () => {
  assert.deepEqual(await rowsOf(READINGS, 'distinct=__proto__'), [null])
  const search = 'aggregate=count&groupBy=__proto__&sort=__proto__'
  assert.deepEqual(await rowsOf(READINGS, search), [JSON.parse('{"__proto__":null,"count":6}')])
})

test('the newest item of each sensor is found by event time, with late and repeated readings', async () => {
  const late = { mac: 'b', timestamp: '2025-12-31T00:00:00', late: true }
  const found = (await rowsOf([...READINGS, late], 'newestBy=mac&fields=id,mac,timestamp')) as JsonValue[]
  assert.deepEqual(found, [
    { id: 3, mac: 'a', timestamp: '2026-01-01T03:00:00' },
    { id: 1, mac: 'b', timestamp: '2026-01-01T00:20:00' },
  ])
  assert.deepEqual(await rowsOf(READINGS, 'newestBy=mac&mac=b&fields=id'), [{ id: 1 }])
})

test('rows are sorted by their columns and paged', async () => {
  const writer = collectionOf(READINGS)
  const page = await ask(writer, 'aggregate=count&groupBy=mac&sort=-count&page=2&pageSize=1')
  assert.deepEqual(page, { rows: [{ mac: 'b', count: 2 }], total: 2 })
})

const REFUSED: Readonly<Record<string, RegExp>> = {
  'aggregate=': /is empty/,
  'aggregate=median(n)': /not known. Possible are count, avg\(field\)/,
  'aggregate=p101(n)': /not known/,
  'aggregate=avg': /avg\(data.temperature\)/,
  'aggregate=count()': /count needs a field/,
  'aggregate=count,count': /column "count", and another column has that name; name it otherwise, as in max\(field\) as/,
  'aggregate=max(n),min(n) as max(n)': /column "max\(n\)", and another/,
  'aggregate=max(n) as window&window=1h': /column "window", and another/,
  'aggregate=count as mac&groupBy=mac': /field "mac", and another column/,
  'aggregate=count&groupBy=mac,mac': /field "mac", and another column/,
  'aggregate=max(n) as ': /not known/,
  'aggregate=max(n) highest': /not known/,
  'aggregate=max(n) as highest&sort=max(n)': /have no column "max\(n\)"; they have highest/,
  'aggregate=count&window=1s&fill=null&timestamp_gte=2026-01-01T00:00&timestamp_lt=2026-01-01T01:00':
    /more than 1000 rows/,
  'aggregate=count&window=soon': /15m, 1h or 1d/,
  'aggregate=count&window=0h': /15m, 1h or 1d/,
  'aggregate=count&window=1month': /mo or y/,
  'aggregate=count&window=1001y': /at most 1000 years/,
  'aggregate=count&window=1h&tz=Mars': /Europe\/Helsinki, UTC or \+02:00/,
  'aggregate=count&window=1h&tz=-24:00': /Europe\/Helsinki/,
  'aggregate=count&window=1h&tz=%2B2': /Europe\/Helsinki/,
  'aggregate=count&groupBy=mac,count': /field "count", and another column has that name/,
  'aggregate=count&groupBy=window&window=1h': /field "window", and another column/,
  'aggregate=count&tz=UTC': /needs window/,
  'aggregate=count&window=25h&tz=Europe/Helsinki': /of d, w, mo or y, for example 2d/,
  'aggregate=count&window=1h&fill=zero': /none, null, previous/,
  'aggregate=count&aggregate=count': /given once/,
  'aggregate=count&fields=n': /for items/,
  'groupBy=mac': /needs aggregate/,
  'distinct=': /needs a field/,
  'distinct=mac&groupBy=mac': /cannot be combined with groupBy/,
  'newestBy=mac&sort=mac': /cannot be combined with sort/,
  'aggregate=count&sort=-n': /have no column "n"; they have count/,
  'aggregate=count&window=1s&fill=null': /more than 1000 rows/,
}

for (const [search, expected] of Object.entries(REFUSED)) {
  test(`${search} is rejected with a correction`, async () => {
    await assert.rejects(
      async () => rowsOf(READINGS, search),
      (error) => {
        assert.ok(error instanceof Refusal)
        assert.equal(error.code, 'Invalid')
        assert.match(error.message, expected)
        return true
      },
    )
  })
}

test('a hundred thousand numbers have exact percentiles, and sorting them yields to the event loop', async () => {
  const count = 100_000
  // A step that has no divisor in common with their number brings each of them once, in no order.
  const items = Array.from({ length: 100 }, (_, index) => ({
    n: Array.from({ length: count / 100 }, (_, at) => ((index * (count / 100) + at) * 38_501) % count),
  }))
  assert.deepEqual(await rowsOf(items, 'aggregate=p25(n),p50(n),p99.9(n)'), [
    { 'p25(n)': 24_999.75, 'p50(n)': 49_999.5, 'p99.9(n)': 99_899.001 },
  ])
})

test('texts that would need too much memory are rejected', async () => {
  const items = Array.from({ length: 20 }, (_, n) => ({ text: `${n}${'x'.repeat(1_000_000)}` }))
  for (const search of ['aggregate=count&groupBy=text', 'distinct=text', 'aggregate=max(text)&groupBy=id']) {
    await assert.rejects(rowsOf(items, search), /too many long texts/)
  }
  assert.equal((await rowsOf(items, 'aggregate=max(text)')).length, 1)
})

test('a row of very long texts is rejected, as it is written at once', async () => {
  const items = [{ text: 'x'.repeat(1_000_000) }]
  const columns = (count: number): string => Array.from({ length: count }, (_, n) => `max(text) as m${n}`).join(',')
  assert.equal((await rowsOf(items, `aggregate=${columns(1)}`)).length, 1)
  await assert.rejects(rowsOf(items, `aggregate=${columns(2)}`), /more than 1048576 characters/)
})

test('rows are sorted by the first 1,024 characters of long texts, and are in the order of groups if these agree', async () => {
  const same = 'x'.repeat(1100)
  const items = ['b', 'a', 'c'].map((end, n) => ({ n, text: n === 2 ? `w${same}` : same + end }))
  const rows = await rowsOf(items, 'aggregate=max(text) as m&groupBy=n&sort=-m')
  assert.deepEqual(
    rows.map((row) => (row as JsonObject).n),
    [0, 1, 2],
  )
})

test('windows and the newest items need an event time field', () => {
  for (const search of ['aggregate=count&window=1h', 'newestBy=mac']) {
    assert.throws(() => parseQuery(parseParameters(search, 100), LIMITS), /Collections.<name>.Time/)
  }
})

/** Sums as anybody would write them. */
function naive(items: readonly JsonObject[], windowMs: number): JsonValue[] {
  interface Group {
    readonly mac: JsonValue
    readonly start: number
    readonly numbers: number[]
    readonly texts: string[]
    count: number
    values: number
    increase: number | null
  }
  const groups = new Map<string, Group>()
  for (const item of items) {
    const timestamp = item.timestamp as number
    const start = Math.floor(timestamp / windowMs) * windowMs
    const mac = item.mac ?? null
    const key = JSON.stringify([mac, start])
    const group = groups.get(key) ?? { mac, start, numbers: [], texts: [], count: 0, values: 0, increase: null }
    groups.set(key, group)
    group.count++
    if (typeof item.n === 'number') group.numbers.push(item.n)
    if (typeof item.n === 'string') group.texts.push(item.n)
    if (item.n !== null) group.values++
  }
  const counters = items.filter(({ n }) => typeof n === 'number') as { mac: JsonValue; n: number; timestamp: number }[]
  counters.sort((a, b) => a.timestamp - b.timestamp)
  const last = new Map<JsonValue, number>()
  for (const { mac, n, timestamp } of counters) {
    const group = groups.get(JSON.stringify([mac, Math.floor(timestamp / windowMs) * windowMs]))
    const before = last.get(mac)
    if (group && before !== undefined) group.increase = (group.increase ?? 0) + (n < before ? n : n - before)
    last.set(mac, n)
  }
  const order = [null, 'a', 'b']
  return [...groups.values()]
    .sort((a, b) => order.indexOf(a.mac as string) - order.indexOf(b.mac as string) || a.start - b.start)
    .map(({ mac, start, numbers, texts, count, values, increase }) => ({
      mac,
      window: new Date(start).toISOString(),
      count,
      'sum(n)': numbers.length > 0 ? numbers.reduce((a, b) => a + b) : null,
      'max(n)': numbers.length > 0 ? Math.max(...numbers) : (texts.at(-1) ?? null),
      'count(n)': values,
      'delta(n)': increase,
    }))
}

test('random readings give the result of a naive model, with an index and without', async () => {
  const reading = fc.record({
    mac: fc.constantFrom('a', 'b', null),
    n: fc.oneof(fc.integer({ min: -100, max: 100 }), fc.constantFrom(null, 'x', true)),
    timestamp: fc.integer({ min: 1_767_225_600_000, max: 1_767_225_600_000 + 86_400_000 }),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(reading, { maxLength: 60 }), fc.constantFrom(1, 6), async (items, hours) => {
      const search = `aggregate=count,sum(n),max(n),count(n),delta(n)&groupBy=mac&window=${hours}h`
      const writer = collectionOf(items)
      const expected = naive(items, hours * 3_600_000)
      assert.deepEqual((await ask(writer, search)).rows, expected)
      const ofA = naive(
        items.filter(({ mac }) => mac === 'a'),
        hours * 3_600_000,
      )
      assert.deepEqual((await ask(writer, `${search}&mac=a`)).rows, ofA)
      await writer.views.indexes.build(writer.collection.facts.table, writer.collection.name, [['mac'], TIME])
      assert.deepEqual((await ask(writer, `${search}&mac=a`)).rows, ofA)
    }),
    { seed: SEED, numRuns: 40 },
  )
})

test('aggregates take at most 20,000 values of one item together', async () => {
  const items = [{ n: Array.from({ length: 10_000 }, (_, index) => index) }]
  assert.deepEqual(await rowsOf(items, 'aggregate=count,max(n),count(n)'), [
    { count: 1, 'max(n)': 9999, 'count(n)': 10_000 },
  ])
  await assert.rejects(rowsOf(items, 'aggregate=max(n),count(n),p50(n)'), {
    code: 'Invalid',
    message: /more than 20000 values of one item/,
  })
})
