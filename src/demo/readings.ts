import type { JsonObject } from '../json/value.ts'
import { randomFrom } from '../runtime/random.ts'

export const MINUTE_MS = 60_000
export const HOUR_MS = 60 * MINUTE_MS
export const DAY_MS = 24 * HOUR_MS

/** The days of the past. */
export const DAYS = 14

/** The moment at which a home is made. Its past ends there. */
export interface Present {
  /** Milliseconds since 1970. */
  readonly ms: number
  /** The difference of the local time from UTC, in minutes. Rooms are warm in the afternoon of this time. */
  readonly zoneMinutes: number
}

/** Temperature in °C, relative humidity in %. */
interface Climate {
  readonly temperature: number
  readonly humidity: number
}

/** A sensor in a room, or outside. */
export interface Sensor {
  readonly mac: string
  readonly name: string
  /** The battery 14 days ago and at the present, in %. */
  readonly battery: readonly [from: number, to: number]
  /** The climate at an hour of the day, 0 to 24, by that outside. */
  climate(hour: number, outside: Climate): Climate
}

const OUTSIDE_MEAN = 3.5

/** In the order in which they are shown. */
export const SENSORS: readonly Sensor[] = [
  {
    mac: 'D4:2C:1E:8A:50:01',
    name: 'Kitchen',
    battery: [88, 83],
    climate: (hour, outside) => {
      const cooking = 0.6 * peak(hour, 7.4, 0.5) + 0.5 * peak(hour, 12.4, 0.6) + peak(hour, 18.3, 0.9)
      return {
        temperature: 19.4 + 1.1 * heating(hour) + 2.2 * cooking + 0.05 * (outside.temperature - OUTSIDE_MEAN),
        humidity: 39 + 11 * cooking,
      }
    },
  },
  {
    mac: 'D4:2C:1E:8A:50:02',
    name: 'Living room',
    battery: [76, 72],
    climate: (hour, outside) => ({
      temperature:
        19.1 + 1.9 * heating(hour) + 0.9 * peak(hour, 20.5, 1.8) + 0.06 * (outside.temperature - OUTSIDE_MEAN),
      humidity: 41 + 3.5 * peak(hour, 20.5, 2.2) - 1.5 * heating(hour),
    }),
  },
  {
    mac: 'D4:2C:1E:8A:50:03',
    name: 'Bedroom',
    battery: [64, 59],
    climate: (hour, outside) => ({
      // The window is open for a while in the morning.
      temperature:
        17.6 + 0.9 * peak(hour, 2.5, 4.5) - 2.1 * peak(hour, 8.3, 0.6) + 0.09 * (outside.temperature - OUTSIDE_MEAN),
      humidity: 45 + 9 * peak(hour, 4.5, 3.5) - 6 * peak(hour, 8.4, 0.8),
    }),
  },
  {
    mac: 'D4:2C:1E:8A:50:04',
    name: 'Bathroom',
    battery: [93, 90],
    climate: (hour) => {
      const showers = steam(hour, 6.9) + 0.4 * steam(hour, 21.6)
      return { temperature: 20.6 + 1.2 * heating(hour) + 1.9 * showers, humidity: 47 + 39 * showers }
    },
  },
  {
    mac: 'D4:2C:1E:8A:50:05',
    name: 'Outside',
    battery: [44, 14],
    climate: (_hour, outside) => outside,
  },
  {
    mac: 'D4:2C:1E:8A:50:06',
    name: 'Cellar',
    battery: [37, 33],
    climate: (_hour, outside) => ({
      temperature: 11.8 + 0.06 * (outside.temperature - OUTSIDE_MEAN),
      humidity: 69 + 0.08 * (outside.humidity - 80),
    }),
  },
]

/** The sensor that has been silent for two days. */
export const SILENT = 'Cellar'

export const UNITS: JsonObject = { temperature: '°C', humidity: '%', pressure: 'hPa', battery: '%' }

/**
 * The reading of a sensor at a time in milliseconds. It depends on the distance from the present and on the time of the
 * day, and not on the date.
 */
