import assert from 'node:assert/strict'
import { test } from 'node:test'
import { backup } from '../../src/cli/backup.ts'
import { verify } from '../../src/cli/verify.ts'
import { created, draft } from '../contract/journal.ts'
import { openJournal } from '../support/journal.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'

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
