import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ItemSchemas } from '../../src/commands/item-schemas.ts'
import { pastOf } from '../../src/demo/past.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, type Present } from '../../src/demo/readings.ts'
import { rulesOf } from '../../src/engine/rules.ts'
import { positioned, type Recorded } from '../../src/events/journal.ts'
import { homeSettings } from '../support/home.ts'

const PRESENT: Present = { ms: Date.parse('2026-11-28T15:20:30.400Z'), zoneMinutes: 120 }

interface Data {
  readonly temperature: number
  readonly humidity: number
  readonly pressure: number
  readonly battery: number
}

interface Reading {
  /** Milliseconds before the present. */
  readonly ago: number
  /** The local hour of the day. */
  readonly hour: number
  readonly data: Data
}

async function past(present = PRESENT): Promise<readonly Recorded[]> {
  const rules = rulesOf(homeSettings('/home'), new ItemSchemas(), { now: () => new Date(present.ms) })
  const writes: Recorded[] = []
  for await (const write of pastOf(present, rules)) writes.push(write)
  return writes
}

const writes = await past()
const events = writes.flatMap((write) =>
  [...positioned(write)].map(([position, event]) => ({ ...write, position, event })),
)

/** The named sensors, as their first events have them. */
const sensors = events.flatMap(({ event }) =>
  event.type === 'ItemCreated' && event.collection === 'sensors' && 'name' in event.item.value
    ? [event.item.value as { mac: string; name: string; order: number; units: Record<string, string> }]
    : [],
)

const readings = new Map(sensors.map(({ mac, name }) => [mac, { name, all: [] as Reading[] }]))
for (const { event } of events) {
  if (event.type !== 'ItemCreated' || event.collection !== 'sensordatas') continue
  const { mac, timestamp, data } = event.item.value as unknown as { mac: string; timestamp: string; data: Data }
  const ms = Date.parse(timestamp)
  const hour = ((ms + PRESENT.zoneMinutes * MINUTE_MS) % DAY_MS) / HOUR_MS
  readings.get(mac)?.all.push({ ago: PRESENT.ms - ms, hour, data })
}

function of(wanted: string): readonly Reading[] {
  const found = [...readings.values()].find(({ name }) => name === wanted)
  assert.ok(found, wanted)
  return found.all
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length

test('the past of a home has at most 10,000 events within 14 days, which end now', () => {
  assert.ok(events.length > 9000 && events.length <= 10_000, `${events.length} events`)
  assert.deepEqual(
    events.map(({ position }) => position),
    events.map((_, index) => index + 1),
  )
  const times = writes.map(({ time }) => Date.parse(time))
  assert.equal(times[0], PRESENT.ms - 14 * DAY_MS)
  for (const [index, ms] of times.entries()) assert.ok(ms >= (times[index - 1] ?? 0), writes[index]?.time)
  const rest = PRESENT.ms - (times.at(-1) as number)
  assert.ok(rest >= 0 && rest < MINUTE_MS, `the last event is ${rest} ms ago`)
})

test('the past of a home is the same for the same present, and later only its dates differ', async () => {
  assert.deepEqual(await past(), writes)
  const days = 3
  const later = await past({ ...PRESENT, ms: PRESENT.ms + days * DAY_MS })
  const moved = JSON.stringify(later).replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, (time) =>
    new Date(Date.parse(time) - days * DAY_MS).toISOString(),
  )
  assert.equal(moved, JSON.stringify(writes))
})

test('six sensors have names, an order and units', () => {
  assert.deepEqual(
    sensors.map(({ name, order }) => [order, name]),
    ['Kitchen', 'Living room', 'Bedroom', 'Bathroom', 'Outside', 'Cellar'].map((name, index) => [index + 1, name]),
  )
  for (const { units } of sensors)
    assert.deepEqual(units, { temperature: '°C', humidity: '%', pressure: 'hPa', battery: '%' })
})

test('each sensor has a reading about every quarter of an hour, except in the gap of the bedroom and in the cellar', () => {
  for (const { name, all } of readings.values()) {
    assert.ok((all[0]?.ago ?? 0) > 13.9 * DAY_MS, name)
    const pauses = all.slice(1).map(({ ago }, index) => (all[index] as Reading).ago - ago)
    const longest = Math.max(...pauses)
    const median = pauses.sort((a, b) => a - b)[Math.floor(pauses.length / 2)] as number
    assert.ok(median > 14 * MINUTE_MS && median < 21 * MINUTE_MS, `${name}: ${median}`)
    if (name === 'Bedroom') assert.ok(longest > 4 * HOUR_MS && longest < 6 * HOUR_MS, `${longest}`)
    else assert.ok(longest < 22 * MINUTE_MS, `${name}: ${longest}`)
    const silence = all.at(-1)?.ago ?? 0
    if (name === 'Cellar') assert.ok(silence >= 2 * DAY_MS && silence < 2 * DAY_MS + HOUR_MS, `${silence}`)
    else assert.ok(silence < 15 * MINUTE_MS, `${name}: ${silence}`)
  }
})

