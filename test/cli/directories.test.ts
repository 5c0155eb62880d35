import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { lockDirectory } from '../../src/events/directory.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { runToEnd, startServer } from '../support/server.ts'

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
