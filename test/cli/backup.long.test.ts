import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { History } from '../faults/history.ts'
import { Load } from '../faults/load.ts'
import { stateOf, temporaryDirectory } from '../support/directory.ts'
import { Random, SEED } from '../support/random.ts'
import { json, type RunningProgram, runToEnd, startProgram } from '../support/server.ts'
import { readJson, recollect, startWritten } from './recollect.ts'

async function eventsOf(server: RunningProgram): Promise<readonly string[]> {
  const answer = await server.fetch('/events', { headers: { Accept: 'application/x-ndjson' } })
  return (await answer.text()).split('\n').slice(0, -1)
}

test('a backup of a running server under load opens and is a prefix of the same history', async (t) => {
  const flags = ['--Api.UpsertOnPut', 'true', '--Journal.SegmentBytes', '20000', '--Journal.Compress', '0']
  const server = await startProgram(t, { data: {}, flags })
  const load = new Load(new Random(SEED), 'b')
  const working = load.run(server.url, 8)
  const copies: { readonly directory: string; readonly position: number; readonly least: number }[] = []
  for (const name of ['one', 'two', 'three']) {
    await load.reached(load.acknowledged + 150)
    const directory = join(server.directory, name)
    const least = load.seen
    const { code, stdout, stderr } = await recollect(t, server.directory, 'backup', '--out', directory)
    assert.equal(code, 0, stderr)
    const [, position] = /up to position (\d+); recollect --file \S+\/db\.json opens the copy\.$/m.exec(stdout) ?? []
    copies.push({ directory, position: Number(position), least })
  }
  load.end()
  await working
  await new History().check(server.url, load)
  const all = await eventsOf(server)

  for (const { directory, position, least } of copies) {
    assert.ok(position >= least, `what was acknowledged before is in the copy: ${position} of ${least}`)
    const verified = await recollect(t, directory, 'verify', '--json')
    assert.equal(verified.code, 0, verified.stdout)
    const { head, dataFile } = JSON.parse(verified.stdout) as { head: number; dataFile: string }
    assert.deepEqual([head, dataFile], [position, 'current'])
    const state = join(server.directory, `at-${position}.json`)
    await recollect(t, server.directory, 'replay', '--to', String(position), '--out', state)
    assert.equal(await readFile(join(directory, 'db.json'), 'utf8'), await readFile(state, 'utf8'))

    const copy = await startProgram(t, { directory, flags })
    assert.deepEqual(await eventsOf(copy), all.slice(0, position), 'opening it adds no event')
    assert.equal((await copy.fetch('/api/a', json('POST', {}))).headers.get('Journal-Position'), String(position + 1))
    assert.equal(await copy.stop(), 0)
  }
  assert.deepEqual(await eventsOf(server), all, 'what is done to a copy is not done to the original')
  assert.equal(await server.stop(), 0)
  assert.equal((await recollect(t, server.directory, 'verify')).code, 0)
})

test('a backup of a stopped server leaves it unchanged and omits a torn tail', async (t) => {
  const server = await startWritten(t, 10)
  assert.equal(await server.stop(), 0)
  const segments = (await readdir(join(server.directory, 'db.journal'))).filter((name) => name.endsWith('.ndjson'))
  const last = join(server.directory, 'db.journal', segments.sort().at(-1) as string)
  await writeFile(last, `${await readFile(last, 'utf8')}{"frame":"0123`)
  const before = await stateOf(server.directory)
  const out = join(await temporaryDirectory(t), 'made', 'on', 'the', 'way')
  const { code } = await recollect(t, server.directory, 'backup', '--out', out)
  assert.equal(code, 0)
  // A hard link of a segment changes nothing of it but the number of its names.
  assert.deepEqual(await stateOf(server.directory), before)
  const verified = await recollect(t, out, 'verify', '--json')
  assert.equal((JSON.parse(verified.stdout) as { unfinishedBytes: number }).unfinishedBytes, 0)
  const copy = await startProgram(t, { directory: out })
  assert.deepEqual(await (await copy.fetch('/api/a')).json(), [{ id: 'x', n: 10 }])
  assert.equal(await copy.stop(), 0)
  assert.deepEqual(await readJson(join(out, 'db.json')), await readJson(server.file))
})

test('a backup needs a new or empty directory', async (t) => {
  const server = await startWritten(t, 2)
  const out = join(server.directory, 'copy')
  await mkdir(out)
  await writeFile(join(out, 'mine'), 'mine')
  const refused = await recollect(t, server.directory, 'backup', '--out', out)
  assert.equal(refused.code, 1)
  assert.match(refused.stderr, /is not empty/)
  assert.deepEqual(await readdir(out), ['mine'])
  await rm(join(out, 'mine'))
  assert.equal((await recollect(t, server.directory, 'backup', '--out', out)).code, 0)
})

test('a backup of a missing or damaged journal fails and creates nothing', async (t) => {
  const empty = await temporaryDirectory(t)
  const none = await recollect(t, empty, 'backup', '--out', join(empty, 'copy'))
  assert.equal(none.code, 1)
  assert.match(none.stderr, /There is no journal in/)
  assert.deepEqual(await readdir(empty), [])

  const server = await startWritten(t, 5)
  assert.equal(await server.stop(), 0)
  const segment = join(server.directory, 'db.journal', '00000000000000000001.ndjson')
  await writeFile(segment, (await readFile(segment, 'utf8')).replace('"n":1', '"n":7'))
  const damaged = await recollect(t, server.directory, 'backup', '--out', join(server.directory, 'copy'))
  assert.equal(damaged.code, 1)
  assert.match(damaged.stderr, /offset \d+, position \d+/)
  assert.equal(existsSync(join(server.directory, 'copy')), false)

  const flagless = await recollect(t, server.directory, 'backup')
  assert.equal(flagless.code, 2)
  assert.match(flagless.stderr, /needs --out/)
})

test('an older journal below a newer data file is rejected; --accept-journal loses nothing of the file', async (t) => {
  const server = await startWritten(t, 5)
  const out = join(server.directory, 'copy')
  assert.equal((await recollect(t, server.directory, 'backup', '--out', out)).code, 0)
  for (let n = 6; n < 10; n++) await server.fetch('/api/b', json('POST', { n }))
  assert.equal(await server.stop(), 0)
  const newer = await readJson(server.file)
  const journal = join(server.directory, 'db.journal')
  await rm(journal, { recursive: true })
  await cp(join(out, 'db.journal'), journal, { recursive: true })

  // A lock is made where there is none, and says nothing.
  await writeFile(join(journal, 'lock'), '')
  const before = await stateOf(server.directory)
  const serve = ['--file', server.file, '--urls', 'http://127.0.0.1:0']
  const refused = await runToEnd(t, server.directory, serve)
  assert.equal(refused.code, 1)
  assert.match(refused.stderr, /it has lost the events \d+ to \d+/)
  assert.match(refused.stderr, /--accept-journal/)
  assert.equal((await recollect(t, server.directory, 'verify')).code, 1)
  assert.deepEqual(await stateOf(server.directory), before)

  const accepted = await startProgram(t, { directory: server.directory, flags: ['--accept-journal'] })
  assert.equal(await accepted.stop(), 0)
  assert.deepEqual(await readJson(server.file), newer)
  const again = await startProgram(t, { directory: server.directory })
  assert.equal(((await (await again.fetch('/api/b')).json()) as unknown[]).length, 9)
  assert.equal(await again.stop(), 0)
})
