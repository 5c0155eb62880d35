import assert from 'node:assert/strict'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { moveToDirectory, moveToStream } from '../../src/cluster/migration.ts'
import type { MigrationResult } from '../../src/engine/remote-journal.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { Locked } from '../../src/runtime/errors.ts'
import { all, created, draft } from '../contract/journal.ts'
import { startCluster } from '../support/cluster.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { openJournal } from '../support/journal.ts'
import { startNats, withoutNats } from '../support/nats.ts'
import { Random, SEED } from '../support/random.ts'
import { json, type RunningProgram, runToEnd, startProgram } from '../support/server.ts'
import { SimulatedStream } from './simulated-stream.ts'

const MESSAGE_BYTES = 16_384
let ids = 0
const newId = (): string => `token-${++ids}`
const quietly = (): void => {}

/** A journal on disk with writes of one event and of many, one of them too large for one record if asked for. */
async function written(t: TestContext, writes: number, isLarge = false): Promise<string> {
  const random = new Random(SEED)
  const directory = await temporaryDirectory(t)
  const { journal } = await openJournal(nodeFiles, directory, { segmentBytes: 20_000 })
  let position = 1
  for (let write = 0; write < writes; write++) {
    const events = Array.from({ length: random.chance(0.1) ? 1 + random.integer(30) : 1 }, (_, index) =>
      created(position + index, { text: 'x'.repeat(random.integer(100)) }),
    )
    await journal.append({
      ...draft(position, ...events),
      ...(random.chance(0.2) && { key: `k${write}`, request: 'r' }),
    })
    position += events.length
  }
  if (isLarge) {
    const events = Array.from({ length: 5 }, (_, index) => created(position + index, { text: 'x'.repeat(300_000) }))
    await journal.append(draft(position, ...events))
    await journal.append(draft(position + 5, created(0)))
  }
  await journal.close()
  return directory
}

/** The lines of all segments, without their headers, which depend on where a segment begins. */
async function linesOf(directory: string): Promise<readonly string[]> {
  const names = (await readdir(directory)).filter((name) => name.endsWith('.ndjson')).sort()
  const texts = await Promise.all(names.map((name) => readFile(join(directory, name), 'utf8')))
  return texts.flatMap((text) => text.trimEnd().split('\n').slice(1))
}

function toStream(directory: string, stream: SimulatedStream): Promise<MigrationResult> {
  return moveToStream(nodeFiles, directory, stream, newId, quietly)
}

test('moving a journal to a stream and back preserves every line', async (t) => {
  const directory = await written(t, 300)
  const stream = new SimulatedStream(MESSAGE_BYTES)
  const there = await toStream(directory, stream)
  const copy = await temporaryDirectory(t)
  const back = await moveToDirectory(stream, nodeFiles, copy, 30_000, quietly)
  assert.deepEqual(back, there)
  assert.deepEqual(await linesOf(copy), await linesOf(directory))
  const { journal } = await openJournal(nodeFiles, copy)
  assert.equal(journal.id, there.id)
  assert.equal((await all(journal)).length > 0 && journal.head, there.head)
  await journal.close()
})

test('an interrupted migration continues where it stopped, in both directions', async (t) => {
  const directory = await written(t, 100, true)
  const messageBytes = 400_000
  const whole = new SimulatedStream(messageBytes)
  const { head } = await toStream(directory, whole)
  for (let kept = 0; kept < whole.messages.length; kept++) {
    const stream = new SimulatedStream(messageBytes)
    stream.messages.push(...whole.messages.slice(0, kept))
    assert.equal((await toStream(directory, stream)).head, head)
    const copy = await temporaryDirectory(t)
    // First a copy of what the interrupted stream held, then the rest.
    if (kept > 0) {
      const part = new SimulatedStream(messageBytes)
      part.messages.push(...whole.messages.slice(0, kept))
      await moveToDirectory(part, nodeFiles, copy, 10_000, quietly)
    }
    await moveToDirectory(stream, nodeFiles, copy, 10_000, quietly)
    assert.deepEqual(await linesOf(copy), await linesOf(directory))
  }
})

test('a message whose acknowledgement was lost is stored once', async (t) => {
  const directory = await written(t, 30)
  const stream = new SimulatedStream(MESSAGE_BYTES)
  stream.fates.push('unheard', 'lost', 'stored', 'unheard', 'unheard', 'lost')
  const { head } = await toStream(directory, stream)
  const copy = await temporaryDirectory(t)
  assert.equal((await moveToDirectory(stream, nodeFiles, copy, 10_000, quietly)).head, head)
})

