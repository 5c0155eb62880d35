import assert from 'node:assert/strict'
import { mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { gunzipSync } from 'node:zlib'
import { backup } from '../../src/cli/backup.ts'
import { repair } from '../../src/cli/repair.ts'
import { restore } from '../../src/cli/restore.ts'
import { replay } from '../../src/cli/run.ts'
import { verify } from '../../src/cli/verify.ts'
import { readStateFile } from '../../src/data-file/state-file.ts'
import { lastPosition, type Recorded } from '../../src/events/journal.ts'
import { walk } from '../../src/events/walk.ts'
import type { Files } from '../../src/files/files.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { stateOf, temporaryDirectory } from '../support/directory.ts'
import { Random, SEED } from '../support/random.ts'
import { json } from '../support/server.ts'
import { startServer } from '../support/service.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'
import { append, firstSegment, segmentsIn, timeOf } from './appended.ts'
import { edit } from './recollect.ts'

const none = (): void => {}

interface Backup {
  readonly directory: string
  readonly journal: string
  /** The backup's directory. */
  readonly from: string
  /** Position of the last event. */
  readonly head: number
}

async function backedUp(directory: string, files: Files, { compresses = false } = {}): Promise<Backup> {
  const [journal, from] = [join(directory, 'db.journal'), join(directory, 'backup')]
  const head = await append(files, journal, 40, { compresses })
  await backup(files, { file: join(directory, 'db.json'), journal, to: from, link: false }, none)
  return { directory, journal, from, head }
}

async function newBackup(t: TestContext, options?: { readonly compresses: boolean }): Promise<Backup> {
  return backedUp(await temporaryDirectory(t), nodeFiles, options)
}

function targetIn({ directory }: Backup, name: string): { readonly file: string; readonly journal: string } {
  return { file: join(directory, name, 'db.json'), journal: join(directory, name, 'db.journal') }
}

async function writesOf(directory: string): Promise<readonly Recorded[]> {
  const found: Recorded[] = []
  await walk(nodeFiles, directory, (recorded) => found.push(recorded))
  return found
}

test('a restored journal has the writes up to a random position, and the state that the original had there', async (t) => {
  const random = new Random(SEED)
  for (const compresses of [false, true]) {
    const made = await newBackup(t, { compresses })
    const writes = await writesOf(made.journal)
    for (let round = 0; round < 8; round++) {
      const { time, ...last } = random.pick(writes)
      const position = lastPosition({ time, ...last })
      const target = targetIn(made, `at-${round}`)
      const restored = await restore(nodeFiles, { from: made.from, ...target, to: String(position) }, none)
      assert.deepEqual([restored.position, restored.time], [position, time])
      assert.deepEqual(
        await writesOf(target.journal),
        writes.filter((write) => write.position <= position),
      )
      const state = join(made.directory, `state-${round}.json`)
      await replay(nodeFiles, made.journal, String(position), state, none)
      assert.equal(await readFile(target.file, 'utf8'), await readFile(state, 'utf8'))
      const { ok, id, head, dataFile } = await verify(nodeFiles, { ...target, idField: 'id' }, none)
      assert.deepEqual({ ok, id, head, dataFile }, { ok: true, id: restored.id, head: position, dataFile: 'current' })
      const names = [...(await segmentsIn(nodeFiles, target.journal)).keys()]
      const forms = names.map((name) => name.endsWith('.gz'))
      assert.deepEqual(
        forms,
        names.map((_, index) => compresses && index < names.length - 1),
        'compressed as they were',
      )
    }
  }
})

test('a restored journal is served, continues, and has a UUID of its own', async (t) => {
  const made = await newBackup(t)
  const original = await startServer(t, { directory: made.directory })
  const writes = await writesOf(made.journal)
  const position = lastPosition(writes[20] as Recorded)
  const target = targetIn(made, 'restored')
  const { id } = await restore(nodeFiles, { from: made.from, ...target, to: String(position) }, none)
  const server = await startServer(t, { directory: join(made.directory, 'restored') })
  const query = '/api/things?_limit=1000'
  const [state, past] = await Promise.all([
    server.fetch(query).then((answer) => answer.text()),
    original.fetch(`${query}&asOf=${position}`).then((answer) => answer.text()),
  ])
  assert.equal(state, past)
  const written = await server.fetch('/api/things', json('POST', {}))
  assert.equal(written.headers.get('Journal-Position'), String(position + 1))
  assert.equal(await idOf(server), id)
  const stale = await server.fetch(`/events?from=${position + 1}&journal=${await idOf(original)}`)
  assert.equal(stale.status, 409)
  await server.stop()
  const again = backup(nodeFiles, { ...target, to: made.from, link: false }, none)
  await assert.rejects(again, new RegExp(`was built from the journal .*, and this one is ${id}`))
})

async function idOf(server: { fetch(path: string): Promise<Response> }): Promise<string> {
  return ((await (await server.fetch('/health')).json()) as { journal: { id: string } }).journal.id
}

test('a restore to a time ends with the last write up to it', async (t) => {
  const made = await newBackup(t)
  const writes = await writesOf(made.journal)
  const [write, next] = [writes[9], writes[10]] as [Recorded, Recorded]
  const justBefore = new Date(Date.parse(next.time) - 1).toISOString()
  for (const [index, to] of [write.time, justBefore].entries()) {
    const { position } = await restore(nodeFiles, { from: made.from, ...targetIn(made, `time-${index}`), to }, none)
    assert.equal(position, lastPosition(write))
  }
  const all = await restore(
    nodeFiles,
    { from: made.from, ...targetIn(made, 'later'), to: '2100-01-01T00:00:00Z' },
    none,
  )
  assert.equal(all.position, made.head)
  const early = restore(nodeFiles, { from: made.from, ...targetIn(made, 'early'), to: '2000-01-01T00:00:00Z' }, none)
  await assert.rejects(early, /first event of the backup is later than/)
  assert.equal((await nodeFiles.list(join(made.directory, 'early'))).length, 0)
  assert.equal(timeOf(write.position), write.time)
})

test('a restore refuses a position that is within a write, or not in the backup', async (t) => {
  const made = await newBackup(t)
  const target = targetIn(made, 'refused')
  const to = (text: string) => restore(nodeFiles, { from: made.from, ...target, to: text }, none)
  await assert.rejects(to('1'), /Position 1 is within the write of the events 1 to 3, .*: use --to 3\.$/)
  const long = (await writesOf(made.journal)).find(({ position, events }) => position > 1 && events.length > 1)
  const { position } = long as Recorded
  await assert.rejects(to(String(position)), new RegExp(`use --to ${position - 1} or ${position + 2}\\.$`))
  for (const text of ['0', String(made.head + 1)]) await assert.rejects(to(text), /must be a position from 1 to/)
  await assert.rejects(to('yesterday'), /must be a position or an ISO 8601 date-time/)
  await assert.rejects(to('-1'), /must be a position or an ISO 8601 date-time, not "-1"\. Positions begin at 1\.$/)
  assert.equal(await nodeFiles.stat(join(made.directory, 'refused')), undefined)
})

test('a restore overwrites nothing', async (t) => {
  const made = await newBackup(t)
  const target = targetIn(made, 'new')
  const refused = async (what: RegExp): Promise<void> => {
    const before = await stateOf(made.directory)
    await assert.rejects(restore(nodeFiles, { from: made.from, ...target, to: undefined }, none), what)
    assert.deepEqual(await stateOf(made.directory), before)
  }
  await mkdir(target.journal, { recursive: true })
  await writeFile(target.file, '{}')
  await refused(/db\.json exists\. A restore needs a new place/)
  await rm(target.file)
  await writeFile(join(target.journal, 'mine'), '')
  await refused(/db\.journal exists/)
  await rm(join(target.journal, 'mine'))
  await restore(nodeFiles, { from: made.from, ...target, to: undefined }, none)
  await rm(target.file)
  await rm(target.journal, { recursive: true })
  await refused(/The state of .*db\.json in \.recollect/)
})

test('a restore into the backup, or to a journal that is a file, is refused and changes nothing', async (t) => {
  const made = await newBackup(t)
  const target = targetIn(made, 'new')
  const plain = join(made.directory, 'plain')
  await writeFile(plain, '')
  const linked = join(made.directory, 'linked')
  await symlink(made.from, linked)
  const before = await stateOf(made.directory)
  for (const [to, why] of [
    [targetIn(made, 'backup/tried'), /is within the backup .*, which is only read/],
    [targetIn(made, 'linked/tried'), /is within the backup .*, which is only read/],
    [{ ...target, journal: join(made.from, 'other.journal') }, /is within the backup .*, which is only read/],
    [{ ...target, journal: plain }, /plain exists\. A restore needs a new place/],
  ] as const) {
    await assert.rejects(restore(nodeFiles, { from: made.from, ...to, to: undefined }, none), why)
    assert.deepEqual(await stateOf(made.directory), before)
  }
})

test('a restore refuses what is not a complete and intact backup', async (t) => {
  const made = await newBackup(t)
  const from = (directory: string) =>
    restore(nodeFiles, { from: directory, ...targetIn(made, 'new'), to: undefined }, none)
  await assert.rejects(from(made.directory), /is not a backup: it has no backup\.json/)
  const path = join(made.from, 'backup.json')
  const content = await readFile(path, 'utf8')
  await writeFile(path, '{"format":1,"dataFile":"db.json"}')
  await assert.rejects(from(made.from), /was interrupted\. Repeat it/)
  await writeFile(path, content)
  const segment = firstSegment(join(made.from, 'db.journal'))
  await edit(segment, (bytes) => bytes.toString('latin1').replace('xxx', 'xyx'))
  const repair = `recollect repair --journal ${made.from}/db\\.journal --from .* repairs it\\.$`
  await assert.rejects(from(made.from), new RegExp(`${segment}, offset \\d+, position \\d+.*${repair}`))
  await rm(segment)
  await assert.rejects(from(made.from), /the segment is missing/)
  assert.equal(await nodeFiles.stat(join(made.directory, 'new')), undefined)
})

test('a restore refuses a changed backup.json, and makes no shorter journal of it', async (t) => {
  const made = await newBackup(t)
  const path = join(made.from, 'backup.json')
  const content = await readFile(path, 'utf8')
  const end = `"position":${made.head + 1}`
  for (const changed of [
    content.replace('"segments"', '"segmentr"'),
    content.replace('"next"', '"nexu"'),
    content.replace(
      end,
      end.replace(/\d$/, (digit) => String(Number(digit) ^ 1)),
    ),
    content.replace(end, `"position":${made.head - 9}`),
  ]) {
    assert.notEqual(changed, content)
    await writeFile(path, changed)
    const restored = restore(nodeFiles, { from: made.from, ...targetIn(made, 'new'), to: undefined }, none)
    await assert.rejects(restored, /backup\.json is damaged\. Make a new backup in another directory\./)
    assert.equal(await nodeFiles.stat(join(made.directory, 'new')), undefined)
  }
})

test('a backup is restored to any position after a repair has joined or divided its segments', async (t) => {
  const random = new Random(SEED)
  for (const compresses of [false, true]) {
    const made = await newBackup(t, { compresses })
    const [copy, writes] = [join(made.from, 'db.journal'), await writesOf(made.journal)]
    // More events than the backup has, which the repair takes as well.
    await append(nodeFiles, made.journal, 10, { compresses })
    const names = [...(await segmentsIn(nodeFiles, copy)).keys()]
    const beforeLast = join(copy, names.at(-3) as string)
    const damages = {
      'without its last segments': async () => {
        for (const name of names.slice(-2)) await rm(join(copy, name))
      },
      'without a segment and the record before it': async () => {
        const text = await plainText(beforeLast)
        await rm(beforeLast)
        await writeFile(beforeLast.replace(/\.gz$/, ''), text.slice(0, text.lastIndexOf('\n', text.length - 2) + 1))
      },
    }
    const whole = new Map(await segmentsIn(nodeFiles, copy))
    for (const [what, damage] of Object.entries(damages)) {
      await damage()
      await repair(nodeFiles, { journal: copy, from: made.journal }, none)
      assert.notDeepEqual([...(await segmentsIn(nodeFiles, copy)).keys()], names, what)
      for (const to of [undefined, String(lastPosition(random.pick(writes)))]) {
        const target = targetIn(made, `${what} ${to}`)
        const { position } = await restore(nodeFiles, { from: made.from, ...target, to }, none)
        assert.equal(position, Number(to ?? made.head), what)
        const expected = writes.filter((write) => write.position <= position)
        assert.deepEqual(await writesOf(target.journal), expected, what)
        assert.equal((await verify(nodeFiles, { ...target, idField: 'id' }, none)).ok, true)
      }
      for (const name of (await segmentsIn(nodeFiles, copy)).keys()) await rm(join(copy, name))
      for (const [name, bytes] of whole) await writeFile(join(copy, name), bytes, 'latin1')
    }
  }
})

async function plainText(path: string): Promise<string> {
  const bytes = await readFile(path)
  return (path.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString('latin1')
}

test('damage after the restored position does not matter', async (t) => {
  const made = await newBackup(t)
  const copy = join(made.from, 'db.journal')
  const [last] = [...(await segmentsIn(nodeFiles, copy)).keys()].reverse() as [string]
  await edit(join(copy, last), (bytes) => bytes.toString('latin1').replace('xxx', 'xyx'))
  const to = String(Number(last.slice(0, 20)) - 1)
  const { position } = await restore(nodeFiles, { from: made.from, ...targetIn(made, 'new'), to }, none)
  assert.equal(String(position), to)
})

test('a restore stopped at any call to the disk is refused by verify, or is complete', async () => {
  const disk = new SimulatedDisk()
  const made = await backedUp('/data', disk.files(), { compresses: true })
  const target = targetIn(made, 'new')
  const to = made.head - 4
  const whole = disk.killed().files()
  await restore(whole, { from: made.from, ...target, to: String(to) }, none)
  const random = new Random(SEED)
  // Most calls read the backup and change nothing, so not every one is tried.
  for (let stop = 1; stop <= whole.calls(); stop += 1 + random.integer(5)) {
    const copy = disk.killed()
    const files = copy.files((_, __, call) => (call === stop ? { type: 'stop' } : undefined))
    await Promise.race([restore(files, { from: made.from, ...target, to: String(to) }, none), files.stopped])
    for (const left of [copy.killed(), copy.powerLost(random)]) {
      const { ok, head } = await verify(left.files(), { ...target, idField: 'id' }, none)
      assert.ok(!ok || head === to, `stopped at call ${stop}: intact up to position ${head} of ${to}`)
    }
  }
})

test('a restore killed while it writes the data file has left the mark, so that no start begins another journal', async () => {
  const disk = new SimulatedDisk()
  const made = await backedUp('/data', disk.files())
  const target = targetIn(made, 'new')
  for (const last of ['write', 'sync'] as const) {
    const copy = disk.killed()
    const files = copy.files((operation, path) =>
      operation === last && path.endsWith('.json.new') ? { type: 'stop' } : undefined,
    )
    await Promise.race([restore(files, { from: made.from, ...target, to: undefined }, none), files.stopped])
    const left = copy.killed().files()
    assert.ok(await left.stat('/data/new/.recollect/db.json.new'))
    const mark = await readStateFile(left, { ...target, dataFile: target.file })
    assert.equal(mark?.state.confirmed?.position, made.head)
  }
})
