import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { io } from 'socket.io-client'
import { once } from '../support/deadline.ts'
import { startProcess } from '../support/process.ts'
import { headOf } from '../support/requests.ts'
import { json, plainSegments, type RunningProgram, startProgram } from '../support/server.ts'

/** How long the fleet sends in the long test. */
const SECONDS = Number(process.env.FLEET_SECONDS ?? 4)
const DEADLINE_MS = (SECONDS + 240) * 1000
const SENSORS = 50
const RATE = 2
const UPSERT = ['--Api.UpsertOnPut', 'true']
const EMPTY = { sensors: [], sensordatas: [] }

interface Reading {
  readonly id: string | number
  readonly mac: string
  readonly data: Readonly<Record<string, number | null>>
  readonly timestamp: string
}

const outlives = 'the readings of a fleet are stored once, notified once, and survive the process and the data file'
test(outlives, async (t) => {
  const flags = [...UPSERT, ...plainSegments(2 ** 20)]
  const first = await startProgram(t, { data: EMPTY, flags })
  const told: number[] = []
  const client = io(first.url, { transports: ['websocket'] })
  t.after(() => client.close())
  await once(client, 'connect')
  client.on('updated', ({ position }: { position: number }) => told.push(position))
  const before = await headOf(first.url)

  const fleet = await runFleet(t, first, ['--sensors', SENSORS, '--rate', RATE, '--seconds', SECONDS])
  assert.equal(fleet.code, 0, fleet.output)
  const count = SENSORS * Math.round(RATE * SECONDS)
  const position = await headOf(first.url)
  assert.equal(position, before + 2 * count)

  await t.test('sensordatas holds every reading once, with ids from 0 without gaps', async () => {
    const readings = await all<Reading>(first, 'sensordatas')
    assert.deepEqual(
      readings.map(({ id }) => id),
      Array.from({ length: count }, (_, index) => index),
    )
    assert.equal(new Set(readings.map(({ mac, timestamp }) => `${mac} ${timestamp}`)).size, count)
  })

  await t.test("sensors holds each sensor's latest reading", async () => {
    const latest = new Map<string, Omit<Reading, 'id'>>()
    for (const { id: _, ...reading } of await all<Reading>(first, 'sensordatas')) {
      const known = latest.get(reading.mac)
      if (!known || known.timestamp < reading.timestamp) latest.set(reading.mac, reading)
    }
    assert.equal(latest.size, SENSORS)
    const sensors = await all<Reading>(first, 'sensors')
    assert.equal(sensors.length, SENSORS)
    for (const { id, ...reading } of sensors) assert.deepEqual(reading, latest.get(String(id)))
  })

  await t.test('a connected client received every position once, in order', async () => {
    while (client.connected && (told.at(-1) ?? 0) < position) {
      await once(client, 'updated')
    }
    assert.deepEqual(
      told,
      Array.from({ length: 2 * count }, (_, index) => before + 1 + index),
    )
  })
  client.close()

  const kept = await everything(first)
  await first.stop('SIGKILL')
  const second = await startProgram(t, { directory: first.directory, flags })
  await t.test('after kill -9 and a restart every collection reads the same, and ids continue', async () => {
    assert.deepEqual(await everything(second), kept)
    assert.deepEqual(await post(second), { id: count })
  })

  const more = await everything(second)
  await t.test('the data file of a stopped server contains the collections', async () => {
    assert.equal(await second.stop(), 0)
    const file = JSON.parse(readFileSync(second.file, 'utf8')) as Record<string, unknown>
    assert.deepEqual(
      file,
      Object.fromEntries(
        [...more.collections].map(([name, { pages }]) => [name, pages.flatMap((page) => JSON.parse(page))]),
      ),
    )
  })

  rmSync(first.file)
  const third = await startProgram(t, { directory: first.directory, flags })
  await t.test('without the data file every collection reads the same, and ids continue', async () => {
    assert.deepEqual(await everything(third), more)
    assert.deepEqual(await post(third), { id: count + 1 })
  })

  await t.test("jq reads the journal's segments", (t) => {
    const jq = process.env.JQ
    if (!jq && process.env.CI !== 'true') return t.skip('jq is missing')
    const journal = join(first.directory, 'db.journal')
    const segments = readdirSync(journal).filter((name) => name.endsWith('.ndjson'))
    const filter =
      '[inputs | .events // [] | .[]] | group_by(.type) | map({ key: .[0].type, value: length }) | from_entries'
    const counted = execFileSync(jq ?? 'jq', ['-n', filter, ...segments.sort().map((name) => join(journal, name))], {
      timeout: DEADLINE_MS,
    })
    assert.deepEqual(JSON.parse(counted.toString()), {
      CollectionCreated: 2,
      ItemCreated: SENSORS + count + 2,
      ItemReplaced: count - SENSORS,
    })
  })
})

