import assert from 'node:assert/strict'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Checkpoint } from '../../src/events/checkpoint.ts'
import { compressSegment } from '../../src/events/compression.ts'
import { type Damage, JournalDamage, KnownDamage } from '../../src/events/damage.ts'
import type { Position } from '../../src/events/event.ts'
import { positioned, type Recorded } from '../../src/events/journal.ts'
import { openSource, repairJournal } from '../../src/events/repair.ts'
import { type Segment, segmentName } from '../../src/events/segment.ts'
import { SegmentReader } from '../../src/events/segment-reader.ts'
import { walk } from '../../src/events/walk.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { newestFirst } from '../../src/projections/event-search.ts'
import { Semaphore } from '../../src/runtime/turns.ts'
import { created } from '../contract/journal.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { damageUpTo, eachAt, segmentsOf } from '../support/journal.ts'
import { Random, SEED } from '../support/random.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'

const DIRECTORY = '/journal'
const COPY = '/copy'
const RECORD_BYTES = 2048
const noRest = async (): Promise<void> => {}

/** Writes of one to some hundred events. */
function writesOf(random: Random): readonly Recorded[] {
  const writes: Recorded[] = []
  for (let position = 1; writes.length < 120; ) {
    const count = writes.length % 40 === 39 ? 100 : 1 + random.integer(3)
    const events = Array.from({ length: count }, (_, index) =>
      created(position + index, { text: 'ä'.repeat(random.integer(90)) }),
    )
    const time = new Date(writes.length).toISOString()
    writes.push({ position, time, actor: 'ada', requestId: `r${position}`, events })
    position += count
  }
  return writes
}

/** A journal with some compressed segments, and a copy with other segments. */
async function written(random: Random) {
  const writes = writesOf(random)
  const disk = new SimulatedDisk()
  for (const [directory, bytes] of [
    [DIRECTORY, 6000],
    [COPY, 9000],
  ] as const)
    for (const segment of segmentsOf(writes, RECORD_BYTES, bytes))
      disk.put(`${directory}/${segmentName(segment.first)}`, segment.bytes)
  const walked = await walk(disk.files(), DIRECTORY)
  const { id, segments, next, time, lastOffset } = walked
  const checkpoint = { journal: id, next, time, lastOffset, segments } as Checkpoint
  for (const segment of segments.slice(0, -1))
    if (random.chance(0.4)) await compressSegment(disk.files(), segment, noRest)
  const texts = new Map<Position, string>()
  for (const write of writes)
    for (const [at, event] of positioned(write)) texts.set(at, JSON.stringify([write.time, event]))
  return { disk, checkpoint, segments, texts }
}

/** The file of a segment, plain or compressed. */
function fileOf(disk: SimulatedDisk, path: string): string {
  return disk.bytes(path) ? path : `${path}.gz`
}

/** Changes some bytes: flips bits, or zeroes, repeats, moves or removes a part. */
function damage(disk: SimulatedDisk, path: string, most: number, random: Random): void {
  const file = fileOf(disk, path)
  const bytes = Buffer.from(disk.bytes(file) as Buffer)
  const at = random.integer(Math.min(most, bytes.length))
  const length = random.pick([1, 20, 400, 3000])
  const part = Buffer.from(bytes.subarray(at, Math.min(at + length, most)))
  const kind = random.pick(['flip', 'flip', 'zero', 'fill', 'double', 'remove'] as const)
  if (kind === 'flip') bytes[at] = (bytes[at] as number) ^ (1 << random.integer(8))
  else if (kind === 'zero') bytes.fill(0, at, at + part.length)
  else if (kind === 'fill') for (let i = at; i < at + part.length; i++) bytes[i] = random.integer(256)
  const changed =
    kind === 'double'
      ? Buffer.concat([bytes.subarray(0, at), part, bytes.subarray(at)])
      : kind === 'remove'
        ? Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + part.length)])
        : bytes
  disk.put(file, changed)
}

/** Reads each position by itself: its event, or where reading can continue. */
async function readEach(disk: SimulatedDisk, segments: readonly Segment[], positions: Iterable<Position>) {
  const reader = new SegmentReader(disk.files(), segments)
  const found = new Map<Position, string | { readonly next: Position | undefined }>()
  for (const position of positions) {
    const both = [reader.events(position, position), reader.at([position])].map(async (events) => {
      try {
        for await (const {
          time,
          events: [event],
        } of events as AsyncIterable<Recorded & { events: readonly unknown[] }>)
          return JSON.stringify([time, event])
        return 'nothing'
      } catch (error) {
        if (!(error instanceof JournalDamage)) throw error
        return { next: error.damage.next }
      }
    })
    const [one, other] = await Promise.all(both)
    assert.deepEqual(one, other, `position ${position}, read in order and by itself`)
    found.set(position, one as string)
  }
  const readable = new Map([...found].filter(([, event]) => typeof event === 'string' && event !== 'nothing'))
  const together: string[] = []
  for await (const recorded of reader.at([...readable.keys()]))
    for (const [, event] of positioned(recorded)) together.push(JSON.stringify([recorded.time, event]))
  assert.deepEqual(together, [...readable.values()], 'those that can be read, read together')
  return found
}

