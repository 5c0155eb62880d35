import assert from 'node:assert/strict'
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { CliCommand } from '../../src/cli/invocation.ts'
import { init, replay, run } from '../../src/cli/run.ts'
import { lockDirectory } from '../../src/events/directory.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { created, draft } from '../contract/journal.ts'
import { openJournal } from '../support/journal.ts'
import { runToEnd } from '../support/server.ts'
import { startServer } from '../support/service.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'

test('a journal whose directory cannot be created is reported with the flag that names another one', async () => {
  // As Node reports it for a read-only file system.
  const error = Object.assign(new Error("ENOENT: no such file or directory, mkdir '/data/db.journal'"), {
    code: 'ENOENT',
  })
  const files = { ...nodeFiles, makeDirectory: () => Promise.reject(error) }
  await assert.rejects(
    lockDirectory(files, '/data/db.journal'),
    /cannot be created: .*\/data\/db\.journal.* read-only\? --journal names another one\.$/,
  )
})

test('a temporary directory that cannot be used is reported with the variable that names another one', async (t) => {
  const server = await startServer(t, { data: { a: [] } })
  await server.stop()
  const TMPDIR = join(server.directory, 'none')
  const { code, stderr } = await runToEnd(t, server.directory, ['verify', 'db.json'], { TMPDIR })
  assert.equal(code, 1)
  assert.match(
    stderr,
    /^recollect: The temporary directory \S+ cannot be used \(.*\); .* TMPDIR names another one\.\n$/,
  )
})

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

test('a full disk ends a restore or the first backup with what to do, and the next attempt is complete', async () => {
  const disk = new SimulatedDisk()
  let isFull = false
  const files = disk.files((operation, path) =>
    isFull && operation === 'write' && /backup|new/.test(path) ? { type: 'error', code: 'ENOSPC' } : undefined,
  )
  const { journal } = await openJournal(files, JOURNAL)
  await journal.append(draft(1, created(1)))
  await journal.close()
  const terminal = { out: () => {}, progress: undefined }
  const copy = { file: '/new/db.json', journal: '/new/db.journal', to: undefined }
  const commands: CliCommand[] = [
    { type: 'backup', file: '/data/db.json', journal: JOURNAL, to: '/backup', link: false },
    { type: 'restore', from: '/backup', ...copy },
  ]
  for (const command of commands) {
    isFull = true
    await assert.rejects(run(command, files, terminal), {
      code: 'DiskFull',
      message: /^The disk is full: .*\. Repeat the command when there is room\.$/,
    })
    isFull = false
    assert.equal(await run(command, files, terminal), 0)
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
