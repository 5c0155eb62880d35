import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { gunzipSync } from 'node:zlib'
import { type Checkpoint, checkpointMismatch } from '../../src/events/checkpoint.ts'
import { compressSegment } from '../../src/events/compression.ts'
import { damageText } from '../../src/events/damage.ts'
import { InflatedMembers, MemberTable } from '../../src/events/members.ts'
import { type Segment, segmentName } from '../../src/events/segment.ts'
import { SegmentReader } from '../../src/events/segment-reader.ts'
import { walk } from '../../src/events/walk.ts'
import type { Files } from '../../src/files/files.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { Corruption } from '../../src/runtime/errors.ts'
import { all, created, draft, durableJournalContract } from '../contract/journal.ts'
import { DEADLINE_MS, until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { COMPRESSED_AT_ONCE, damageUpTo, openJournal } from '../support/journal.ts'
import { Random, SEED } from '../support/random.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'

const DIRECTORY = '/journal'
const FIRST = `${DIRECTORY}/${segmentName(1)}`
const noRest = async (): Promise<void> => {}
/** A journal of some segments, of about so many bytes each, and the checkpoint at its end. */
async function written(segmentBytes: number, events: number, itemBytes = 200): Promise<SimulatedDisk> {
  const random = new Random(events)
  const disk = new SimulatedDisk()
  const { journal } = await openJournal(disk.files(), DIRECTORY, { segmentBytes })
  for (let id = 0; id < events; id++) {
    const text = Array.from({ length: itemBytes / 4 }, () => random.integer(1000)).join(' ')
    await journal.append(draft(id + 1, created(id, { text })))
  }
  await journal.close()
  return disk
}

async function segmentsOf(files: Files): Promise<readonly Segment[]> {
  return (await walk(files, DIRECTORY, () => {})).segments
}

async function compressAll(files: Files): Promise<void> {
  for (const segment of (await segmentsOf(files)).slice(0, -1)) await compressSegment(files, segment, noRest)
}

for (const segmentBytes of [1024, 300]) {
  durableJournalContract(
    `the file journal with segments of ${segmentBytes} bytes that are compressed at once`,
    async (t) => {
      const directory = await temporaryDirectory(t)
      let now = new Date('2026-11-20T00:00:00.000Z')
      const open = async () =>
        (await openJournal(nodeFiles, directory, { now: () => now, segmentBytes, compress: COMPRESSED_AT_ONCE }))
          .journal
      let journal = await open()
      t.after(() => journal.close().catch(() => {}))
      return {
        journal,
        setTime: (iso) => {
          now = new Date(iso)
        },
        reopen: async () => {
          await journal.close()
          journal = await open()
          return journal
        },
      }
    },
  )
}

test('a compressed segment is gzip, so zcat and zgrep show its lines', async (t) => {
  const directory = await temporaryDirectory(t)
  const { journal } = await openJournal(nodeFiles, directory, { segmentBytes: 300_000 })
  for (let id = 0; id < 1500; id++)
    await journal.append(draft(id + 1, created(id, { text: `reading ${id} `.repeat(20) })))
  await journal.close()
  const path = join(directory, segmentName(1))
  const plain = await readFile(path)
  const { segments } = await walk(nodeFiles, directory, () => {})
  const bytes = await compressSegment(nodeFiles, segments[0] as Segment, noRest)
  assert.deepEqual(
    (await readdir(directory)).filter((name) => name.startsWith(segmentName(1))),
    [`${segmentName(1)}.gz`],
  )
  const compressed = await readFile(`${path}.gz`)
  assert.equal(compressed.length, bytes)
  assert.ok(compressed.length * 3 < plain.length)
  assert.ok(gunzipSync(compressed).equals(plain))
  assert.ok(execFileSync('zcat', [`${path}.gz`], { maxBuffer: 2 ** 24, timeout: DEADLINE_MS }).equals(plain))
  assert.match(
    execFileSync('zgrep', ['-c', 'reading 77 ', `${path}.gz`], { encoding: 'utf8', timeout: DEADLINE_MS }),
    /^1\n$/,
  )
})

test('readers and the next start find every event during and after compression', async (t) => {
  const directory = await temporaryDirectory(t)
  const { journal } = await openJournal(nodeFiles, directory, { segmentBytes: 20_000, compress: COMPRESSED_AT_ONCE })
  const compressed = () => journal.segments().filter((segment) => segment.compressed).length
  let read = 0
  for (let id = 0; id < 1000; id++) {
    await journal.append(draft(id + 1, created(id, { text: 'x'.repeat(100) })))
    if (id % 10 > 0) continue
    const from = 1 + Math.floor((id * 7) / 10)
    const found = await all(journal, from, id + 1)
    assert.deepEqual([found[0]?.position, found.length], [from, id + 2 - from])
    read += found.length
  }
  assert.ok(read > 10_000)
  await until('it is compressed', () => compressed() === journal.segments().length - 1)
  const before = await all(journal)
  assert.equal(before.length, 1000)
  const checkpoint = journal.checkpoint() as Checkpoint
  await journal.close()
  assert.equal(await checkpointMismatch(nodeFiles, directory, checkpoint), undefined)
  assert.deepEqual(await damageUpTo(nodeFiles, directory, checkpoint), [])
  const again = await openJournal(nodeFiles, directory)
  assert.equal(again.recovered.length, 1000)
  assert.deepEqual(await all(again.journal), before)
  await again.journal.append(draft(1001, created(7)))
  await again.journal.close()
})

test('a journal whose last segment is compressed continues in a new one', async () => {
  const disk = await written(4096, 40)
  const files = disk.files()
  for (const segment of await segmentsOf(files)) await compressSegment(files, segment, noRest)
  const { journal, recovered } = await openJournal(files, DIRECTORY)
  assert.equal(recovered.length, 40)
  await journal.append(draft(41, created(40)))
  assert.equal((await all(journal)).length, 41)
  await journal.close()
  assert.equal((await walk(files, DIRECTORY, () => {})).next.position, 42)
})

test('a record longer than a gzip member of 64 KiB is stored in one member and read from it', async () => {
  const disk = new SimulatedDisk()
  const { journal } = await openJournal(disk.files(), DIRECTORY, { segmentBytes: 500_000 })
  const sizes = [10, 200_000, 10, 70_000, 65_536, 300_000, 10]
  for (const [id, size] of sizes.entries()) await journal.append(draft(id + 1, created(id, { text: 'é'.repeat(size) })))
  const before = await all(journal)
  await journal.close()
  await compressAll(disk.files())
  const { journal: again } = await openJournal(disk.files(), DIRECTORY)
  assert.deepEqual(await all(again), before)
  for (const [id] of sizes.entries()) assert.deepEqual(await all(again, id + 1, id + 1), [before[id]])
  await again.close()
})

test('damage of any byte of a compressed segment is detected and named by position', async () => {
  const random = new Random(SEED)
  const disk = await written(150_000, 600)
  await compressAll(disk.files())
  const [, second] = await segmentsOf(disk.files())
  assert.ok(second)
  const { journal } = await openJournal(disk.killed().files(), DIRECTORY)
  const checkpoint = JSON.parse(JSON.stringify(journal.checkpoint())) as Checkpoint
  await journal.close()
  const path = `${FIRST}.gz`
  const bytes = disk.bytes(path) as Buffer
  const positions = new Set<number>()
  // The table at its end byte by byte, the rest here and there.
  const places = [0, 1, 3, 8, 9, 10]
  for (let at = 11; at < bytes.length - 200; at += 1 + random.integer(400)) places.push(at)
  for (let at = bytes.length - 200; at < bytes.length; at++) places.push(at)
  for (const at of places) {
    const context = `SEED=${SEED}, byte ${at} of ${bytes.length}`
    const damaged = disk.killed()
    const changed = Buffer.from(bytes)
    changed[at] = (changed[at] as number) ^ (1 << random.integer(8))
    damaged.put(path, changed)
    const whys = (await damageUpTo(damaged.files(), DIRECTORY, checkpoint)).map(damageText)
    assert.ok(whys.length > 0, context)
    for (const reading of [
      () => walk(damaged.files(), DIRECTORY, () => {}),
      () => openJournal(damaged.files(), DIRECTORY),
    ]) {
      await assert.rejects(reading, (error) => {
        assert.ok(error instanceof Corruption, context)
        whys.push(error.message)
        return true
      })
    }
    for (const why of whys) {
      assert.ok(why.includes(path), `${context}: ${why}`)
      const [, position] = /position (\d+)/.exec(why) ?? []
      assert.ok(Number(position) >= 1 && Number(position) < second.first, `${context}: ${why}`)
      positions.add(Number(position))
    }
  }
  assert.ok(positions.size >= 3, 'each member has its own first position')
})

test('a reader reports a damaged member when it reads from it, and not before', async () => {
  const disk = await written(300_000, 900)
  await compressAll(disk.files())
  const path = `${FIRST}.gz`
  const bytes = Buffer.from(disk.bytes(path) as Buffer)
  // As a start finds them that goes on from a store: nothing of the text was read.
  const segments = (await segmentsOf(disk.files())).map(({ members, ...unread }) => unread)
  const first = segments[1]?.first as number
  bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] as number) ^ 1
  disk.put(path, bytes)
  const found: number[] = []
  const read = async (from: number, to: number) => {
    found.length = 0
    for await (const recorded of new SegmentReader(disk.files(), segments).events(from, to))
      found.push(recorded.position)
  }
  await read(1, 100)
  assert.equal(found.length, 100)
  await read(first, 900)
  assert.equal(found.length, 901 - first)
  await assert.rejects(read(1, 900), Corruption)
  assert.ok(found.length > 100 && found.length < first)
})