test('the fleet sends the same readings for the same seed, and other ones for another', async (t) => {
  const sent: Map<string, Reading['data'][]>[] = []
  for (const seed of [7, 7, 8]) {
    const server = await startProgram(t, { data: EMPTY, flags: UPSERT })
    const { code, output } = await runFleet(t, server, ['--seed', seed, '--sensors', 5, '--rate', 40, '--seconds', 1])
    assert.equal(code, 0, output)
    const series = new Map<string, Reading['data'][]>()
    for (const { mac, data } of await all<Reading>(server, 'sensordatas')) {
      series.set(mac, [...(series.get(mac) ?? []), data])
    }
    assert.deepEqual(
      [...series.values()].map((readings) => readings.length),
      [40, 40, 40, 40, 40],
    )
    sent.push(series)
    await server.stop()
  }
  assert.deepEqual(sent[0], sent[1])
  assert.notDeepEqual(sent[1], sent[2])
})

test('the fleet sends readings with the fields of the demo data, which differ by sensor and drift slowly', async (t) => {
  const server = await startProgram(t, { data: EMPTY, flags: UPSERT })
  await runFleet(t, server, ['--sensors', 8, '--rate', 25, '--seconds', 2])
  const series = new Map<string, Reading[]>()
  for (const reading of await all<Reading>(server, 'sensordatas')) {
    checkReading(reading)
    series.set(reading.mac, [...(series.get(reading.mac) ?? []), reading])
  }
  const fieldsOf = ({ data }: Reading): string => Object.keys(data).sort().join()
  const kinds = new Set<string>()
  for (const readings of series.values()) {
    assert.equal(new Set(readings.map(fieldsOf)).size, 1, 'a sensor always measures the same')
    kinds.add(fieldsOf(readings[0] as Reading))
    const temperatures = readings.map(({ data }) => data.temperature as number)
    assert.ok(new Set(temperatures).size > 1, 'the weather changes')
    for (const [index, value] of temperatures.entries()) {
      assert.ok(
        Math.abs(value - (temperatures[index - 1] ?? value)) < 0.1,
        `from ${temperatures[index - 1]} to ${value}`,
      )
    }
  }
  assert.ok(kinds.size >= 3, [...kinds].join(' and '))
})

test('the fleet reports a server without upsert, and exits with 1', async (t) => {
  const server = await startProgram(t, { data: EMPTY })
  const { code, output } = await runFleet(t, server, ['--sensors', 3, '--seconds', 60])
  assert.equal(code, 1)
  assert.match(output, /--Api\.UpsertOnPut true/)
  assert.deepEqual(await all(server, 'sensordatas'), [])
})

test('the fleet exits with 1 when no server answers, and names the error', async (t) => {
  const server = await startProgram(t, { data: EMPTY })
  await server.stop()
  const { code, output } = await runFleet(t, server, ['--sensors', 1, '--seconds', 0.5])
  assert.equal(code, 1)
  assert.match(output, /0 of 2 writes accepted, 2 x ECONNREFUSED/)
})

test('an interrupted fleet completes its pending readings and exits with 0', async (t) => {
  const server = await startProgram(t, { data: EMPTY, flags: UPSERT })
  const fleet = startFleet(t, server, ['--sensors', 10, '--seconds', 3600])
  await fleet.printed(/./)
  fleet.process.kill('SIGINT')
  const { code, output } = await fleet.ended()
  assert.equal(code, 0, output)
  const [, accepted] = /Ended after \d+ s: (\d+) of \1 writes accepted/.exec(output) ?? []
  assert.equal(await headOf(server.url), 2 + Number(accepted))
})

