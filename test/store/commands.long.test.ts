import assert from 'node:assert/strict'
import { cpSync, readdirSync, readFileSync, statSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { temporaryDirectory } from '../support/directory.ts'
import { json, runToEnd, startProgram } from '../support/server.ts'
import { checkServed } from './service.ts'

const STORE = 'db.journal/store/store.mdb'
const COMPACTED = 'db.journal/store/store-2.mdb'
const ITEMS = 3000

function run(t: TestContext, directory: string, command: string, ...flags: string[]) {
  return runToEnd(t, directory, [command, '--file', join(directory, 'db.json'), ...flags])
}

test('compact shrinks a store that has grown, a server starts with it, and it is rejected while one runs', async (t) => {
  const directory = await temporaryDirectory(t)
  const a = Array.from({ length: ITEMS }, (_, id) => ({ id, text: 'x'.repeat(400) }))
  let server = await startProgram(t, { directory, data: { a, b: [] } })
  await server.fetch('/api/b', json('POST', {}))
  const refused = await run(t, directory, 'compact')
  assert.equal(refused.code, 1)
  assert.match(refused.stderr, /^recollect: .*(another|process|lock)/i)
  // An edit that removes nearly all leaves the room that they had.
  assert.equal((await server.fetch('/admin/snapshot', { method: 'POST' })).status, 200)
  const edited = await server.fetch('/admin/restore', json('POST', { to: 0 }))
  assert.equal(edited.status, 200, await edited.text())
  const expected = await checkServed(server.url, 'before')
  assert.equal(await server.stop(), 0, server.stderr())

  const before = statSync(join(directory, STORE)).size
  const { code, stdout } = await run(t, directory, 'compact')
  const after = statSync(join(directory, COMPACTED))
  assert.equal(code, 0)
  assert.equal(stdout, `The store had ${before} bytes, and has ${after.size}.\n`)
  assert.ok(after.size < before / 2, `${before} bytes before, ${after.size} after`)
  assert.equal(after.mode & 0o777, 0o600)
  assert.deepEqual(
    readdirSync(join(directory, 'db.journal/store')).filter((name) => name.endsWith('.mdb')),
    ['store-2.mdb'],
  )

  const verified = await run(t, directory, 'verify', '--store')
  assert.equal(verified.code, 0, verified.stdout + verified.stderr)
  server = await startProgram(t, { directory })
  assert.doesNotMatch(server.stderr(), /built again/)
  assert.deepEqual(await checkServed(server.url, 'after'), expected)
  assert.equal((await server.fetch('/api/b', json('POST', {}))).status, 201)
})

test('a journal that was set back is rejected with exit code 1, and served when accepted', async (t) => {
  const directory = await temporaryDirectory(t)
  let server = await startProgram(t, { directory, data: { a: [{ id: 0 }] } })
  await server.fetch('/api/a', json('POST', { n: 1 }))
  assert.equal(await server.stop(), 0)
  const older = join(await temporaryDirectory(t), 'older')
  cpSync(directory, older, { recursive: true, preserveTimestamps: true })
  server = await startProgram(t, { directory })
  for (let n = 2; n < 5; n++) await server.fetch('/api/a', json('POST', { n }))
  assert.equal(await server.stop(), 0)
  const [segment] = readdirSync(join(directory, 'db.journal')).filter((name) => name.endsWith('.ndjson'))
  const path = `db.journal/${segment}`
  const whole = readFileSync(join(directory, path))

  const sets: Readonly<Record<string, () => void>> = {
    'cut at the end of a record': () => truncateSync(join(directory, path), whole.lastIndexOf('\n', -2) + 1),
    'an older copy': () => cpSync(join(older, path), join(directory, path)),
  }
  for (const [how, setBack] of Object.entries(sets)) {
    setBack()
    const started = await runToEnd(t, directory, ['--file', join(directory, 'db.json'), '--urls', 'http://127.0.0.1:0'])
    assert.equal(started.code, 1, how)
    assert.match(started.stderr, /^recollect: .*(events|journal).*--accept-journal/m, how)
    assert.equal(started.stdout, '', how)
  }
  // The data file would be taken in as an edit.
  cpSync(join(older, 'db.json'), join(directory, 'db.json'))
  server = await startProgram(t, { directory, flags: ['--accept-journal'] })
  const served = await checkServed(server.url, 'accepted')
  assert.equal(served.get('a')?.size, 2)
  assert.equal((await server.fetch('/api/a', json('POST', { n: 9 }))).status, 201)
  assert.equal(await server.stop(), 0)
  const verified = await run(t, directory, 'verify', '--store')
  assert.equal(verified.code, 0, verified.stdout + verified.stderr)
})

test('a store that was set back to an older copy catches up, and one of another journal is rejected', async (t) => {
  const directory = await temporaryDirectory(t)
  let server = await startProgram(t, { directory, data: { a: [{ id: 0 }] } })
  assert.equal(await server.stop(), 0)
  const older = join(await temporaryDirectory(t), 'older')
  cpSync(directory, older, { recursive: true, preserveTimestamps: true })
  server = await startProgram(t, { directory })
  for (let n = 1; n < 5; n++) await server.fetch('/api/a', json('POST', { n }))
  assert.equal(await server.stop(), 0)
  cpSync(join(older, 'db.journal/store'), join(directory, 'db.journal/store'), {
    recursive: true,
    preserveTimestamps: true,
  })
  server = await startProgram(t, { directory })
  assert.doesNotMatch(server.stderr(), /built again/)
  assert.equal((await checkServed(server.url, 'set back')).get('a')?.size, 5)
  assert.equal(await server.stop(), 0)

  const other = await temporaryDirectory(t)
  server = await startProgram(t, { directory: other, data: { a: [{ id: 'other' }] } })
  assert.equal(await server.stop(), 0)
  cpSync(join(other, 'db.journal/store'), join(directory, 'db.journal/store'), {
    recursive: true,
    preserveTimestamps: true,
  })
  const refused = await runToEnd(t, directory, ['--file', join(directory, 'db.json'), '--urls', 'http://127.0.0.1:0'])
  assert.equal(refused.code, 1)
  assert.match(refused.stderr, /was built from the journal .*, and this one is .*--accept-journal/)
  server = await startProgram(t, { directory, flags: ['--accept-journal'] })
  assert.equal((await checkServed(server.url, 'accepted')).get('a')?.size, 5)
})