test('a compressed segment that is missing, truncated or exchanged is rejected', async () => {
  const disk = await written(20_000, 200)
  await compressAll(disk.files())
  const path = `${FIRST}.gz`
  const bytes = disk.bytes(path) as Buffer
  const other = (await written(20_000, 201)).killed()
  await compressAll(other.files())
  const refused = async (change: (copy: SimulatedDisk) => void, why: RegExp) => {
    const copy = disk.killed()
    change(copy)
    await assert.rejects(openJournal(copy.files(), DIRECTORY), (error) => {
      assert.ok(error instanceof Corruption)
      assert.match(error.message, why)
      return true
    })
  }
  await refused((copy) => copy.take(path), /begins with position 1 is missing/)
  for (const length of [0, 10, 45, 46, bytes.length - 1, bytes.length >> 1]) {
    await refused(
      (copy) => copy.put(path, bytes.subarray(0, length)),
      /position 1: the table of its gzip members is damaged/,
    )
  }
  await refused((copy) => copy.put(path, Buffer.concat([bytes, Buffer.from('\n')])), /table of its gzip members/)
  await refused((copy) => copy.put(path, other.bytes(path) as Buffer), /follow|another journal/)
})

test('a kill or power loss at any step of a compression loses nothing', async () => {
  const random = new Random(SEED)
  const disk = await written(150_000, 350)
  const expected = await eventsOf(disk)
  const calls = await (async () => {
    const files = disk.killed().files()
    const [first] = await segmentsOf(files)
    const before = files.calls()
    await compressSegment(files, first as Segment, noRest)
    return files.calls() - before
  })()
  assert.ok(calls > 10)
  for (let step = 1; step <= calls; step++) {
    const context = `SEED=${SEED}, step ${step} of ${calls}`
    const running = disk.killed()
    const [first] = await segmentsOf(running.files())
    const files = running.files((_operation, _path, call) => (call === step ? { type: 'stop' } : undefined))
    void compressSegment(files, first as Segment, noRest).catch(() => {})
    await files.stopped
    for (const left of [running.killed(), running.powerLost(random), running.powerLost(random)]) {
      assert.deepEqual(await eventsOf(left), expected, context)
      // And the next process does what this one did not.
      const again = left.files()
      const { journal } = await openJournal(again, DIRECTORY, { compress: COMPRESSED_AT_ONCE })
      await until('it is compressed', () => left.bytes(FIRST) === undefined)
      assert.equal((await all(journal)).length, 350, context)
      await journal.close()
      assert.deepEqual(
        left.list(DIRECTORY).filter((name) => name.endsWith('.tmp')),
        [],
        context,
      )
      assert.deepEqual(await eventsOf(left), expected, context)
    }
  }
})