export function readingOf(sensor: Sensor, ms: number, present: Present): JsonObject {
  const hours = (ms - present.ms) / HOUR_MS
  const hour = hourOfDay(ms, present)
  // People are earlier on one day and later on another.
  const routine = hour + 0.6 * noise(ROUTINE, hours, 24)
  const { temperature, humidity } = sensor.climate(routine, outsideAt(hour, hours))
  const channel = FIRST_CHANNEL + 2 * SENSORS.indexOf(sensor)
  const [from, to] = sensor.battery
  return {
    mac: sensor.mac,
    timestamp: new Date(ms).toISOString(),
    data: {
      temperature: rounded(temperature + unrest(channel, hours, 0.25), 2),
      humidity: rounded(Math.min(99.5, humidity + unrest(channel + 1, hours, 1.2)), 2),
      pressure: rounded(1011 + 11 * noise(PRESSURE, hours, 52) + 2.5 * noise(PRESSURE + 1, hours, 13), 1),
      battery: Math.round(to + ((to - from) * hours) / (24 * DAYS)),
    },
  }
}

const PRESSURE = 1
const OUTSIDE = 3
const ROUTINE = 6
const FIRST_CHANNEL = 10

function outsideAt(hour: number, hours: number): Climate {
  const weather = 3.2 * noise(OUTSIDE, hours, 58) + 0.9 * noise(OUTSIDE + 2, hours, 3.5)
  const temperature = OUTSIDE_MEAN + weather + 4.2 * Math.cos(((hour - 14.5) / 24) * 2 * Math.PI)
  return { temperature, humidity: 80 - 3.1 * (temperature - OUTSIDE_MEAN) + 6 * noise(OUTSIDE + 1, hours, 21) }
}

/** The local hour, 0 to 24. */
function hourOfDay(ms: number, { zoneMinutes }: Present): number {
  return ((ms + zoneMinutes * MINUTE_MS) % DAY_MS) / HOUR_MS
}

/** The milliseconds of a local time, such as 19:40:12, on an earlier day. */
export function localTime(daysAgo: number, time: string, { ms, zoneMinutes }: Present): number {
  const zoneMs = zoneMinutes * MINUTE_MS
  const midnight = Math.floor((ms + zoneMs) / DAY_MS) * DAY_MS - zoneMs
  const [hours = 0, minutes = 0, seconds = 0] = time.split(':').map(Number)
  return midnight - daysAgo * DAY_MS + hours * HOUR_MS + minutes * MINUTE_MS + seconds * 1000
}

/** From 0 at night to 1 at day. */
function heating(hour: number): number {
  return step(hour - 6.2) - step(hour - 22.3)
}

function step(hours: number): number {
  return 1 / (1 + Math.exp(-2.6 * hours))
}

/** 1 at an hour of the day, and less around it: 0.37 after `width` hours. */
function peak(hour: number, at: number, width: number): number {
  return Math.exp(-((distance(hour, at) / width) ** 2))
}

/** Rises within minutes, and falls within two hours. */
function steam(hour: number, at: number): number {
  const since = distance(hour, at)
  return since < 0 ? Math.exp(-((since / 0.15) ** 2)) : Math.exp(-since / 0.7)
}

/** Hours from one hour of the day to the nearest other: -12 to 12. */
function distance(hour: number, from: number): number {
  return ((hour - from + 36) % 24) - 12
}

/** Changes of an hour, and small ones of half a minute, so that two live readings differ. */
function unrest(channel: number, hours: number, amplitude: number): number {
  return amplitude * (noise(channel, hours, 1.3) + 0.25 * noise(channel + CHANNELS, hours, 1 / 120))
}

const CHANNELS = 100

/** Smooth noise from -1 to 1: random numbers at multiples of a period, and curves between them. */
function noise(channel: number, hours: number, period: number): number {
  const at = hours / period
  const before = Math.floor(at)
  const share = at - before
  const [one, next] = [drawn(channel, before), drawn(channel, before + 1)]
  return 2 * (one + (next - one) * share * share * (3 - 2 * share)) - 1
}

const SEED = 40

/** A fixed random number from 0 to 1 for two integers. */
export function drawn(channel: number, index: number): number {
  return randomFrom(SEED ^ Math.imul(channel, 0x9e3779b1) ^ Math.imul(index, 0x85ebca6b))()
}

function rounded(value: number, digits: number): number {
  return Number(value.toFixed(digits))
}
