import assert from 'node:assert/strict'
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { test } from 'node:test'
import { init, replay } from '../../src/cli/run.ts'
import { created, draft } from '../contract/journal.ts'
import { openJournal } from '../support/journal.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'

const JOURNAL = '/data/db.journal'
const OUT = '/data/out.json'

test('a file that init or replay could not write on a full disk is removed, so that the next attempt can write it', async () => {
  const disk = new SimulatedDisk()
  let isFull = false
  const files = disk.files((operation) =>
    isFull && operation === 'write' ? { type: 'error', code: 'ENOSPC' } : undefined,
  )
  const { journal } = await openJournal(files, JOURNAL)
  await journal.append(draft(1, created(1)))
  await journal.close()
  const commands = [() => init(files, OUT), async () => void (await replay(files, JOURNAL, '1', OUT, () => {}))]
  for (const command of commands) {
    isFull = true
    await assert.rejects(command, { code: 'ENOSPC' })
    assert.equal(disk.bytes(OUT), undefined)
    isFull = false
    await command()
    assert.ok(JSON.parse(String(disk.bytes(OUT))))
    disk.take(OUT)
  }
})

test('without space for the temporary state of a command, the error names its directory', async (t) => {
  const files = new SimulatedDisk().files()
  const { journal } = await openJournal(files, JOURNAL)
  await journal.close()
  const full = t.mock.method(fs, 'statfsSync', () => ({ bavail: 0, bsize: 4096 }))
  syncBuiltinESMExports()
  await assert.rejects(
    replay(files, JOURNAL, '0', OUT, () => {}),
    {
      code: 'ENOSPC',
      message: `There is no room for the store in ${tmpdir()}.`,
    },
  )
  full.mock.restore()
  syncBuiltinESMExports()
})
