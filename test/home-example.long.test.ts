import assert from 'node:assert/strict'
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { until } from './support/deadline.ts'
import { temporaryDirectory } from './support/directory.ts'
import { freePort, startProcess } from './support/process.ts'
import { ofOneServer, type RunningProgram, startProgram } from './support/server.ts'

const HOME = fileURLToPath(new URL('../examples/home', import.meta.url))
const options = { skip: ofOneServer('the server is killed and started again') }

interface Reading {
  readonly mac: string
  readonly timestamp: string
}

const keyOf = ({ mac, timestamp }: Reading): string => `${mac} ${timestamp}`

/** A copy of the example, and its server at an address that stays the same. */
async function home(t: TestContext) {
  const directory = await temporaryDirectory(t)
  cpSync(HOME, directory, { recursive: true })
  const url = `http://127.0.0.1:${await freePort()}`
  const flags = ['--file', 'data.json', '--settings', 'appsettings.json', '--urls', url]
  const start = () => startProgram(t, { directory, isBare: true, flags })
  return {
    directory,
    first: await start(),
    start,
    sensors: (...given: string[]) => runSensors(t, directory, ['--url', url, ...given]),
  }
}

function runSensors(t: TestContext, directory: string, flags: readonly string[]) {
  const {
    process: child,
    ended,
    output,
  } = startProcess(t, [process.execPath, 'sensors.mjs', '--send', '0.02', ...flags], { cwd: directory })
  return { child, ended: async () => (await ended()).code, output }
}

async function stored(server: RunningProgram): Promise<readonly Reading[]> {
  const response = await server.fetch('/api/sensordatas?all=true&fields=mac,timestamp')
  return (await response.json()) as Reading[]
}

/** The readings that wait, as lines: the last one may not be written to its end. */
function waiting(directory: string): readonly string[] {
  const outbox = join(directory, 'outbox')
  return readdirSync(outbox).flatMap((name) => {
    try {
      return readFileSync(join(outbox, name), 'utf8').split('\n').slice(0, -1)
    } catch {
      // It was sent in this moment.
      return []
    }
  })
}

test('each reading is stored once, however often the server is killed', options, async (t) => {
  const { directory, first, start, sensors } = await home(t)
  const { child, ended, output } = sensors('--every', '0.005')
  let server = first
  for (let kill = 0; kill < 4; kill++) {
    const before = (await stored(server)).length
    await until('readings', async () => (await stored(server)).length > before + 20)
    await server.stop('SIGKILL')
    await until('readings that wait', () => waiting(directory).length > 20)
    server = await start()
  }
  child.kill('SIGTERM')
  assert.equal(await ended(), 0, output())
  const readings = await stored(server)
  assert.match(output(), new RegExp(`Ended: ${readings.length} readings measured, ${readings.length} sent, 0 rejected`))
  assert.equal(new Set(readings.map(keyOf)).size, readings.length)
  assert.deepEqual(waiting(directory), [])
})

test('readings that waited when both processes were killed are sent after the next start', options, async (t) => {
  const { directory, first, start, sensors } = await home(t)
  const killed = sensors('--every', '0.01')
  await until('readings', async () => (await stored(first)).length > 20)
  await first.stop('SIGKILL')
  await until('readings that wait', () => waiting(directory).length > 100)
  killed.child.kill('SIGKILL')
  await killed.ended()
  const left = waiting(directory).map((line) => JSON.parse(line) as Reading)
  const server = await start()
  const expected = new Set([...(await stored(server)), ...left].map(keyOf))
  const next = sensors('--rounds', '0')
  assert.equal(await next.ended(), 0, next.output())
  const readings = (await stored(server)).map(keyOf)
  assert.deepEqual(new Set(readings), expected)
  assert.equal(readings.length, expected.size)
})

test('a reading that the server rejects is put aside, and the others are stored', options, async (t) => {
  const { directory, first, sensors } = await home(t)
  const before = sensors('--rounds', '0')
  await before.ended()
  const lines = ['{"mac": "A", "timestamp": "2026-11-01T00:00:00"}', '{"mac": "B", "tim']
  writeFileSync(join(directory, 'outbox', 'open.ndjson'), lines.join('\n'))
  const { ended, output } = sensors('--rounds', '1', '--every', '0.01')
  assert.equal(await ended(), 1)
  assert.match(output(), /Ended: 4 readings measured, 5 sent, 1 rejected\./)
  assert.equal((await stored(first)).length, 5)
  assert.match(readFileSync(join(directory, 'outbox', 'rejected.ndjson'), 'utf8'), /"reading":"\{\\"mac\\": \\"B\\"/)
})