const isDamaged = (places: readonly Damage[], at: Position): boolean =>
  places.some(({ position, next = Number.POSITIVE_INFINITY }) => position <= at && at < next)

test('damage hides only the events of its own place: all others are read, and reading can continue where the error says', async () => {
  const random = new Random(SEED)
  const { disk, checkpoint, segments, texts } = await written(random)
  assert.ok(segments.length > 5 && segments.some(({ members }) => members))
  let hidden = 0
  for (let run = 0; run < 60; run++) {
    const context = `SEED=${SEED}, run ${run}`
    const damaged = disk.killed()
    for (let places = 1 + random.integer(2); places > 0; places--) {
      const segment = random.pick(segments)
      // The last record before the checkpoint proves the history.
      const most = segment === segments.at(-1) ? checkpoint.lastOffset : Number.POSITIVE_INFINITY
      const isShifted = segment === segments.at(-1)
      damage(damaged, segment.path, most, isShifted ? new Random(run) : random)
      if (isShifted && damaged.bytes(segment.path)?.length !== segment.size)
        damaged.put(segment.path, disk.bytes(segment.path) as Buffer)
    }
    const found = await damageUpTo(damaged.files(), DIRECTORY, checkpoint)
    const reads = await readEach(damaged, segments, texts.keys())
    for (const [position, read] of reads) {
      if (typeof read === 'string') {
        assert.equal(read, texts.get(position), `${context}, position ${position}`)
        continue
      }
      hidden++
      assert.ok(
        isDamaged(found, position),
        `${context}, position ${position} is unreadable, and the check found ${JSON.stringify(found)}`,
      )
      const { next } = read
      assert.ok(next === undefined || next > position, context)
    }
  }
  assert.ok(hidden > 500)
})

/** The bytes of all records. */
async function recordsIn(disk: SimulatedDisk): Promise<Buffer> {
  const { segments, next } = await walk(disk.files(), DIRECTORY)
  const parts: Uint8Array[] = []
  for await (const { bytes } of new SegmentReader(disk.files(), segments).lines(1, next.position - 1))
    parts.push(Buffer.from(bytes))
  return Buffer.concat(parts)
}

test('a repair restores every byte of the records, whatever is damaged or missing, from a copy with other segments', async () => {
  const random = new Random(SEED)
  const { disk, segments, checkpoint } = await written(random)
  const whole = await recordsIn(disk)
  for (let run = 0; run < 60; run++) {
    const context = `SEED=${SEED}, run ${run}`
    const damaged = disk.killed()
    const files = damaged.files()
    for (let places = 1 + random.integer(4); places > 0; places--) {
      const { path } = random.pick(segments)
      const isThere = (await files.stat(fileOf(damaged, path))) !== undefined
      if (isThere && random.chance(0.15)) damaged.take(fileOf(damaged, path))
      else if (isThere) damage(damaged, path, Number.POSITIVE_INFINITY, random)
    }
    const options = { source: await openSource(files, COPY), progress: () => {} }
    const { damage: places, problems } = await repairJournal(files, DIRECTORY, options)
    // Bytes after the last record may be the remains of one that the copy lacks.
    const beyond = places.filter(({ position }) => position === checkpoint.next.position)
    const expected = beyond.map(
      ({ path, position }) => `${path} could not be repaired: ${COPY} has no record of position ${position}.`,
    )
    assert.deepEqual(problems, expected, context)
    for (const { path, offset } of beyond) damaged.put(path, (damaged.bytes(path) as Buffer).subarray(0, offset))
    assert.ok((await recordsIn(damaged)).equals(whole), context)
    const again = await repairJournal(files, DIRECTORY, options)
    assert.deepEqual([again.damage, again.repaired], [[], []], context)
  }
})

test('a repair restores a journal that has lost its end within a write of several records', async () => {
  const { disk, segments } = await written(new Random(SEED))
  const whole = await recordsIn(disk)
  const { path } = segments.at(-1) as Segment
  const bytes = disk.bytes(path) as Buffer
  disk.put(path, bytes.subarray(0, bytes.lastIndexOf('\n', -2) + 1))
  assert.ok((await recordsIn(disk)).length < whole.length - RECORD_BYTES, 'the write is not complete')
  const options = { source: await openSource(disk.files(), COPY), progress: () => {} }
  const { repaired, problems } = await repairJournal(disk.files(), DIRECTORY, options)
  assert.deepEqual([repaired.map((one) => one.path), problems], [[path], []])
  assert.ok((await recordsIn(disk)).equals(whole), 'all records are there')
})

