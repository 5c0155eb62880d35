import { randomFrom, SEED } from './readings.ts'

/** A reading of five values, of 150 to 230 bytes as JSON. */
export interface MinuteReading {
  readonly sensor: string
  readonly time: string
  readonly data: Readonly<Record<'temperature' | 'humidity' | 'pressure' | 'battery' | 'movement', number>>
}

export const MINUTE_MS = 60_000
export const DAY_MS = 24 * 60 * MINUTE_MS
/** The time of the first readings. */
export const FIRST_MS = Date.parse('2026-01-01T00:00:00Z')
/** Sensors report one after the other. */
const APART_MS = 100

export function sensorOf(sensor: number): string {
  return `d4:ca:6e:f1:00:${sensor.toString(16).padStart(2, '0')}`
}

/** The time of a reading, in milliseconds since 1970. `minute` counts from the first readings. */
export function timeOf(minute: number, sensor: number): number {
  return FIRST_MS + minute * MINUTE_MS + (sensor + 1) * APART_MS
}

/** The reading of a sensor in a minute; the same arguments, the same reading. */
export function minuteReading(minute: number, sensor: number): MinuteReading {
  const next = randomFrom(SEED + minute * 256 + sensor)
  const around = (middle: number, spread: number, digits: number): number =>
    Number((middle + (next() - 0.5) * spread).toFixed(digits))
  return {
    sensor: sensorOf(sensor),
    time: new Date(timeOf(minute, sensor)).toISOString(),
    data: {
      temperature: around(20 + 5 * Math.sin((minute / 1440) * 2 * Math.PI + sensor), 0.4, 2),
      humidity: around(40 + 10 * Math.cos((minute / 1440) * 2 * Math.PI + sensor), 1, 2),
      pressure: around(1013, 2, 1),
      battery: around(2900, 20, 0),
      movement: Math.floor(next() * 256),
    },
  }
}

/** The readings of so many sensors in each of these minutes. */
export function minuteReadings(minutes: readonly number[], sensors: number): readonly MinuteReading[] {
  return minutes.flatMap((minute) => Array.from({ length: sensors }, (_, sensor) => minuteReading(minute, sensor)))
}
