import assert from 'node:assert/strict'
import { test } from 'node:test'
import { byRequest, type Event, lineOf, type Names } from '../../wwwroot/pages/js/words.ts'

let position = 0

function event(type: Event['type'], collection: string, more: object = {}): Event {
  position++
  const time = '2026-11-20T12:00:00.000Z'
  return { position, journal: 'j', type, collection, time, actor: 'ada', requestId: 'one', ...more } as Event
}

const patched = (changes: readonly object[] | null, id: number | string = 1): Event =>
  event('ItemPatched', 'posts', { id, revision: 2, prior: 1, item: { id }, changes })

const words = (events: readonly Event[], names?: Names, skipped?: ReadonlyMap<number, number>) => {
  const [request] = byRequest(events, skipped)
  assert.ok(request)
  const { subject, before, after } = lineOf(request, names)
  return [subject, before, after].filter((one) => one !== undefined)
}

const NAMES: Names = {
  groupOf: (_, item) => (typeof item.mac === 'string' ? item.mac : undefined),
  nameOf: (group) => (group === 'K' ? 'Kitchen' : group),
  unitOf: (_, measure) => (measure === 'temperature' ? '°C' : ''),
}

test('neighbouring events of one request are one entry, unless somebody else sent the same id', () => {
  const events = [
    event('ItemDeleted', 'posts', { id: 3 }),
    event('ItemDeleted', 'posts', { id: 2 }),
    event('ItemDeleted', 'posts', { id: 1, actor: 'bo' }),
    event('ItemDeleted', 'posts', { id: 0, actor: 'bo', requestId: 'two' }),
  ]
  assert.deepEqual(
    byRequest(events).map((request) => request.events.length),
    [2, 1, 1],
  )
})

test('a change is told by its path and the values before and after', () => {
  assert.deepEqual(words([patched([{ path: '/data/temperature', before: 21.4, after: 21.6 }])]), [
    'posts/1 data.temperature',
    '21.4',
    '21.6',
  ])
  const two = [
    { path: '/a~1b', before: true },
    { path: '/c', after: 2 },
  ]
  assert.deepEqual(words([patched(two)]), ['posts/1 a/b and 1 more', 'true', 'nothing'])
  const withTime = [
    { path: '/at', before: '2026-11-20T12:00:00Z', after: '2026-11-20T12:01:00Z' },
    { path: '/n', before: 1, after: 2 },
  ]
  assert.deepEqual(words([patched(withTime)]), ['posts/1 n and 1 more', '1', '2'])
  assert.deepEqual(words([patched([])]), ['posts/1 changed, without a difference'])
  // The journal is damaged where the version before is.
  assert.deepEqual(words([patched(null)]), ['posts/1 changed'])
  assert.deepEqual(words([patched(null)], NAMES), ['posts/1 changed'])
})

test('long texts are shown from where they differ', () => {
  const beginning = 'Somebody showers, and the humidity in the whole house '
  const change = { path: '/text', before: `${beginning}dubles`, after: `${beginning}doubles` }
  assert.deepEqual(words([patched([change])]), ['posts/1 text', '…whole house dubles', '…whole house doubles'])
})

test('a new item and a deleted one are told by their titles', () => {
  const item = { id: 1, title: 'Hello' }
  const created = event('ItemCreated', 'posts', { id: 1, item, changes: [{ path: '', after: item }] })
  assert.deepEqual(words([created]), ['posts/1 created', '“Hello”'])
  const deleted = event('ItemDeleted', 'posts', { id: 1, changes: [{ path: '', before: item }] })
  assert.deepEqual(words([deleted]), ['posts/1 deleted', '“Hello”'])
  assert.deepEqual(words([created, event('CollectionCreated', 'posts')]), ['posts/1 created', '“Hello”'])
  assert.deepEqual(words([event('ObjectDeleted', 'profile', { id: '' })]), ['profile deleted'])
})

test('several items are counted, with those that were not read', () => {
  const events = [1, 2].map((id) => event('ItemCreated', 'posts', { id, item: { id } }))
  assert.deepEqual(words(events), ['posts: 2 items created'])
  const last = events[1]?.position ?? 0
  assert.deepEqual(words(events, undefined, new Map([[last, 1998]])), ['posts: 2,000 changes, items created'])
  const unknown = new Map([[last, Number.POSITIVE_INFINITY]])
  assert.deepEqual(words(events, undefined, unknown), ['posts: more than 2 changes, items created'])
  const mixed = [...events, event('ItemDeleted', 'comments', { id: 1 })]
  assert.deepEqual(words(mixed), ['comments, posts: 3 items changed'])
})

test('readings are told by the name of what measured, its measure and its unit', () => {
  const item = { mac: 'K', data: { temperature: 21.6 } }
  const created = event('ItemCreated', 'readings', { id: 1, item, changes: [{ path: '', after: item }] })
  assert.deepEqual(words([created], NAMES), ['Kitchen', '21.6 °C'])
  const changes = [{ path: '/data/temperature', before: 21.4, after: 21.6 }]
  const latest = event('ItemReplaced', 'sensors', { id: 'K', item, changes })
  assert.deepEqual(words([created, latest], NAMES), ['Kitchen', '21.4', '21.6 °C'])
  const other = event('ItemCreated', 'readings', {
    id: 2,
    item: { mac: 'B', data: { humidity: 40 } },
    changes: [{ path: '', after: {} }],
  })
  assert.deepEqual(words([created, other], NAMES), ['2 sensors reported'])
  assert.deepEqual(words([other], NAMES), ['B humidity', '40'])
})

test('text that is invisible or turns its direction is escaped in each part of a line', () => {
  const turned = event('ItemPatched', 'po\u202ests', {
    id: 'a\u202e',
    item: {},
    changes: [{ path: '/b\u202e', after: '\u202e' }],
  })
  assert.deepEqual(words([turned]), ['po\\u202ests/a\\u202e b\\u202e', 'nothing', '\\u202e'])
})

test('an expiry is told by the number of its items, or by the rule that it confirmed', () => {
  const run = { id: 0, count: 2, place: 0, revision: 1, position: 1, step: 1 }
  const runs = [run, { ...run, id: 7, count: 1 }]
  assert.deepEqual(words([event('ItemsExpired', 'readings', { rule: '90d', runs })]), ['readings: 3 items expired'])
  assert.deepEqual(words([event('ItemsExpired', 'readings', { rule: '90d', runs: [] })]), [
    'readings: the rule 90d was confirmed',
  ])
})