test('a repair that is killed at any step is completed by the next one', async () => {
  const random = new Random(SEED)
  const { disk, segments } = await written(random)
  const whole = await recordsIn(disk)
  const repair = async (files: ReturnType<SimulatedDisk['files']>) =>
    repairJournal(files, DIRECTORY, { source: await openSource(files, COPY), progress: () => {} })
  const damaged = disk.killed()
  damage(damaged, (segments[1] as Segment).path, 3000, random)
  damage(damaged, (segments.find(({ members }) => members) as Segment).path, 500, random)
  damaged.take(fileOf(damaged, (segments[5] as Segment).path))
  const files = damaged.killed().files()
  await repair(files)
  assert.ok(files.calls() > 40)
  for (let step = 1; step <= files.calls(); step++) {
    const running = damaged.killed()
    const stopped = running.files((_operation, _path, call) => (call === step ? { type: 'stop' } : undefined))
    await Promise.race([repair(stopped), stopped.stopped])
    const after = random.chance(0.5) ? running.killed() : running.powerLost(random)
    const { problems } = await repair(after.files())
    assert.deepEqual(problems, [], `SEED=${SEED}, step ${step}`)
    assert.ok((await recordsIn(after)).equals(whole), `SEED=${SEED}, step ${step}`)
  }
})

test('a full disk ends the repair of a segment with the reason, leaves it as it was, and loses no other', async () => {
  const random = new Random(SEED)
  const { disk, segments } = await written(random)
  const whole = await recordsIn(disk)
  const damaged = disk.killed()
  const [first, second] = [segments[0] as Segment, segments[3] as Segment]
  damage(damaged, first.path, 3000, random)
  damaged.take(fileOf(damaged, second.path))
  const full = damaged.files((operation, path) =>
    operation === 'write' && path.startsWith(second.path) ? { type: 'error', code: 'ENOSPC' } : undefined,
  )
  const options = { source: await openSource(full, COPY), progress: () => {} }
  const { repaired, problems } = await repairJournal(full, DIRECTORY, options)
  assert.deepEqual(
    repaired.map(({ path }) => path),
    [first.path],
  )
  assert.match(problems.join(), /could not be repaired: the disk is full\. Repeat the repair/)
  assert.deepEqual(
    (await full.list(DIRECTORY)).filter((name) => name.endsWith('.tmp')),
    [],
  )
  assert.deepEqual((await repairJournal(damaged.files(), DIRECTORY, options)).problems, [])
  assert.ok((await recordsIn(damaged)).equals(whole))
})

test('a repair refuses another journal, and reports what its source does not have', async () => {
  const random = new Random(SEED)
  const { disk, segments } = await written(random)
  const damaged = disk.killed()
  const second = segments[1] as Segment
  damaged.take(fileOf(damaged, second.path))
  const files = damaged.files()
  const copy = await openSource(files, COPY)
  const options = { progress: () => {} }
  const other = { ...copy, id: 'another journal' }
  await assert.rejects(
    repairJournal(files, DIRECTORY, { ...options, source: other }),
    /holds another journal, another journal/,
  )
  const shorter = { ...copy, lines: (from: Position, to: Position) => copy.lines(from, Math.min(to, second.first)) }
  const { repaired, problems } = await repairJournal(files, DIRECTORY, { ...options, source: shorter })
  assert.deepEqual(repaired, [])
  assert.match(problems.join(), /could not be repaired: \/copy has no record of position \d+/)
  assert.deepEqual(
    (await files.list(DIRECTORY)).filter((name) => name.endsWith('.tmp')),
    [],
  )
  await assert.rejects(openSource(files, '/nowhere'), /has no readable segment/)
})

/** The lines of a plain segment. */
const linesIn = (disk: SimulatedDisk, path: string): string[] =>
  (disk.bytes(path) as Buffer).toString().split(/(?<=\n)/)

test('a segment without its header, or with it in another place, is damage that hides no event', async () => {
  const { disk, checkpoint, segments, texts } = await written(new Random(SEED))
  const { path } = segments.find(({ members }, index) => index > 0 && !members) as Segment
  const [header = '', first = '', ...others] = linesIn(disk, path)
  for (const lines of [
    [first, ...others],
    [first, header, ...others],
  ]) {
    const damaged = disk.killed()
    damaged.put(path, Buffer.from(lines.join('')))
    const [found] = await damageUpTo(damaged.files(), DIRECTORY, checkpoint)
    assert.deepEqual([found?.offset, found?.why], [0, 'the segment header (offset 0) is missing'])
    for (const [position, read] of await readEach(damaged, segments, texts.keys()))
      assert.equal(read, texts.get(position))
    const source = await openSource(damaged.files(), COPY)
    const { problems } = await repairJournal(damaged.files(), DIRECTORY, { source, progress: () => {} })
    assert.deepEqual(problems, [])
    assert.ok(damaged.bytes(path)?.equals(disk.bytes(path) as Buffer))
  }
})