test('a segment that cannot be compressed stays as it is, and is retried later', async () => {
  const disk = await written(20_000, 100)
  const expected = await eventsOf(disk)
  for (const code of ['ENOSPC', 'EIO', 'EMFILE']) {
    const copy = disk.killed()
    let fails = true
    const later: (() => void)[] = []
    const warned: object[] = []
    const files = copy.files((operation, path) =>
      fails && path.endsWith('.tmp') && operation !== 'remove' && operation !== 'stat'
        ? { type: 'error', code }
        : undefined,
    )
    const { journal } = await openJournal(files, DIRECTORY, {
      compress: {
        afterMs: 0,
        schedule: (work, delayMs) => {
          if (delayMs < 10_000) return COMPRESSED_AT_ONCE.schedule(work)
          later.push(work)
          return { cancel: () => {} }
        },
        log: { info: () => {}, warn: (facts) => warned.push(facts) },
      },
    })
    await until('it is compressed', () => later.length === 1)
    assert.equal(warned.length, 1)
    assert.ok(copy.bytes(FIRST))
    assert.equal((await all(journal)).length, 100)
    assert.ok(!copy.list(DIRECTORY).some((name) => name.endsWith('.tmp')))
    fails = false
    later[0]?.()
    await until('it is compressed', () => copy.bytes(FIRST) === undefined)
    await journal.close()
    assert.deepEqual(await eventsOf(copy), expected)
  }
})

