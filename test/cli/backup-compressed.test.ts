import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { backup } from '../../src/cli/backup.ts'
import { walk } from '../../src/events/walk.ts'
import type { Files } from '../../src/files/files.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { created, draft } from '../contract/journal.ts'
import { until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { COMPRESSED_AT_ONCE, openJournal } from '../support/journal.ts'

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
