import assert from 'node:assert/strict'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { makeHome } from '../../src/cli/demo.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { Refusal } from '../../src/runtime/errors.ts'
import { each, fetch } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { homeSettings } from '../support/home.ts'
import { runToEnd, spawnServer, storeBuilt } from '../support/server.ts'

const PRESENT = { ms: Date.parse('2026-11-28T15:20:30.400Z'), zoneMinutes: 0 }

interface Event {
  readonly position: number
  readonly time: string
  readonly actor: string
  readonly requestId: string
  readonly collection: string
  readonly item: { readonly mac: string; readonly timestamp: string }
}

/** The next events of a server, of which so many are awaited. */
async function nextEvents(url: string, count: number): Promise<readonly Event[]> {
  const response = await fetch(`${url}/events?follow=true&from=now`, { headers: { Accept: 'application/x-ndjson' } })
  assert.equal(response.status, 200)
  assert.ok(response.body)
  let text = ''
  for await (const chunk of each('events', response.body as AsyncIterable<Uint8Array>)) {
    text += Buffer.from(chunk).toString()
    const lines = text
      .split('\n')
      .slice(0, -1)
      .filter((line) => line !== '')
    if (lines.length >= count) return lines.slice(0, count).map((line) => JSON.parse(line) as Event)
  }
  throw new Error('the stream of events ended')
}

test('recollect demo serves a home that stays, can be verified, and is served again', async (t) => {
  const TMPDIR = await temporaryDirectory(t)
  const demo = spawnServer(t, TMPDIR, { isBare: true, flags: ['demo', '--port', '0'], env: { TMPDIR } })
  const url = await demo.listening()
  assert.ok(url, demo.stderr())
  await storeBuilt(url)
  const [, directory = ''] = (await demo.printed(/Home +(\S+)\n.*recollect home\.json/)) ?? []
  assert.deepEqual(await readdir(TMPDIR), [directory.slice(TMPDIR.length + 1)])
  const sensors = (await (await fetch(`${url}/api/sensors`)).json()) as { name: string; data: object }[]
  assert.equal(sensors.length, 6)
  for (const { name, data } of sensors) assert.ok(data, name)

  const before = Date.now()
  const events = await nextEvents(url, 4)
  assert.deepEqual(
    events.map(({ collection }) => collection),
    ['sensors', 'sensordatas', 'sensors', 'sensordatas'],
  )
  const [latest, reading, , next] = events
  assert.ok(latest && reading && next)
  assert.equal(latest.requestId, reading.requestId)
  assert.notEqual(next.item.mac, reading.item.mac)
  assert.ok(Date.parse(reading.item.timestamp) > before - 60_000)

  demo.process.kill('SIGINT')
  assert.equal((await demo.ended()).code, 0)
  const verified = await runToEnd(t, directory, ['verify', '--file', 'home.json', '--store', '--json'])
  assert.equal(verified.code, 0, verified.stdout)
  const { ok, dataFile, head } = JSON.parse(verified.stdout) as { ok: boolean; dataFile: string; head: number }
  assert.deepEqual([ok, dataFile], [true, 'current'])
  assert.ok(head >= next.position)

  const again = spawnServer(t, directory, { isBare: true, flags: ['home.json', '--port', '0'] })
  const other = await again.listening()
  assert.ok(other, again.stderr())
  await storeBuilt(other)
  const { position, eventTime } = (await (await fetch(`${other}/health`)).json()) as Record<string, unknown>
  assert.equal(position, head)
  assert.deepEqual(eventTime, { sensordatas: 'timestamp', sensors: 'timestamp' })
})

test('recollect demo with a mistake in its flags makes no directory', async (t) => {
  const TMPDIR = await temporaryDirectory(t)
  for (const flags of [['--port', 'x'], ['--file', 'db.json'], ['db.json'], ['--Journal.Type', 'jetstream']]) {
    const { code, stderr } = await runToEnd(t, TMPDIR, ['demo', ...flags], { TMPDIR })
    assert.equal(code, 2, stderr)
    assert.match(stderr, /^recollect: /)
  }
  const cluster = { Journal__Type: 'jetstream', Journal__Servers: 'nats://localhost:1', Journal__Stream: 'home' }
  const { code, stderr } = await runToEnd(t, TMPDIR, ['demo'], { TMPDIR, ...cluster })
  assert.deepEqual([code, stderr.includes('recollect demo needs a journal on disk')], [2, true], stderr)
  assert.deepEqual(await readdir(TMPDIR), [])
})

test('a home is not made in a directory that has anything in it', async (t) => {
  const directory = join(await temporaryDirectory(t), 'mine')
  await mkdir(directory)
  await writeFile(join(directory, 'note.txt'), 'mine')
  await assert.rejects(
    makeHome(nodeFiles, homeSettings(directory), PRESENT),
    (error) => error instanceof Refusal && error.code === 'Conflict',
  )
  assert.deepEqual(await readdir(directory), ['note.txt'])
  assert.equal(await readFile(join(directory, 'note.txt'), 'utf8'), 'mine')
})
