// The parts of a sensor's item: its name, the time of its reading, its measurements and their units.
import { millisecondsOf } from '../../client/index.js'
import { server } from './server.js'

export const SENSORS = 'sensors'
export const READINGS = 'sensordatas'

const MAIN = 'temperature'
/** Members that describe the sensor. */
const OF_SENSOR = ['mac', 'name', 'units', 'timestamp']
/** Smaller numbers are seconds since 1970, greater ones milliseconds. */
const LEAST_MILLISECONDS = 1e11
/** A battery with less is low. */
const LOW = { '%': 20, V: 2.5, mV: 2500 }

/** @param {any} value */
function isObject(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The field of the event time of the readings, where the server knows one. */
export function eventTimeField() {
  return server.eventTime[READINGS]
}

/** The field that readings have their time in. */
export function timeField() {
  return eventTimeField() ?? 'timestamp'
}

/** The names on the way to the time; a dot that belongs to a name has a backslash before it. */
function timePath() {
  const names = timeField().split(/(?<!\\)\./)
  return names.map((name) => name.replace(/\\([\\.,])/g, '$1'))
}

/** @param {any} item */
function timeValue(item) {
  let value = item
  for (const name of timePath()) value = value?.[name]
  return value ?? item?.timestamp
}

/**
 * When the reading in an item was measured, in milliseconds since 1970.
 * @param {any} item
 * @returns {number | undefined}
 */
export function timeOfReading(item) {
  return millisecondsOf(timeValue(item))
}

/**
 * An instant as a filter takes it: where the server knows no event time, as readings such as this one have it.
 * @param {number} ms
 * @param {any} item
 */
export function timeLike(ms, item) {
  const value = timeValue(item)
  if (eventTimeField() !== undefined || typeof value !== 'number') return new Date(ms).toISOString()
  return String(Math.abs(value) < LEAST_MILLISECONDS ? ms / 1000 : ms)
}

/**
 * The measurements of an item: the members of `data`, or those of the item itself.
 * @param {any} item
 * @returns {Record<string, unknown>}
 */
export function measured(item) {
  if (isObject(item.data)) return item.data
  const others = [...OF_SENSOR, server.idField, timePath()[0]]
  return Object.fromEntries(Object.entries(item).filter(([name]) => !others.includes(name)))
}

/**
 * The numbers that an item has, each with its path in the item.
 * @param {any} item
 * @returns {{ name: string, path: string }[]}
 */
export function numbersOf(item) {
  const before = isObject(item.data) ? 'data.' : ''
  return Object.entries(measured(item))
    .filter(([name, value]) => typeof value === 'number' && name !== '')
    .map(([name]) => ({ name, path: before + name.replace(/[\\.,]/g, '\\$&') }))
}

/**
 * The measurement that a tile shows first.
 * @param {any} item
 */
export function mainOf(item) {
  const all = numbersOf(item)
  return all.find(({ name }) => name === MAIN) ?? all[0]
}

/**
 * @param {any} item
 * @param {string} name of what is measured
 * @returns {string} '' where the item says none
 */
export function unitOf(item, name) {
  const unit = isObject(item?.units) && Object.hasOwn(item.units, name) ? item.units[name] : ''
  return typeof unit === 'string' ? unit.slice(0, 12) : ''
}

/** @param {any} item */
export function macOf(item) {
  return item.mac ?? item[server.idField]
}

/** @param {any} item */
export function nameOf(item) {
  return typeof item.name === 'string' && item.name !== '' ? item.name : macOf(item)
}

/**
 * Whether the battery is to be changed soon. Without a unit a number above 100 is in millivolts, others in percent.
 * @param {any} item
 */
export function hasLowBattery(item) {
  const { battery } = measured(item)
  if (typeof battery !== 'number') return false
  const unit = unitOf(item, 'battery') || (battery > 100 ? 'mV' : '%')
  return Object.hasOwn(LOW, unit) && battery < LOW[/** @type {keyof typeof LOW} */ (unit)]
}
