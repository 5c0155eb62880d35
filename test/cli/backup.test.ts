import assert from 'node:assert/strict'
import { appendFile, mkdir, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { backup } from '../../src/cli/backup.ts'
import { repair } from '../../src/cli/repair.ts'
import { restore } from '../../src/cli/restore.ts'
import { type VerifyResult, verify } from '../../src/cli/verify.ts'
import { compressSegment } from '../../src/events/compression.ts'
import { lockDirectory } from '../../src/events/directory.ts'
import type { Segment } from '../../src/events/segment.ts'
import { walk } from '../../src/events/walk.ts'
import type { Files } from '../../src/files/files.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { stateOf, temporaryDirectory } from '../support/directory.ts'
import { Random, SEED } from '../support/random.ts'
import { startServer } from '../support/service.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'
import { append, firstSegment, segmentsIn } from './appended.ts'
import { edit } from './recollect.ts'

const none = (): void => {}

interface Paths {
  readonly file: string
  readonly journal: string
  /** The backup's directory. */
  readonly to: string
  /** The journal in it. */
  readonly copy: string
}

function pathsIn(directory: string): Paths {
  const to = join(directory, 'backups')
  return { file: join(directory, 'db.json'), journal: join(directory, 'db.journal'), to, copy: join(to, 'db.journal') }
}

async function newPaths(t: TestContext): Promise<Paths> {
  return pathsIn(await temporaryDirectory(t))
}

function backUp(paths: Paths, files: Files = nodeFiles, link = false): Promise<{ position: number; events: number }> {
  return backup(files, { ...paths, link }, none)
}

function verifyCopy({ to, copy }: Paths, files: Files = nodeFiles): Promise<VerifyResult> {
  return verify(files, { journal: copy, file: `${to}/db.json`, idField: 'id' }, none)
}

async function assertIntact(paths: Paths, position: number, files: Files = nodeFiles): Promise<void> {
  const { ok, head, dataFile, problems } = await verifyCopy(paths, files)
  assert.deepEqual({ ok, head, dataFile, problems }, { ok: true, head: position, dataFile: 'missing', problems: [] })
}

test('a backup continues in its directory: only what is new is written, and without news nothing is', async (t) => {
  const paths = await newPaths(t)
  const first = await append(nodeFiles, paths.journal, 30)
  assert.deepEqual(await backUp(paths), { position: first, events: first })
  await assertIntact(paths, first)
  const before = await stateOf(paths.copy)

  const second = await append(nodeFiles, paths.journal, 30)
  assert.deepEqual(await backUp(paths), { position: second, events: second - first })
  await assertIntact(paths, second)
  assert.deepEqual(await segmentsIn(nodeFiles, paths.copy), await segmentsIn(nodeFiles, paths.journal))
  const after = await stateOf(paths.copy)
  const names = Object.keys(before)
    .filter((path) => path.endsWith('.ndjson'))
    .sort()
  assert.ok(names.length > 3)
  for (const name of names.slice(0, -1)) assert.equal(after[name], before[name], `${name} is not written again`)

  assert.deepEqual(await backUp(paths), { position: second, events: 0 })
  assert.deepEqual(await stateOf(paths.copy), after)
})

test('a backup shares no file with the journal, and with link only the sealed segments', async (t) => {
  for (const link of [false, true]) {
    const paths = await newPaths(t)
    await append(nodeFiles, paths.journal, 20)
    const original = await segmentsIn(nodeFiles, paths.journal)
    await backUp(paths, nodeFiles, link)
    assert.deepEqual(await segmentsIn(nodeFiles, paths.journal), original, 'the journal is not written to')
    const names = [...original.keys()]
    const links = await Promise.all(names.map(async (name) => (await stat(join(paths.copy, name))).nlink))
    assert.deepEqual(
      links,
      names.map((_, index) => (link && index < names.length - 1 ? 2 : 1)),
    )
    const head = await append(nodeFiles, paths.journal, 20)
    const grown = await segmentsIn(nodeFiles, paths.journal)
    await backUp(paths, nodeFiles, link)
    assert.deepEqual(await segmentsIn(nodeFiles, paths.journal), grown)
    await assertIntact(paths, head)
  }
})

test('a linked segment that is the last one of an older copy of the journal is not written to', async (t) => {
  const paths = await newPaths(t)
  await append(nodeFiles, paths.journal, 22)
  await backUp(paths)
  const [last] = [...(await segmentsIn(nodeFiles, paths.journal)).keys()].reverse() as [string]
  await rm(join(paths.copy, last))
  await nodeFiles.link(join(paths.journal, last), join(paths.copy, last))
  const head = await append(nodeFiles, paths.journal, 1)
  const original = await segmentsIn(nodeFiles, paths.journal)
  assert.equal([...original.keys()].at(-1), last, 'it is the last one still')
  await backUp(paths)
  assert.deepEqual(await segmentsIn(nodeFiles, paths.journal), original)
  assert.equal((await stat(join(paths.copy, last))).nlink, 1)
  await assertIntact(paths, head)
})

test('a backup takes over segments that the journal has compressed since', async (t) => {
  const paths = await newPaths(t)
  const random = new Random(SEED)
  for (let round = 0; round < 6; round++) {
    const head = await append(nodeFiles, paths.journal, random.integer(20) + 1, { compresses: round % 2 === 1 })
    await backUp(paths)
    await assertIntact(paths, head)
    assert.deepEqual(await segmentsIn(nodeFiles, paths.copy), await segmentsIn(nodeFiles, paths.journal))
  }
})

test('a backup contains the state at its begin, even when its last segment is compressed meanwhile', async (t) => {
  const paths = await newPaths(t)
  const head = await append(nodeFiles, paths.journal, 30)
  let isAdded = false
  const files: Files = {
    ...nodeFiles,
    // As on another file system.
    async link() {
      if (!isAdded) await append(nodeFiles, paths.journal, 60, { compresses: true })
      isAdded = true
      return false
    },
  }
  assert.equal((await backUp(paths, files, true)).position, head)
  assert.ok(isAdded)
  await assertIntact(paths, head)
  const last = await append(nodeFiles, paths.journal, 0)
  assert.deepEqual(await backUp(paths), { position: last, events: last - head })
  assert.deepEqual(await segmentsIn(nodeFiles, paths.copy), await segmentsIn(nodeFiles, paths.journal))
})

test('a torn tail is not in a backup, which continues when a start has cut it off', async (t) => {
  const paths = await newPaths(t)
  const head = await append(nodeFiles, paths.journal, 10)
  const [last] = [...(await segmentsIn(nodeFiles, paths.journal)).keys()].reverse() as [string]
  await appendFile(join(paths.journal, last), '{"frame":"0123')
  assert.equal((await backUp(paths)).position, head)
  assert.equal((await verifyCopy(paths)).unfinishedBytes, 0)
  const next = await append(nodeFiles, paths.journal, 10)
  assert.deepEqual(await backUp(paths), { position: next, events: next - head })
  await assertIntact(paths, next)
})

test('a new segment without a record is not in a backup', async (t) => {
  const paths = await newPaths(t)
  const head = await append(nodeFiles, paths.journal, 10)
  const segments = [...(await segmentsIn(nodeFiles, paths.journal))]
  const [last, text] = segments.at(-1) as [string, string]
  const first = Number(last.slice(0, 20))
  const header = text.slice(0, text.indexOf('\n') + 1)
  const short = await newPaths(t)
  await mkdir(short.journal)
  for (const [name, bytes] of segments.slice(0, -1)) await writeFile(join(short.journal, name), bytes, 'latin1')
  await writeFile(join(short.journal, last), header, 'latin1')
  assert.equal((await backUp(short)).position, first - 1)
  await assertIntact(short, first - 1)
  await writeFile(join(short.journal, last), text, 'latin1')
  assert.deepEqual(await backUp(short), { position: head, events: head - first + 1 })
  await assertIntact(short, head)
})

test('a backup refuses another journal, and one that lost its end or continued differently, and changes nothing', async (t) => {
  const paths = await newPaths(t)
  const early = await append(nodeFiles, paths.journal, 9, { id: 'one' })
  const aside = join(paths.journal, '..', 'aside')
  await nodeFiles.makeDirectory(aside)
  for (const [name, bytes] of await segmentsIn(nodeFiles, paths.journal))
    await writeFile(join(aside, name), bytes, 'latin1')
  const head = await append(nodeFiles, paths.journal, 9)
  await backUp(paths)
  const before = await stateOf(paths.to)
  const refused = async (journal: string, why: RegExp): Promise<void> => {
    await assert.rejects(backUp({ ...paths, journal }), why)
    assert.deepEqual(await stateOf(paths.to), before)
  }
  await refused(aside, new RegExp(`has position ${head}, and the journal ends at ${early}: it has lost the events`))
  await append(nodeFiles, aside, 30, { text: 'y' })
  await refused(
    aside,
    new RegExp(`up to position ${head} of a journal that continued differently.*Nothing was changed`),
  )
  const other = `${aside}-2`
  await append(nodeFiles, other, 30, { id: 'two' })
  await refused(other, /was built from the journal one, and this one is two\. .*another directory/)
  await refused(`${aside}-3`, /and this one is empty/)
})

test('a backup of a journal in which a repair joined segments is refused with what to do, and can be restored', async (t) => {
  const paths = await newPaths(t)
  await append(nodeFiles, paths.journal, 40)
  const { position } = await backUp(paths)
  const names = [...(await segmentsIn(nodeFiles, paths.journal)).keys()]
  for (const name of names.slice(-2)) await rm(join(paths.journal, name))
  await repair(nodeFiles, { journal: paths.journal, from: paths.to }, none)
  const before = await stateOf(paths.to)
  for (let round = 0; round < 2; round++) {
    await assert.rejects(
      backUp(paths),
      /segments begin at other positions, as after some repairs.*Nothing was changed\. Back up to another directory; the former/,
    )
    assert.deepEqual(await stateOf(paths.to), before)
    await append(nodeFiles, paths.journal, 1)
  }
  const restored = join(paths.to, '..', 'restored')
  const target = { file: `${restored}/db.json`, journal: `${restored}/db.journal` }
  assert.equal((await restore(nodeFiles, { from: paths.to, ...target, to: undefined }, none)).position, position)
  assert.ok((await backUp({ ...paths, to: `${paths.to}-2` })).position > position)
})

test('a backup refuses a directory that is not its own', async (t) => {
  const paths = await newPaths(t)
  await assert.rejects(backUp(paths), /There is no journal in/)
  const { journal } = paths
  await append(nodeFiles, journal, 0)
  await assert.rejects(backUp(paths), /has no events yet/)
  assert.equal(await nodeFiles.stat(paths.to), undefined)
  await append(nodeFiles, journal, 3)
  const directory = join(journal, '..')
  const linked = join(directory, 'linked')
  await symlink(journal, linked)
  for (const to of [journal, join(journal, 'inside'), join(linked, 'inside')]) {
    await assert.rejects(backUp({ ...paths, to }), /is within the journal/)
  }
  await assert.rejects(backUp({ ...paths, to: directory }), /is not empty, and has no backup\.json/)
  await writeFile(join(directory, 'plain'), '')
  await assert.rejects(backUp({ ...paths, to: join(directory, 'plain') }), /is a file/)
  const before = await readdir(directory, { recursive: true })
  await backUp(paths)
  assert.deepEqual(
    before.filter((name) => name.startsWith('backups')),
    [],
  )
  await assert.rejects(backUp({ ...paths, file: join(directory, 'other.json') }), /has the backup of db\.json/)
  await assert.rejects(backUp({ ...paths, journal: paths.copy }), /is the backup that .* belongs to/)
  const lock = await lockDirectory(nodeFiles, paths.copy)
  await assert.rejects(backUp(paths), /is in use by another process/)
  await lock.release()
  await writeFile(join(paths.to, 'backup.json'), '{"format":1')
  await assert.rejects(backUp(paths), /backup\.json is damaged/)
  await writeFile(join(paths.to, 'backup.json'), '{"format":2}')
  await assert.rejects(backUp(paths), /not of this version/)
})

test('a backup that waited while another one ended is not written over it', async (t) => {
  const paths = await newPaths(t)
  const head = await append(nodeFiles, paths.journal, 10)
  let isFirst = true
  const files: Files = {
    ...nodeFiles,
    async lock(path) {
      if (isFirst) await backUp(paths)
      isFirst = false
      return nodeFiles.lock(path)
    },
  }
  await assert.rejects(backUp(paths, files), /Another backup to .* has just ended\. Repeat this one\./)
  await assertIntact(paths, head)
  assert.deepEqual(await backUp(paths, files), { position: head, events: 0 })
})

test('a backup can be served in an emergency, and does not continue then', async (t) => {
  const paths = await newPaths(t)
  const head = await append(nodeFiles, paths.journal, 10)
  await backUp(paths)
  const server = await startServer(t, { directory: paths.to })
  const answer = await server.fetch('/api/things')
  assert.equal(((await answer.json()) as unknown[]).length, head - 1)
  await server.stop()
  await assert.rejects(backUp(paths), /was served: its journal may have events of its own/)
})

test('a damaged journal leaves its backup as it was, and begins none', async (t) => {
  const paths = await newPaths(t)
  const head = await append(nodeFiles, paths.journal, 10)
  await backUp(paths)
  await append(nodeFiles, paths.journal, 10)
  const segments = await segmentsIn(nodeFiles, paths.journal)
  const [last] = [...segments.keys()].reverse() as [string]
  await edit(join(paths.journal, last), (bytes) => bytes.toString('latin1').replace('xxx', 'xyx'))
  const before = await stateOf(paths.to)
  await assert.rejects(backUp(paths), /offset \d+, position \d+/)
  assert.deepEqual(await stateOf(paths.to), before)
  await assertIntact(paths, head)
  const to = join(paths.to, '..', 'new')
  await assert.rejects(backUp({ ...paths, to }), /offset \d+, position \d+/)
  assert.equal(await nodeFiles.stat(to), undefined)
})

test('a flipped bit of a backup is detected by verify, and repaired from the journal', async (t) => {
  const paths = await newPaths(t)
  await append(nodeFiles, paths.journal, 20, { compresses: true })
  const head = await append(nodeFiles, paths.journal, 10)
  await backUp(paths)
  const names = [...(await segmentsIn(nodeFiles, paths.copy)).keys()]
  const random = new Random(SEED)
  for (const name of names) {
    const path = join(paths.copy, name)
    await edit(path, (bytes) => {
      const flipped = Buffer.from(bytes)
      const at = random.integer(flipped.length)
      flipped[at] = (flipped[at] as number) ^ (1 << random.integer(8))
      return flipped
    })
    const { ok, problems } = await verifyCopy(paths)
    assert.equal(ok, false, name)
    assert.match(String(problems), new RegExp(name.slice(0, 20)))
    await repair(nodeFiles, { journal: paths.copy, from: paths.journal }, () => {})
    await assertIntact(paths, head)
    await backUp(paths)
  }
})

test('a copy that the disk changes is not kept, and the next backup repeats it', async (t) => {
  const paths = await newPaths(t)
  const head = await append(nodeFiles, paths.journal, 20)
  let isDamaged = false
  const files: Files = {
    ...nodeFiles,
    async rename(from, to) {
      await nodeFiles.rename(from, to)
      if (isDamaged || to !== firstSegment(paths.copy)) return
      isDamaged = true
      await edit(to, (bytes) => bytes.toString('latin1').replace('xxx', 'xyx'))
    },
  }
  await assert.rejects(
    backUp(paths, files),
    /The backup is damaged: .*offset \d+.*\. Repeat the backup; if it fails again, recollect repair --journal .* repairs it\.$/,
  )
  assert.equal((await verifyCopy(paths)).ok, false)
  await backUp(paths)
  await assertIntact(paths, head)
})

test('a backup that lacks segments copies them again, also after a repair that gave others their events', async (t) => {
  const paths = await newPaths(t)
  await append(nodeFiles, paths.journal, 40)
  const { position } = await backUp(paths)
  const names = [...(await segmentsIn(nodeFiles, paths.copy)).keys()]
  assert.ok(names.length > 3)
  const damages = {
    'a missing segment': () => rm(join(paths.copy, names[1] as string)),
    'a missing last segment': () => rm(join(paths.copy, names.at(-1) as string)),
    'a missing segment after a damaged one': async () => {
      await edit(join(paths.copy, names[0] as string), (bytes) => bytes.subarray(0, -10))
      await rm(join(paths.copy, names[1] as string))
    },
    'a missing last record of a segment': () =>
      edit(join(paths.copy, names[1] as string), (bytes) =>
        bytes.subarray(0, bytes.lastIndexOf('\n', bytes.length - 2) + 1),
      ),
  }
  for (const [what, damage] of Object.entries(damages))
    for (const isRepaired of [true, false]) {
      await damage()
      if (isRepaired) await repair(nodeFiles, { journal: paths.copy, from: paths.journal }, () => {})
      assert.deepEqual(await backUp(paths), { position, events: 0 }, what)
      await assertIntact(paths, position)
      assert.deepEqual([...(await segmentsIn(nodeFiles, paths.copy)).keys()], names, what)
    }
})

test('damage of the journal does not reach a backup that has the events, also when the segment is compressed', async (t) => {
  const paths = await newPaths(t)
  await append(nodeFiles, paths.journal, 20)
  await backUp(paths)
  const [first = ''] = [...(await segmentsIn(nodeFiles, paths.journal)).keys()]
  await edit(join(paths.journal, first), (bytes) => bytes.toString('latin1').replace('xxx', 'xyx'))
  const { segments } = await walk(nodeFiles, paths.journal, undefined, { damaged: () => {} })
  const [segment] = segments
  const size = (await nodeFiles.stat(join(paths.journal, first)))?.size ?? 0
  await compressSegment(nodeFiles, { ...(segment as Segment), size }, async () => {})
  // The server continues with its store, and the checkpoint of the backup proves the history.
  const again = await backUp(paths)
  assert.equal(again.events, 0)
  await assertIntact(paths, again.position)
})

test('a full disk leaves a backup at its former position', async () => {
  const disk = new SimulatedDisk()
  const paths = pathsIn('/data')
  const first = await append(disk.files(), paths.journal, 20)
  const full = disk.files((operation, path) =>
    operation === 'write' && path.startsWith(paths.to) ? { type: 'error', code: 'ENOSPC' } : undefined,
  )
  await assert.rejects(backUp(paths, full), { code: 'ENOSPC' })
  await backUp(paths, disk.files())
  const second = await append(disk.files(), paths.journal, 20)
  const message = `The disk of the backup ${paths.to} is full. It still has the events up to ${first}; repeat the backup when there is room.`
  await assert.rejects(backUp(paths, full), { code: 'DiskFull', message })
  await restoreAndCount(disk.files(), paths, first)
  await backUp(paths, disk.files())
  await assertIntact(paths, second, disk.files())
})

async function restoreAndCount(files: Files, { to }: Paths, position: number | readonly number[]): Promise<void> {
  const target = { file: '/restored/db.json', journal: '/restored/db.journal' }
  const restored = await restore(files, { from: to, ...target, to: undefined }, none)
  assert.ok([position].flat().includes(restored.position), `restored up to ${restored.position}, not ${position}`)
  const { ok, head, dataFile } = await verify(files, { ...target, idField: 'id' }, none)
  assert.deepEqual({ ok, head, dataFile }, { ok: true, head: restored.position, dataFile: 'current' })
}

test('a first backup stopped at any call to the disk is not verified as intact, or is complete, and is continued', async () => {
  const disk = new SimulatedDisk()
  const paths = pathsIn('/data')
  const head = await append(disk.files(), paths.journal, 12)
  const made = disk.killed().files()
  await backUp(paths, made)
  const random = new Random(SEED)
  for (let stop = 1; stop <= made.calls(); stop++) {
    const copy = disk.killed()
    const files = copy.files((_, __, call) => (call === stop ? { type: 'stop' } : undefined))
    await Promise.race([backUp(paths, files), files.stopped])
    for (const left of [copy.killed().files(), copy.powerLost(random).files()]) {
      const { ok, head: found } = await verifyCopy(paths, left)
      assert.ok(!ok || found === head, `stopped at call ${stop}: intact up to position ${found} of ${head}`)
      await backUp(paths, left)
      await assertIntact(paths, head, left)
    }
  }
})

test('a backup stopped at any call to the disk is continued when the journal has been compressed since', async () => {
  const disk = new SimulatedDisk()
  const paths = pathsIn('/data')
  await append(disk.files(), paths.journal, 12)
  await backUp(paths, disk.files())
  // The last segment has room for more.
  await append(disk.files(), paths.journal, 22)
  const made = disk.killed().files()
  await backUp(paths, made)
  const random = new Random(SEED)
  for (let stop = 1; stop <= made.calls(); stop += 1 + random.integer(3)) {
    const copy = disk.killed()
    const stopped = copy.files((_, __, call) => (call === stop ? { type: 'stop' } : undefined))
    await Promise.race([backUp(paths, stopped), stopped.stopped])
    const left = copy.killed()
    const head = await append(left.files(), paths.journal, 20, { compresses: true })
    for (let round = 0; round < 2; round++) {
      assert.equal((await backUp(paths, left.files())).position, head, `stopped at call ${stop}`)
      await assertIntact(paths, head, left.files())
    }
  }
})

test('a later backup stopped at any call to the disk keeps its former position, and is continued', async () => {
  const disk = new SimulatedDisk()
  const paths = pathsIn('/data')
  const first = await append(disk.files(), paths.journal, 8)
  await backUp(paths, disk.files())
  const second = await append(disk.files(), paths.journal, 8, { compresses: true })
  const made = disk.killed().files()
  await backUp(paths, made)
  const random = new Random(SEED)
  for (let stop = 1; stop <= made.calls(); stop++) {
    const copy = disk.killed()
    const files = copy.files((_, __, call) => (call === stop ? { type: 'stop' } : undefined))
    await Promise.race([backUp(paths, files), files.stopped])
    for (const left of [copy.killed(), copy.powerLost(random)]) {
      await restoreAndCount(left.killed().files(), paths, [first, second])
      await backUp(paths, left.files())
      await assertIntact(paths, second, left.files())
      assert.deepEqual(await segmentsIn(left.files(), paths.copy), await segmentsIn(left.files(), paths.journal))
    }
  }
})
