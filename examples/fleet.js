#!/usr/bin/env node
// @ts-check
// A fleet of made-up sensors that sends its readings to a running server:
//
//     node examples/fleet.js --url http://localhost:57602 --sensors 50 --rate 2 --seconds 60
//
// A reading replaces the sensor's last one with PUT /api/sensors/<mac>, then joins all others with POST
// /api/sensordatas. The exit code is 0 when the server accepted every write, 1 when not, 2 for bad flags.
import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'

const USAGE = `Sends the readings of made-up sensors to a server.

  --url <url>          the server (http://localhost:57602)
  --sensors <count>    how many sensors there are (50)
  --rate <number>      readings a second of each (2)
  --seconds <number>   for how long (60)
  --seed <integer>     the same seed makes the same sensors and the same weather (1)
`
const ANSWER_WITHIN_MS = 10_000

/** How far a value may wander, how fast, and with how many decimals it is told. */
const WEATHER = {
  humidity: { low: 20, high: 95, step: 0.25, decimals: 2 },
  temperature: { low: -20, high: 35, step: 0.05, decimals: 2 },
  pressure: { low: 970, high: 1045, step: 0.05, decimals: 1 },
}
const MOTION = {
  acceleration_x: { low: -90, high: 90, step: 3, decimals: 0 },
  acceleration_y: { low: -90, high: 90, step: 3, decimals: 0 },
  acceleration_z: { low: 960, high: 1060, step: 3, decimals: 0 },
}
const BATTERY = { battery: { low: 2400, high: 3100, step: 1, decimals: 0 } }
const { temperature, pressure } = WEATHER

/** Not every sensor measures everything. */
const KINDS = [
  { ...WEATHER, ...MOTION, ...BATTERY },
  { ...WEATHER, ...BATTERY },
  { temperature, ...BATTERY },
  { temperature, pressure, ...MOTION, ...BATTERY },
]

/** @typedef {{ low: number, high: number, step: number, decimals: number }} Range */
/** @typedef {{ id: string, mac: string, data: Record<string, number | null>, timestamp: string }} Reading */

/**
 * Numbers from 0 to 1, the same ones for the same seed (mulberry32).
 * @param {number} seed
 */