test('a last record of a segment that another one of its length replaced is not passed over', async () => {
  const writes = Array.from({ length: 20 }, (_, index) => {
    const position = index + 1
    const time = new Date(0).toISOString()
    return { position, time, actor: 'ada', requestId: 'r', events: [created(position + 100, { n: 1 })] }
  })
  const disk = new SimulatedDisk()
  for (const { first, bytes } of segmentsOf(writes, RECORD_BYTES, 1500))
    disk.put(`${DIRECTORY}/${segmentName(first)}`, bytes)
  const { segments } = await walk(disk.files(), DIRECTORY)
  const [before, after] = segments.slice(-2) as [Segment, Segment]
  const lines = linesIn(disk, before.path)
  assert.equal(lines.at(-1)?.length, lines.at(-2)?.length)
  disk.put(before.path, Buffer.from([...lines.slice(0, -1), lines.at(-2)].join('')))
  const reader = new SegmentReader(disk.files(), segments)
  const lost = after.first - 1
  const isLost = ({ damage }: JournalDamage) => damage.position === lost && damage.next === after.first
  for (const read of [reader.events(1, 20), reader.events(lost, lost), reader.at([lost, after.first])])
    await assert.rejects(async () => {
      for await (const _ of read);
    }, isLost)
})

test('the parts of a damaged place that reads find are one place', () => {
  const known = new KnownDamage()
  const found: number[] = []
  known.found = ({ position }) => found.push(position)
  const place = (position: Position, next?: Position): Damage => ({ path: 'p', offset: 1, position, next, why: 'w' })
  const positions = () => known.list.map(({ position }) => position)
  for (let position = 900; position >= 100; position--) known.add(place(position, 1000))
  assert.deepEqual([positions(), found], [[100], [900]])
  for (let position = 100; position < 1000; position++) known.add(place(position, 1000))
  known.add(place(1000, 1001))
  known.add(place(50, 50))
  assert.deepEqual(
    [positions(), found],
    [
      [50, 100, 1000],
      [900, 1000, 50],
    ],
  )
  for (let position = 2000; position < 9000; position += 2) known.add(place(position, position + 1))
  assert.equal(known.list.length, 1000)
  known.add(place(20))
  assert.deepEqual(positions(), [20])
})

test('a page of the newest events ends soon where every second record is damaged', async () => {
  const { disk, segments, texts } = await written(new Random(SEED))
  const last = segments.at(-2) as Segment
  for (const { path, members } of segments.slice(0, -2)) {
    if (members) continue
    const lines = linesIn(disk, path).map((line, index) =>
      index % 2 === 0 ? line : line.replace('"actor"', '"Actor"'),
    )
    disk.put(path, Buffer.from(lines.join('')))
  }
  const reader = new SegmentReader(disk.files(), segments)
  let reads = 0
  const read = (from: Position, to: Position) => {
    reads++
    return reader.events(from, to)
  }
  const head = texts.size
  const journal = { head, read, at: eachAt(read) }
  const source = { journal, history: () => undefined, searches: new Semaphore(1) }
  const found: Position[] = []
  await assert.rejects(async () => {
    for await (const { position } of newestFirst(source, { from: 1 }, head, { isGone: () => false }))
      found.push(position)
  }, JournalDamage)
  assert.deepEqual(
    found,
    Array.from({ length: found.length }, (_, index) => head - index),
  )
  assert.ok((found.at(-1) as Position) <= last.first)
  assert.ok(reads < 60, `${reads} reads`)
})

test('a directory in place of a segment is damage that does not end the check', async (t) => {
  const { disk, checkpoint, segments } = await written(new Random(SEED))
  const directory = await temporaryDirectory(t)
  const second = segments[1] as Segment
  for (const { path } of segments) {
    const name = fileOf(disk, path)
    const target = join(directory, name.slice(name.lastIndexOf('/')))
    if (path === second.path) await mkdir(target)
    else await writeFile(target, disk.bytes(name) as Buffer)
  }
  const found = await damageUpTo(nodeFiles, directory, checkpoint)
  const [{ position, next } = { position: 0, next: 0 }] = found
  assert.deepEqual([found.length, position, next], [1, second.first, segments[2]?.first])
})
