import { once } from 'node:events'
import { createWriteStream } from 'node:fs'

/** Readings as in data/sensors.json, of about 330 bytes; the same seed, the same readings. */
export type Reading = {
  readonly id: number
  readonly mac: string
  readonly data: Readonly<Record<string, number>>
  readonly timestamp: string
}

export const COLLECTION = 'readings'
export const SEED = 20261121
const FIRST_MS = Date.parse('2026-01-01T00:00:00Z')
const STEP_MS = 10_000
const MACS = Array.from({ length: 200 }, (_, index) => {
  const digits = Math.imul(index + 1, 0x9e3779b1) >>> 0
  return `F4:A5:${[24, 16, 8, 0].map((shift) => ((digits >>> shift) & 255).toString(16).padStart(2, '0').toUpperCase()).join(':')}`
})

/** mulberry32. */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

export function timestampOf(id: number): string {
  return `${new Date(FIRST_MS + id * STEP_MS).toISOString().slice(0, -1)}${String(id % 1000).padStart(3, '0')}`
}

/** The first `count` readings, in the order of their ids and times. */
export function* readings(count: number, seed = SEED): Generator<Reading> {
  const next = randomFrom(seed)
  const between = (low: number, high: number, digits: number) => Number((low + next() * (high - low)).toFixed(digits))
  for (let id = 0; id < count; id++) {
    yield {
      id,
      mac: MACS[Math.floor(next() * MACS.length)] as string,
      data: {
        humidity: between(30, 70, 2),
        temperature: between(15, 30, 2),
        pressure: between(990, 1030, 1),
        acceleration: between(1000, 1060, 1),
        acceleration_x: between(-100, 100, 0),
        acceleration_y: between(-100, 100, 0),
        acceleration_z: between(1000, 1060, 0),
        battery: between(2800, 3050, 0),
        movement_counter: between(0, 255, 0),
        measurement_sequence_number: id,
        tx_power: 4,
        rssi: between(-95, -40, 0),
      },
      timestamp: timestampOf(id),
    }
  }
}

/** Sensors that all report in the last day, a reading a minute each. */
export const SENSORS = 500
const DAY_MINUTES = 24 * 60
const MONTH_MINUTES = 30 * DAY_MINUTES
export const macOf = (sensor: number): string => `F4:A5:74:00:${[sensor >> 8, sensor & 255].map(hex).join(':')}`
const hex = (byte: number): string => byte.toString(16).padStart(2, '0').toUpperCase()

/** The instant of a minute of the month that `sensorReadings` are of. */
function minuteOf(minute: number): string {
  return new Date(FIRST_MS + minute * 60_000).toISOString()
}
export const LAST_DAY = minuteOf(MONTH_MINUTES - DAY_MINUTES)

/** The number of sensors that report all month, in a set of so many readings. */
export function reportingAllMonth(count: number): number {
  return Math.max(1, Math.ceil((count - reportingAtEnd(count) * DAY_MINUTES) / (MONTH_MINUTES - DAY_MINUTES)))
}

function reportingAtEnd(count: number): number {
  return Math.min(SENSORS, Math.max(2, Math.floor(count / 2000)))
}

/** The readings of a month: one a minute of each sensor, all of the last day, and of the days before only the first ones. */
export function* sensorReadings(count: number): Generator<Reading> {
  const next = randomFrom(SEED)
  const all = reportingAtEnd(count)
  const always = reportingAllMonth(count)
  for (let id = 0, minute = 0; id < count && minute < MONTH_MINUTES; minute++) {
    const reporting = minute < MONTH_MINUTES - DAY_MINUTES ? always : all
    for (let sensor = 0; sensor < reporting && id < count; sensor++, id++) {
      const temperature = Number((15 + next() * 15).toFixed(2))
      const data = {
        temperature,
        humidity: Math.floor(next() * 100),
        battery: 2800 + Math.floor(next() * 250),
        measurement_sequence_number: id,
      }
      const timestamp = new Date(FIRST_MS + minute * 60_000 + sensor * 100 + Math.floor(next() * 100)).toISOString()
      yield { id, mac: macOf(sensor), data, timestamp }
    }
  }
}

/** The request body of a client: a reading without an id. */
export function bodies(count: number): string[] {
  return Array.from(readings(count, SEED + 1), ({ id: _, ...body }) => JSON.stringify(body))
}

/** Writes texts one after another, never more of them in memory than the disk is behind. */
export async function writeTexts(path: string, texts: Iterable<string | Buffer>): Promise<void> {
  const out = createWriteStream(path, { highWaterMark: 1024 * 1024 })
  let gathered: (string | Buffer)[] = []
  let size = 0
  const flush = async () => {
    const bytes = Buffer.concat(gathered.map((text) => (typeof text === 'string' ? Buffer.from(text) : text)))
    gathered = []
    size = 0
    if (!out.write(bytes)) await once(out, 'drain')
  }
  for (const text of texts) {
    gathered.push(text)
    size += text.length
    if (size > 4 * 1024 * 1024) await flush()
  }
  await flush()
  out.end()
  await once(out, 'close')
}
