import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { backup } from '../../src/cli/backup.ts'
import { verify } from '../../src/cli/verify.ts'
import { walk } from '../../src/events/walk.ts'
import type { Files } from '../../src/files/files.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { created, draft } from '../contract/journal.ts'
import { until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { COMPRESSED_AT_ONCE, openJournal } from '../support/journal.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'

test('a backup contains the state at its begin, even when its last segment is compressed meanwhile', async (t) => {
  const directory = await temporaryDirectory(t)
  const path = join(directory, 'db.journal')
  const { journal } = await openJournal(nodeFiles, path, { segmentBytes: 20_000, compress: COMPRESSED_AT_ONCE })
  let id = 0
  const add = async (count: number): Promise<void> => {
    for (let added = 0; added < count; added++, id++) {
      await journal.append(draft(id + 1, created(id, { text: 'y'.repeat(100) })))
    }
    await until('all sealed segments to be compressed', () => {
      return journal.segments().filter(({ compressed }) => !compressed).length === 1
    })
  }
  await add(100)
  const { first } = journal.segments().at(-1) as { readonly first: number }
  let isAdded = false
  const files: Files = {
    ...nodeFiles,
    // As on another file system.
    async link() {
      if (!isAdded) await add(100)
      isAdded = true
      return false
    },
  }
  const copied = await backup(files, path, join(directory, 'db.json'), join(directory, 'out'), () => {})
  assert.equal(copied.position, 100)
  assert.ok(isAdded && journal.segments().find((segment) => segment.first === first)?.compressed)
  const positions: number[] = []
  await walk(nodeFiles, join(directory, 'out', 'db.journal'), ({ position }) => positions.push(position))
  assert.deepEqual(
    positions,
    Array.from({ length: 100 }, (_, index) => index + 1),
  )
  await journal.close()
})

const EVENTS = 30
const none = (): void => {}

test('a backup that was stopped at any call to the disk is not verified as intact, or is complete', async () => {
  const disk = new SimulatedDisk()
  const { journal } = await openJournal(disk.files(), '/data/db.journal', { segmentBytes: 2000 })
  for (let id = 0; id < EVENTS; id++) await journal.append(draft(id + 1, created(id, { text: 'x'.repeat(100) })))
  await journal.close()
  const made = disk.killed().files()
  await backup(made, '/data/db.journal', '/data/db.json', '/out', none)
  for (let stop = 1; stop <= made.calls(); stop++) {
    const copy = disk.killed()
    const files = copy.files((_, __, call) => (call === stop ? { type: 'stop' } : undefined))
    const backing = backup(files, '/data/db.journal', '/data/db.json', '/out', none)
    await Promise.race([backing, files.stopped])
    const left = copy.killed().files()
    const { ok, head } = await verify(left, { journal: '/out/db.journal', file: '/out/db.json', idField: 'id' }, none)
    assert.ok(!ok || head === EVENTS, `stopped at call ${stop}: intact up to position ${head} of ${EVENTS}`)
  }
})
