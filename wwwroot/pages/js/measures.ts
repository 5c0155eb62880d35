// The parts of a sensor's item and of its readings: the time, the measurements, their units and limits.
import { millisecondsOf } from '../../../src/client/index.ts'
import { firstAt, formatPath, parsePath } from '../../../src/json/paths.ts'
import { isObject, type JsonObject, type JsonValue, own } from '../../../src/json/value.ts'
import { health } from './app.ts'

/** The collection whose items are the sensors themselves. */
export const SENSORS = 'sensors'
export const READINGS = 'sensordatas'

export type Item = JsonObject

export interface Measure {
  readonly name: string
  /** As aggregates and `fields` take it. */
  readonly path: string
}

/** A line in the charts: what is below the first or above the second of them is marked. */
export interface Limits {
  readonly low?: number | undefined
  readonly high?: number | undefined
}

const MAIN = 'temperature'
/** Members that describe the sensor. */
const OF_SENSOR = ['id', 'mac', 'name', 'units', 'order', 'thresholds', 'timestamp']
/** A battery with less is low. */
const LOW: Readonly<Record<string, number>> = { '%': 20, V: 2.5, mV: 2500 }

/** The field of the event time of the readings, where the server knows one. */
export function eventTimeField(): string | undefined {
  return health.value?.eventTime?.[READINGS]
}

/** The field that readings have their time in. */
export function timeField(): string {
  return eventTimeField() ?? 'timestamp'
}

/** The time in an item, in milliseconds since 1970; `field` may be a path. */
export function timeIn(item: Item, field: string): number | undefined {
  return millisecondsOf(firstAt(item, parsePath(field)))
}

/** With thousands of sensors reading the time of each takes a while. */
const times = new WeakMap<Item, number | undefined>()

/** When the reading in an item was measured, in milliseconds since 1970. */
export function timeOfReading(item: Item): number | undefined {
  if (!times.has(item)) times.set(item, timeIn(item, timeField()) ?? timeIn(item, 'timestamp'))
  return times.get(item)
}

/** The measurements of an item: the members of `data`, or those of the item itself. */
export function measured(item: Item): Item {
  if (isObject(item.data)) return item.data
  const others = [...OF_SENSOR, health.value?.idField, parsePath(timeField())[0]]
  return Object.fromEntries(Object.entries(item).filter(([name]) => !others.includes(name)))
}

/** The numbers in an item. The temperature comes first. */
export function measuresOf(item: Item): readonly Measure[] {
  const before = isObject(item.data) ? ['data'] : []
  return Object.entries(measured(item))
    .filter(([name, value]) => typeof value === 'number' && name !== '')
    .map(([name]) => ({ name, path: formatPath([...before, name]) }))
    .sort((a, b) => Number(b.name === MAIN) - Number(a.name === MAIN))
}

/** Without those that have the path of one before. */
export function distinct(measures: readonly Measure[]): readonly Measure[] {
  return [...new Map(measures.map((one) => [one.path, one])).values()]
}

/** The number that a tile shows first. */
export function mainValue(item: Item): number | undefined {
  const [main] = measuresOf(item)
  return main && (measured(item)[main.name] as number)
}

/** '' where the item says none. */
export function unitOf(item: Item | undefined, measure: string): string {
  const unit = isObject(item?.units) ? own(item.units, measure) : undefined
  return typeof unit === 'string' ? unit.slice(0, 12) : ''
}

export function limitsOf(item: Item | undefined, measure: string): Limits {
  const found = isObject(item?.thresholds) ? own(item.thresholds, measure) : undefined
  const { low, high } = isObject(found) ? found : {}
  return { low: numberOf(low), high: numberOf(high) }
}

export function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined
}

export function macOf(item: Item): JsonValue {
  return item.mac ?? item[health.value?.idField ?? 'id'] ?? null
}

export function nameOf(item: Item): JsonValue {
  return typeof item.name === 'string' && item.name !== '' ? item.name : macOf(item)
}

/**
 * Whether the battery is to be changed soon. Without a unit a number above 100 is in millivolts, others in percent.
 */
export function hasLowBattery(item: Item): boolean {
  const { battery } = measured(item)
  if (typeof battery !== 'number') return false
  const unit = unitOf(item, 'battery') || (battery > 100 ? 'mV' : '%')
  return Object.hasOwn(LOW, unit) && battery < (LOW[unit] as number)
}