function randomNumbers(seed) {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/**
 * A value that drifts like weather: never more than a step at a time, for a while in one direction, drawn back
 * to where it began, and never out of its range.
 * @param {Range} range
 * @param {() => number} random
 */
function drift({ low, high, step, decimals }, random) {
  const home = low + (high - low) * (0.25 + 0.5 * random())
  let value = home
  let speed = 0
  return () => {
    const back = (home - value) / (high - low)
    speed = Math.max(-step, Math.min(step, 0.9 * speed + step * (0.4 * (random() - 0.5) + 0.1 * back)))
    value = Math.max(low, Math.min(high, value + speed))
    return Number(value.toFixed(decimals))
  }
}

/**
 * @param {number} seed
 * @param {number} index
 */
function createSensor(seed, index) {
  const random = randomNumbers(seed * 65_536 + index)
  const drifts = Object.entries(KINDS[index % KINDS.length] ?? {}).map(
    ([name, range]) => /** @type {const} */ ([name, drift(range, random)]),
  )
  // Two bytes count the sensors, so that no address is there twice; the highest bits say "made up".
  const bytes = [0xc0 | (random() * 64), random() * 256, random() * 256, random() * 256, index >> 8, index & 0xff]
  const mac = bytes.map((byte) => Math.trunc(byte).toString(16).padStart(2, '0').toUpperCase()).join(':')
  return {
    /** @returns {Reading} */
    read() {
      const values = Object.fromEntries(drifts.map(([name, next]) => [name, next()]))
      return { id: mac, mac, data: 'acceleration_x' in values ? withMotion(values) : values, timestamp: timestamp() }
    },
  }
}

/**
 * @param {Record<string, number>} values
 * @returns {Reading['data']}
 */
function withMotion({ acceleration_x = 0, acceleration_y = 0, acceleration_z = 0, battery = 0, ...weather }) {
  const acceleration = Number(Math.hypot(acceleration_x, acceleration_y, acceleration_z).toFixed(1))
  return { ...weather, acceleration, acceleration_x, acceleration_y, acceleration_z, battery, identifier: null }
}

/** UTC without a zone, with microseconds. */
function timestamp() {
  const now = performance.timeOrigin + performance.now()
  const micros = Math.trunc((now % 1) * 1000)
  return `${new Date(now).toISOString().slice(0, -1)}${String(micros).padStart(3, '0')}`
}

class BadFlags extends Error {}

function readFlags() {
  let values
  try {
    values = parseArgs({
      options: {
        url: { type: 'string', default: 'http://localhost:57602' },
        sensors: { type: 'string', default: '50' },
        rate: { type: 'string', default: '2' },
        seconds: { type: 'string', default: '60' },
        seed: { type: 'string', default: '1' },
        help: { type: 'boolean', default: false },
      },
    }).values
  } catch (error) {
    throw new BadFlags(error instanceof Error ? error.message : String(error))
  }
  /** @type {(name: 'sensors' | 'rate' | 'seconds' | 'seed', holds: (value: number) => boolean, what: string) => number} */
  const number = (name, holds, what) => {
    const value = Number(values[name])
    if (values[name]?.trim() === '' || !holds(value)) {
      throw new BadFlags(`The flag --${name} must be ${what}, not "${values[name]}".`)
    }
    return value
  }
  const url = String(values.url).replace(/\/+$/, '')
  if (!/^https?:$/.test(URL.canParse(url) ? new URL(url).protocol : '')) {
    throw new BadFlags(`The flag --url must be an address with http:// or https://, not "${url}".`)
  }
  return {
    help: values.help,
    url,
    sensors: number('sensors', (n) => Number.isInteger(n) && n > 0 && n <= 65_536, 'an integer from 1 to 65536'),
    rate: number('rate', (n) => n > 0 && n <= 1000, 'above 0, and at most 1000'),
    seconds: number('seconds', (n) => n > 0 && n <= 1e9, 'above 0'),
    seed: number('seed', (n) => Number.isSafeInteger(n), 'an integer'),
  }
}

/** What became of the writes so far. */
class Tally {
  accepted = 0
  /** @type {Map<string, number>} */
  errors = new Map()
  slowestMs = 0

  /** @param {string} reason */
  error(reason) {
    this.errors.set(reason, (this.errors.get(reason) ?? 0) + 1)
  }

  get total() {
    return [...this.errors.values()].reduce((sum, count) => sum + count, this.accepted)
  }

  toString() {
    const errors = [...this.errors].map(([reason, count]) => `, ${count} x ${reason}`).join('')
    return `${this.accepted} of ${this.total} writes accepted${errors}, slowest ${Math.round(this.slowestMs)} ms`
  }
}

/** @param {ReturnType<typeof readFlags>} flags */
async function runFleet({ url, sensors, rate, seconds, seed }) {
  const tally = new Tally()
  const stop = new AbortController()
  // Every sensor waits on it.
  setMaxListeners(0, stop.signal)
  process.once('SIGINT', () => stop.abort())
  process.once('SIGTERM', () => stop.abort())
  const began = performance.now()
  const elapsed = () => ((performance.now() - began) / 1000).toFixed(0)
  const progress = setInterval(() => console.log(`${elapsed().padStart(5)} s  ${tally}`), 1000)
  const readings = Math.max(1, Math.round(rate * seconds))
  await Promise.all(Array.from({ length: sensors }, (_, index) => runSensor(index)))
  clearInterval(progress)
  console.log(`Ended after ${elapsed()} s: ${tally}`)
  return tally.errors.size === 0

  /** @param {number} index */
  async function runSensor(index) {
    const sensor = createSensor(seed, index)
    for (let reading = 0; reading < readings; reading++) {
      // The sensors take turns within each period, as they would in the field.
      const due = began + ((reading + index / sensors) * 1000) / rate
      const wait = Math.max(0, due - performance.now())
      await sleep(wait, undefined, { signal: stop.signal }).catch(() => {})
      if (stop.signal.aborted) return
      await report(sensor.read())
    }
  }

  /** @param {Reading} reading */
  async function report(reading) {
    const { id, ...rest } = reading
    const status = await write('PUT', `/api/sensors/${encodeURIComponent(id)}`, reading)
    if (status === 404) {
      if (!stop.signal.aborted) {
        console.error(
          `The server answered 404 to PUT /api/sensors/${id}: it does not create items on PUT. Start it with --Api.UpsertOnPut true.`,
        )
      }
      return stop.abort()
    }
    await write('POST', '/api/sensordatas', rest)
  }

  /**
   * The status of the answer; undefined when there was none.
   * @param {string} method
   * @param {string} path
   * @param {object} body
   */
  async function write(method, path, body) {
    const sent = performance.now()
    try {
      const answer = await fetch(url + path, {
        method,
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
      })
      await answer.arrayBuffer()
      if (answer.ok) tally.accepted++
      else tally.error(String(answer.status))
      return answer.status
    } catch (error) {
      tally.error(reasonOf(error))
      return undefined
    } finally {
      tally.slowestMs = Math.max(tally.slowestMs, performance.now() - sent)
    }
  }
}

/**
 * `fetch` tells what happened to the connection in the cause of its error.
 * @param {any} error
 * @returns {string}
 */
function reasonOf(error) {
  return error.cause?.code ?? error.code ?? error.name
}

try {
  const flags = readFlags()
  if (flags.help) process.stdout.write(USAGE)
  else process.exitCode = (await runFleet(flags)) ? 0 : 1
} catch (error) {
  if (!(error instanceof BadFlags)) throw error
  process.stderr.write(`${error.message}\n\n${USAGE}`)
  process.exitCode = 2
}