test('the rooms have days: the outside is colder and varies more, and the bathroom is damp in the morning', () => {
  const temperatures = (name: string): readonly number[] => of(name).map(({ data }) => data.temperature)
  const span = (values: readonly number[]): number => Math.max(...values) - Math.min(...values)
  for (const room of ['Kitchen', 'Living room', 'Bedroom', 'Bathroom']) {
    assert.ok(mean(temperatures('Outside')) + 10 < mean(temperatures(room)), room)
    assert.ok(span(temperatures('Outside')) > 2 * span(temperatures(room)), room)
  }
  const between = (name: string, from: number, to: number): readonly Reading[] =>
    of(name).filter(({ hour }) => hour >= from && hour < to)
  const warmth = (from: number, to: number): number =>
    mean(between('Outside', from, to).map(({ data }) => data.temperature))
  assert.ok(warmth(13, 16) > warmth(1, 4) + 4)
  const damp = (from: number, to: number): number =>
    mean(between('Bathroom', from, to).map(({ data }) => data.humidity))
  assert.ok(damp(6.5, 8.5) > damp(12, 18) + 8)
  for (const { data } of of('Bathroom')) assert.ok(data.humidity > 30 && data.humidity < 100)
})

test('the pressure is the same in all rooms, and drifts', () => {
  const kitchen = of('Kitchen')
  for (const { ago, data } of of('Outside')) {
    const near = kitchen.find((other) => Math.abs(other.ago - ago) < 10 * MINUTE_MS)
    if (near) assert.ok(Math.abs(near.data.pressure - data.pressure) < 1, `${ago}`)
  }
  const all = kitchen.map(({ data }) => data.pressure)
  assert.ok(Math.max(...all) - Math.min(...all) > 8)
  for (const [index, value] of all.slice(1).entries()) assert.ok(Math.abs(value - (all[index] as number)) < 1.5)
})

test('only the battery of the sensor outside is low, and it falls', () => {
  for (const { name, all } of readings.values()) {
    const levels = all.map(({ data }) => data.battery)
    for (const [index, level] of levels.entries()) assert.ok(level <= (levels[index - 1] ?? 100), name)
    assert.equal((levels.at(-1) as number) < 20, name === 'Outside', name)
  }
})

test('two authors write, and a post that is deleted by mistake is back an hour later as it was', () => {
  const posts = events.filter(({ event }) => event.collection === 'posts')
  assert.deepEqual(new Set(posts.map(({ actor }) => actor)), new Set(['miranda', 'joonas']))
  assert.ok(posts.filter(({ event }) => event.type === 'ItemPatched').length > 5)
  const wrong = posts.find(({ event }) => event.type === 'ItemDeleted')
  assert.ok(wrong && 'id' in wrong.event)
  const { id } = wrong.event
  const ofPost = posts.filter(({ event }) => 'id' in event && event.id === id)
  const [before, deleted, restored] = ofPost.slice(ofPost.indexOf(wrong) - 1)
  assert.ok(before && deleted && restored && 'item' in before.event && 'item' in restored.event)
  assert.equal(restored.event.type, 'ItemCreated')
  assert.equal(restored.event.item.text, before.event.item.text)
  assert.equal(restored.event.prior, deleted.position)
  const hours = (Date.parse(restored.time) - Date.parse(deleted.time)) / HOUR_MS
  assert.ok(hours > 0.9 && hours < 1.2, `${hours}`)
  assert.ok(events.some(({ event }) => event.collection === 'comments' && event.type === 'ItemCreated'))
})

test('a seventh sensor is tried out, and its readings are deleted by one request', () => {
  const deletions = writes.filter(({ events }) => [...events].some(({ type }) => type === 'ItemDeleted'))
  const counts = deletions.map(({ events }) => [events.at(0)?.collection, events.length])
  assert.deepEqual(counts, [
    ['sensordatas', 4],
    ['sensors', 1],
    ['posts', 1],
  ])
})

test('each request has an id of its own, and several readings may share one', () => {
  assert.equal(new Set(writes.map(({ requestId }) => requestId)).size, writes.length)
  for (const { requestId } of writes)
    assert.match(requestId, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/)
  assert.equal(Math.max(...writes.map(({ events }) => events.length)), 6 * 3 + 1)
})
