#!/usr/bin/env node
// @ts-check
// Measures, and sends what was measured to Recollect. Readings wait on the disk while the server is away:
//
//     node sensors.mjs --url http://localhost:57602 --outbox outbox
//
// Ctrl+C ends it; what is not sent yet is sent by the next start. The exit code is 1 when readings are left or were rejected.
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { NotNow, Outbox } from './outbox.mjs'

const USAGE = `Measures, and sends readings to Recollect.

  --url <url>          the server (http://localhost:57602)
  --outbox <directory> where readings wait (outbox)
  --every <seconds>    how often it measures (10)
  --send <seconds>     how often it sends (30)
  --rounds <count>     ends after measuring so often, when all is sent (without end)
  --help

The environment variable RECOLLECT_API_KEY is the API key, where the server asks for one.
`
const LONGEST_PAUSE_S = 60
const SENSORS = [
  { mac: 'C4:7A:10:00:00:01', temperature: 21, humidity: 45 },
  { mac: 'C4:7A:10:00:00:02', temperature: 19, humidity: 50 },
  { mac: 'C4:7A:10:00:00:03', temperature: 12, humidity: 65 },
  { mac: 'C4:7A:10:00:00:04', temperature: 8, humidity: undefined },
]

/**
 * Put what reads your sensors here.
 * @param {typeof SENSORS[number]} sensor
 */
function measure({ temperature, humidity }) {
  const day = Math.sin((Date.now() / 86_400_000) * 2 * Math.PI)
  const around = (/** @type {number} */ value) => Number((value + 2 * day + Math.random() / 2).toFixed(2))
  return {
    temperature: around(temperature),
    ...(humidity !== undefined && { humidity: around(humidity) }),
    battery: 2900 + Math.round(Math.random() * 10),
  }
}

const { values: flags } = parseArgs({
  options: {
    url: { type: 'string', default: 'http://localhost:57602' },
    outbox: { type: 'string', default: 'outbox' },
    every: { type: 'string', default: '10' },
    send: { type: 'string', default: '30' },
    rounds: { type: 'string', default: 'Infinity' },
    help: { type: 'boolean', default: false },
  },
})
if (flags.help) {
  process.stdout.write(USAGE)
  process.exit()
}
const [every, sendEvery, rounds] = [Number(flags.every), Number(flags.send), Number(flags.rounds)]
if (!(every > 0 && sendEvery > 0 && rounds >= 0)) {
  process.stderr.write(USAGE)
  process.exit(2)
}

const stop = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => stop.abort())
const outbox = new Outbox(flags.outbox, {
  url: `${flags.url.replace(/\/+$/, '')}/api/sensordatas`,
  apiKey: process.env.RECOLLECT_API_KEY,
})
await outbox.start()
let isMeasuring = true
let measured = 0
const [, isAllSent] = await Promise.all([measuring(), sending()])
console.log(
  `Ended: ${measured} readings measured, ${outbox.sent} sent, ${outbox.rejected} rejected${isAllSent ? '' : ', others wait'}.`,
)
process.exitCode = isAllSent && outbox.rejected === 0 ? 0 : 1

async function measuring() {
  for (let round = 0; round < rounds && !stop.signal.aborted; round++) {
    const timestamp = new Date().toISOString()
    await outbox.add(SENSORS.map((sensor) => ({ mac: sensor.mac, data: measure(sensor), timestamp })))
    measured += SENSORS.length
    await pause(every)
  }
  isMeasuring = false
}

/** Sends until nothing more is measured and all is sent, or until it is told to stop. Says whether all was sent. */
async function sending() {
  for (let failures = 0; ; ) {
    const isLast = !isMeasuring
    let seconds = sendEvery
    try {
      await outbox.send()
      if (failures > 0) console.log(`The server is back: ${outbox.sent} readings sent so far.`)
      failures = 0
      if (isLast) return true
    } catch (error) {
      if (!(error instanceof NotNow)) throw error
      if (failures === 0) console.error(`${error.message} Readings wait in ${flags.outbox}.`)
      failures++
      seconds = Math.max(error.afterSeconds, Math.min(LONGEST_PAUSE_S, sendEvery * 2 ** Math.min(failures, 10)))
      if (stop.signal.aborted && isLast) return false
    }
    await pause(seconds)
  }
}

/** @param {number} seconds */
async function pause(seconds) {
  await sleep(seconds * 1000, undefined, { signal: stop.signal }).catch(() => {})
}
