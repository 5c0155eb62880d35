import assert from 'node:assert/strict'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { positioned, type Recorded } from '../../src/events/journal.ts'
import { writeNewJournal } from '../../src/events/new-journal.ts'
import { encodeEvent } from '../../src/events/record-writer.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { Refusal } from '../../src/runtime/errors.ts'
import { all, created } from '../contract/journal.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { openJournal } from '../support/journal.ts'

const ID = '6f6d2f3c-6d0b-4c1e-9f5e-000000000001'

function write(position: number, time: string, count = 1): Recorded {
  const events = Array.from({ length: count }, (_, index) => created(position + index, { text: 'x'.repeat(100) }))
  return { position, time, actor: 'miranda', requestId: `request ${position}`, events }
}

/** The events, each with its position and its write. A journal may read a write in parts. */
function eventsOf(writes: readonly Recorded[]): readonly unknown[] {
  return writes.flatMap((write) => {
    const { time, actor, requestId } = write
    return [...positioned(write)].map(([position, event]) => [position, time, actor, requestId, encodeEvent(event)])
  })
}

async function* each(writes: readonly Recorded[]): AsyncGenerator<Recorded> {
  yield* writes
}

test('a new journal has the writes at the times that they are given, and continues as any other', async (t) => {
  const directory = join(await temporaryDirectory(t), 'new.journal')
  // The second write has several records.
  const writes = [
    write(1, '2026-01-01T00:00:00.000Z'),
    write(2, '2026-01-02T00:00:00.000Z', 1000),
    write(1002, '2026-01-02T00:00:00.000Z'),
  ]
  await writeNewJournal(nodeFiles, directory, ID, each(writes))
  const { journal } = await openJournal(nodeFiles, directory)
  t.after(() => journal.close())
  assert.equal(journal.id, ID)
  assert.deepEqual(eventsOf(await all(journal)), eventsOf(writes))
  const { time, position } = await journal.append({ ...write(1003, ''), expected: 1003 })
  assert.equal(position, 1003)
  assert.ok(time > '2026-01-02')
})

test('a new journal is not written where a directory is, even an empty one', async (t) => {
  const directory = await temporaryDirectory(t)
  const refused = (path: string): Promise<void> =>
    assert.rejects(
      writeNewJournal(nodeFiles, path, ID, each([write(1, '2026-01-01T00:00:00.000Z')])),
      (error) => error instanceof Refusal && error.code === 'Conflict',
    )
  await mkdir(join(directory, 'empty'))
  await refused(join(directory, 'empty'))
  assert.deepEqual(await readdir(join(directory, 'empty')), [])
  await writeFile(join(directory, 'file'), '')
  await refused(join(directory, 'file'))
})

test('a new journal whose times decrease is not made', async (t) => {
  const directory = join(await temporaryDirectory(t), 'new.journal')
  const writes = each([write(1, '2026-01-02T00:00:00.000Z'), write(2, '2026-01-01T00:00:00.000Z')])
  await assert.rejects(writeNewJournal(nodeFiles, directory, ID, writes), /position 2 is earlier/)
  assert.deepEqual(
    (await readdir(directory)).filter((name) => name.includes('ndjson')),
    [],
  )
})