test('a segment to which damage has added bytes is not compressed, which would lose its last records', async () => {
  const disk = await written(20_000, 100)
  const files = disk.files()
  const [first] = await segmentsOf(files)
  const bytes = disk.bytes(FIRST) as Buffer
  disk.put(FIRST, Buffer.concat([bytes.subarray(0, 5000), bytes.subarray(4000)]))
  await assert.rejects(compressSegment(files, first as Segment, noRest), /its size has changed/)
  assert.equal(disk.bytes(FIRST)?.length, bytes.length + 1000)
  assert.deepEqual(
    disk.list(DIRECTORY).filter((name) => name.includes('.gz')),
    [],
  )
})

test('closing a journal does not wait for a rest of its compression, whose timer keeps no process alive', async () => {
  const disk = await written(20_000, 100)
  let rests = 0
  const { journal } = await openJournal(disk.files(), DIRECTORY, {
    compress: {
      ...COMPRESSED_AT_ONCE,
      schedule: (work, delayMs) => {
        if (delayMs === 0) return COMPRESSED_AT_ONCE.schedule(work)
        rests++
        return { cancel: () => {} }
      },
    },
  })
  await until('the compression to rest', () => rests === 1)
  await journal.close()
  assert.deepEqual(
    disk.list(DIRECTORY).filter((name) => /^\d/.test(name) && !name.endsWith('.ndjson')),
    [],
  )
})

test('a compressed segment is compared with the original before that is removed', async () => {
  const disk = await written(20_000, 100)
  const real = disk.files()
  const lying: Files = {
    ...real,
    async open(path, how, mode) {
      const file = await real.open(path, how, mode)
      if (how !== 'create') return file
      return {
        ...file,
        write(bytes, offset) {
          const changed = Buffer.from(bytes)
          if (offset === 0) changed[40] = (changed[40] as number) ^ 4
          return file.write(changed, offset)
        },
      }
    },
  }
  const [first] = await segmentsOf(real)
  await assert.rejects(compressSegment(lying, first as Segment, noRest), Corruption)
  assert.ok(disk.bytes(FIRST))
  assert.ok(!disk.list(DIRECTORY).some((name) => name.includes('.gz')))
})

test('a table of many members is read as it was written', async (t) => {
  const directory = await temporaryDirectory(t)
  const path = join(directory, 'table')
  for (const count of [0, 1, 4999, 5000, 5001, 12_000]) {
    const table = new MemberTable()
    for (let at = 0; at < count; at++) table.add(Buffer.from([at & 255]), 1 + (at % 7))
    await writeFile(path, Buffer.concat([Buffer.alloc(count), table.encode()]))
    assert.equal((await readFile(path)).length, table.fileSize)
    const file = await nodeFiles.open(path, 'read')
    const read = await MemberTable.read(file)
    await file.close()
    assert.equal(read?.size, table.size)
    for (let offset = 0; offset <= table.size; offset += 97) assert.deepEqual(read?.at(offset), table.at(offset))
    await rm(path)
  }
})

test('the cache of members is bounded, and the least recently used are evicted', () => {
  const cache = new InflatedMembers()
  const [one, other] = [1, 7]
  const text = Buffer.alloc(1024 * 1024)
  for (let offset = 0; offset < 20; offset++) {
    cache.set(offset % 2 ? one : other, offset, text)
    cache.get(other, 0)
  }
  cache.set(one, 99, Buffer.alloc(8 * text.length + 1))
  assert.equal(cache.get(one, 99), undefined)
  assert.equal(cache.get(one, 0), undefined, 'the segments are told apart')
  const cached = Array.from({ length: 20 }, (_, offset) => offset).filter((at) => cache.get(at % 2 ? one : other, at))
  assert.deepEqual(cached, [0, 13, 14, 15, 16, 17, 18, 19])
})

async function eventsOf(disk: SimulatedDisk): Promise<unknown[]> {
  const found: unknown[] = []
  await walk(disk.killed().files(), DIRECTORY, ({ position, time, events }) => {
    found.push([position, time, ...Array.from(events, (event) => ('item' in event ? event.item.text : event.type))])
  })
  return found
}