test('a migration rejects a journal in use, another history, a stream that has advanced, and a record that is too large', async (t) => {
  const directory = await written(t, 20)
  const stream = new SimulatedStream(MESSAGE_BYTES)
  const { journal } = await openJournal(nodeFiles, directory)
  await assert.rejects(toStream(directory, stream), (error: Error) => error instanceof Locked)
  await journal.close()
  assert.equal(stream.messages.length, 0)
  await assert.rejects(toStream(directory, new SimulatedStream(64)), { code: 'TooLarge' })
  await toStream(directory, stream)
  await assert.rejects(toStream(await written(t, 20), stream), { code: 'Conflict' })
  await assert.rejects(toStream(await temporaryDirectory(t), stream), { code: 'NotFound' })
  await assert.rejects(
    moveToDirectory(new SimulatedStream(), nodeFiles, await temporaryDirectory(t), 10_000, quietly),
    { code: 'NotFound' },
  )

  const longer = await temporaryDirectory(t)
  await moveToDirectory(stream, nodeFiles, longer, 30_000, quietly)
  const opened = await openJournal(nodeFiles, longer)
  await opened.journal.append(draft(opened.journal.head + 1, created(1000)))
  await opened.journal.close()
  await toStream(longer, stream)
  await assert.rejects(toStream(directory, stream), { code: 'Conflict' })
})

test('a copy that differs from the journal is detected', async (t) => {
  const directory = await written(t, 300)
  const stream = new SimulatedStream(MESSAGE_BYTES)
  const { publish } = stream
  // A server that keeps something else than it was given.
  stream.publish = async (message, after) => {
    const came = await publish.call(stream, message, after)
    if (after === 3) stream.messages.splice(3, 1, stream.messages[2] as never)
    return came
  }
  await assert.rejects(toStream(directory, stream), /The copy differs at position \d+\./)
})

test('a service moves to three nodes and back with the same events, data file and items', {
  skip: withoutNats,
}, async (t) => {
  const nats = await startNats(t, { servers: 3 })
  const urls = nats.map(({ url }) => url).join(',')
  const single = await startProgram(t, { data: { things: [{ id: 1, n: 1 }] }, flags: ['--Api.UpsertOnPut', 'true'] })
  for (let n = 0; n < 20; n++) await single.fetch(`/api/things/${n % 7}`, json('PUT', { id: n % 7, n }))
  const before = await eventsOf(single)
  await single.stop()
  const directory = join(single.directory, 'db.journal')

  const cluster = await startCluster(t, { nats, nodes: 0 })
  const stream = cluster.flags[cluster.flags.indexOf('--Journal.Stream') + 1] as string
  const flags = ['--stream', stream]
  const there = await runToEnd(t, single.directory, ['migrate', '--from', directory, '--to', urls, ...flags])
  assert.equal(there.code, 0, there.stderr)
  assert.match(there.stdout, /^Migrated the journal [0-9a-f-]{36} with its 22 events, and compared both\.$/m)

  const first = await cluster.start(single.directory)
  const second = await cluster.start()
  const written = await second.fetch('/api/things', json('POST', { by: 'the cluster' }))
  assert.equal(written.headers.get('journal-position'), '23')
  const after = await eventsOf(first)
  assert.deepEqual(after.slice(0, 22), before)
  assert.equal(await first.stop(), 0)
  assert.equal(await second.stop(), 0)

  const copy = await temporaryDirectory(t)
  const to = join(copy, 'db.journal')
  const back = await runToEnd(t, copy, ['migrate', '--from', urls, '--to', to, ...flags])
  assert.equal(back.code, 0, back.stderr)
  const again = await startProgram(t, { directory: copy })
  assert.deepEqual(await eventsOf(again), after)
  assert.deepEqual(JSON.parse(await readFile(again.file, 'utf8')), JSON.parse(await readFile(first.file, 'utf8')))

  const twice = await runToEnd(t, copy, ['migrate', '--from', 'a', '--to', 'b'])
  assert.equal(twice.code, 2)
  assert.match(twice.stderr, /from a directory to nats:/)
})

async function eventsOf(server: RunningProgram): Promise<readonly unknown[]> {
  return (await (await server.fetch('/events?limit=1000')).json()) as readonly unknown[]
}
