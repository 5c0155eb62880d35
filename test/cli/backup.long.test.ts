import assert from 'node:assert/strict'
import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { History } from '../faults/history.ts'
import { Load } from '../faults/load.ts'
import { type Scope, stateOf, temporaryDirectory } from '../support/directory.ts'
import { Random, SEED } from '../support/random.ts'
import { json, type RunningProgram, runToEnd, spawnServer, startProgram } from '../support/server.ts'
import { type Ran, readJson, recollect, startWritten } from './recollect.ts'

async function eventsOf(server: RunningProgram): Promise<readonly string[]> {
  const answer = await server.fetch('/events', { headers: { Accept: 'application/x-ndjson' } })
  return (await answer.text()).split('\n').slice(0, -1)
}

test('a backup of a running server under load continues, and each restore is a prefix of the same history', async (t) => {
  const flags = ['--Api.UpsertOnPut', 'true', '--Journal.SegmentBytes', '20000', '--Journal.Compress', '0']
  const server = await startProgram(t, { data: {}, flags })
  const load = new Load(new Random(SEED), 'b')
  const working = load.run(server.url, 8)
  const to = join(server.directory, 'backup')
  const copies: { readonly directory: string; readonly position: number; readonly least: number }[] = []
  for (const name of ['one', 'two', 'three']) {
    await load.reached(load.acknowledged + 150)
    const directory = join(server.directory, name)
    const least = load.seen
    const { code, stdout, stderr } = await recollect(t, server.directory, 'backup', '--to', to)
    assert.equal(code, 0, stderr)
    const [, position] = /has the journal up to position (\d+); new events: \d+\. /.exec(stdout) ?? []
    const restored = await restoreTo(t, directory, to)
    assert.equal(restored.code, 0, restored.stderr)
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
    const events = await eventsOf(copy)
    assert.deepEqual(events.map(withoutJournal), all.slice(0, position).map(withoutJournal), 'opening it adds no event')
    assert.equal((await copy.fetch('/api/a', json('POST', {}))).headers.get('Journal-Position'), String(position + 1))
    assert.equal(await copy.stop(), 0)
  }
  assert.deepEqual(await eventsOf(server), all, 'what is done to a copy is not done to the original')
  assert.equal(await server.stop(), 0)
  assert.equal((await recollect(t, server.directory, 'verify')).code, 0)
})

/** Restores to a new directory. */
async function restoreTo(t: Scope, directory: string, from: string): Promise<Ran> {
  await mkdir(directory)
  return recollect(t, directory, 'restore', '--from', from)
}

/** The restored journal has another UUID. */
function withoutJournal(event: string): string {
  return event.replace(/"journal":"[^"]*"/, '"journal":""')
}

test('a backup killed at random moments under load is continued by the next one, and what it had is restored', async (t) => {
  const flags = ['--Api.UpsertOnPut', 'true', '--Journal.SegmentBytes', '20000', '--Journal.Compress', '0']
  const server = await startProgram(t, { data: {}, flags })
  const random = new Random(SEED)
  const load = new Load(random, 'k')
  const working = load.run(server.url, 4)
  const to = join(server.directory, 'backup')
  let position = 0
  for (let round = 0; round < 12; round++) {
    await load.reached(load.acknowledged + 100)
    const started = spawnServer(t, server.directory, { isBare: true, flags: ['backup', server.file, '--to', to] })
    await delay(100 + random.integer(150))
    started.process.kill('SIGKILL')
    await started.ended()
    if (position > 0) {
      const directory = join(server.directory, `killed-${round}`)
      const restored = await restoreTo(t, directory, to)
      assert.equal(restored.code, 0, restored.stderr)
      const { head } = JSON.parse((await recollect(t, directory, 'verify', '--json')).stdout) as { head: number }
      assert.ok(head >= position, `it had ${position}, and has ${head}`)
    }
    if (round % 3 !== 2) continue
    const whole = await recollect(t, server.directory, 'backup', '--to', to)
    assert.equal(whole.code, 0, whole.stderr)
    position = Number(/position (\d+)/.exec(whole.stdout)?.[1])
    assert.equal((await recollect(t, to, 'verify')).code, 0)
  }
  load.end()
  await working
  assert.equal(await server.stop(), 0)
})

test('a backup of a stopped server leaves it unchanged and omits a torn tail', async (t) => {
  const server = await startWritten(t, 10)
  assert.equal(await server.stop(), 0)
  const segments = (await readdir(join(server.directory, 'db.journal'))).filter((name) => name.endsWith('.ndjson'))
  const last = join(server.directory, 'db.journal', segments.sort().at(-1) as string)
  await writeFile(last, `${await readFile(last, 'utf8')}{"frame":"0123`)
  const before = await stateOf(server.directory)
  const to = join(await temporaryDirectory(t), 'made', 'on', 'the', 'way')
  const out = join(to, '..', 'restored')
  assert.equal((await recollect(t, server.directory, 'backup', '--to', to)).code, 0)
  assert.equal((await restoreTo(t, out, to)).code, 0)
  assert.deepEqual(await stateOf(server.directory), before)
  const verified = await recollect(t, out, 'verify', '--json')
  assert.equal((JSON.parse(verified.stdout) as { unfinishedBytes: number }).unfinishedBytes, 0)
  const copy = await startProgram(t, { directory: out })
  assert.deepEqual(await (await copy.fetch('/api/a')).json(), [{ id: 'x', n: 10 }])
  assert.equal(await copy.stop(), 0)
  assert.deepEqual(await readJson(join(out, 'db.json')), await readJson(server.file))
})

test('a backup without --to, or with the flag of earlier releases, names --to', async (t) => {
  const directory = await temporaryDirectory(t)
  for (const flags of [[], ['--out', 'copy']]) {
    const { code, stderr } = await recollect(t, directory, 'backup', ...flags)
    assert.equal(code, 2)
    assert.match(stderr, /recollect backup needs --to/)
    if (flags.length > 0) assert.match(stderr, /Unknown flag --out; did you mean --to\?/)
  }
})

test('an older journal below a newer data file is rejected; --accept-journal loses nothing of the file', async (t) => {
  const server = await startWritten(t, 5)
  const out = join(server.directory, 'copy')
  assert.equal((await recollect(t, server.directory, 'backup', '--to', out)).code, 0)
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