test('the fleet exits with 2 for unknown flags', async (t) => {
  const server = await startProgram(t, { data: EMPTY })
  for (const flags of [
    ['--rates', '2'],
    ['--rate', '0'],
    ['--sensors', '1.5'],
    ['--url', 'localhost:1'],
  ]) {
    const { code, output } = await runFleet(t, server, flags)
    assert.equal(code, 2, output)
    assert.match(output, new RegExp(flags[0] as string))
  }
  assert.equal(await headOf(server.url), 2)
})

test('the packaged sample contains the demo data: sensors with their latest readings', () => {
  const sample = JSON.parse(
    readFileSync(fileURLToPath(new URL('../../data/sensors.json', import.meta.url)), 'utf8'),
  ) as {
    readonly sensors: readonly Reading[]
    readonly sensordatas: readonly Reading[]
  }
  assert.deepEqual(Object.keys(sample), ['sensors', 'sensordatas'])
  for (const { id, ...sensor } of sample.sensors) {
    assert.equal(id, sensor.mac)
    const { id: _, ...latest } = sample.sensordatas.filter(({ mac }) => mac === id).at(-1) as Reading
    assert.deepEqual(sensor, latest)
  }
  for (const [index, reading] of sample.sensordatas.entries()) {
    assert.equal(reading.id, index)
    checkReading(reading)
  }
})

const NUMBERS = ['humidity', 'temperature', 'pressure', 'acceleration']
const INTEGERS = ['acceleration_x', 'acceleration_y', 'acceleration_z', 'battery']

function checkReading({ mac, data, timestamp }: Reading): void {
  assert.match(mac, /^[0-9A-F]{2}(:[0-9A-F]{2}){5}$/)
  assert.match(timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+$/)
  for (const [name, value] of Object.entries(data)) {
    if (INTEGERS.includes(name)) assert.ok(Number.isInteger(value), `${name}: ${value}`)
    else if (NUMBERS.includes(name)) assert.equal(typeof value, 'number', name)
    else assert.deepEqual([name, value], ['identifier', null])
  }
}

function startFleet(t: TestContext, server: RunningProgram, flags: readonly (string | number)[]) {
  const script = fileURLToPath(new URL('../../examples/fleet.js', import.meta.url))
  const run = startProcess(t, [process.execPath, script, '--url', server.url, ...flags.map(String)])
  return {
    process: run.process,
    printed: run.printed,
    ended: async () => ({ code: (await run.ended(DEADLINE_MS)).code, output: run.output() }),
  }
}

function runFleet(t: TestContext, server: RunningProgram, flags: readonly (string | number)[]) {
  return startFleet(t, server, flags).ended()
}

async function post(server: RunningProgram): Promise<unknown> {
  const answer = await server.fetch('/api/sensordatas', json('POST', { mac: 'C0:00:00:00:00:00' }))
  assert.equal(answer.status, 201)
  return answer.json()
}

/** A collection as it is served, page by page. */
interface Served {
  readonly tag: string | null
  readonly pages: readonly string[]
}

async function serve(server: RunningProgram, collection: string): Promise<Served> {
  const pages: string[] = []
  let tag: string | null = null
  let path: string | undefined = `/api/${collection}?pageSize=5000`
  while (path) {
    const answer = await server.fetch(path)
    assert.equal(answer.status, 200)
    pages.push(await answer.text())
    tag = answer.headers.get('ETag')
    path = /<([^>]*)>; rel="next"/.exec(answer.headers.get('Link') ?? '')?.[1]
  }
  return { tag, pages }
}

async function all<T>(server: RunningProgram, collection: string): Promise<readonly T[]> {
  return (await serve(server, collection)).pages.flatMap((page) => JSON.parse(page) as T[])
}

/** Every collection, and the entity tags of the sensors and of the last readings. */
async function everything(server: RunningProgram) {
  const names = (await (await server.fetch('/api')).json()) as string[]
  const collections = new Map<string, Served>()
  const tags = new Map<string, string | null>()
  for (const name of names) {
    const served = await serve(server, name)
    collections.set(name, served)
    const items = served.pages.flatMap((page) => JSON.parse(page) as Reading[])
    for (const { id } of items.slice(-SENSORS)) {
      const path = `/api/${name}/${encodeURIComponent(id)}`
      tags.set(path, (await server.fetch(path, { method: 'HEAD' })).headers.get('ETag'))
    }
  }
  return { position: await headOf(server.url), collections, tags }
}
