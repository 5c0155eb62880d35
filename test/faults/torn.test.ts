import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DomainEvent } from '../../src/events/event.ts'
import { FORMAT, NO_PREVIOUS } from '../../src/events/record-format.ts'
import { encodeHeader } from '../../src/events/record-writer.ts'
import { Corruption } from '../../src/runtime/errors.ts'
import { created, draft } from '../contract/journal.ts'
import { openJournal } from '../support/journal.ts'
import { Random, SEED } from '../support/random.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'

const DIRECTORY = '/journal'
const SEGMENT = `${DIRECTORY}/00000000000000000001.ndjson`

/** The bytes of a journal of single-event batches, and where each line begins. */
async function written(records: number, text = ''): Promise<{ bytes: Buffer; starts: number[] }> {
  const disk = new SimulatedDisk()
  const { journal } = await openJournal(disk.files(), DIRECTORY)
  for (let id = 0; id < records; id++) await journal.append(draft(id + 1, created(id, { text })))
  await journal.close()
  return linesOf(disk)
}

/** The same, the last batch holding several records. */
async function writtenWithBatch(
  before: number,
  batch: number,
  text = '',
): Promise<{ bytes: Buffer; starts: number[] }> {
  const disk = new SimulatedDisk()
  const { journal } = await openJournal(disk.files(), DIRECTORY)
  for (let id = 0; id < before; id++) await journal.append(draft(id + 1, created(id, { text })))
  await Promise.all(
    Array.from({ length: batch }, (_, n) => journal.append(draft(before + n + 1, created(before + n, { text })))),
  )
  await journal.close()
  return linesOf(disk)
}

function linesOf(disk: SimulatedDisk): { bytes: Buffer; starts: number[] } {
  const bytes = disk.bytes(SEGMENT) as Buffer
  const starts = [0]
  for (let at = bytes.indexOf('\n'); at >= 0 && at + 1 < bytes.length; at = bytes.indexOf('\n', at + 1))
    starts.push(at + 1)
  return { bytes, starts }
}

/** Opens a journal of these bytes: its head, or why it was refused. */
async function open(
  bytes: Buffer,
): Promise<{ head: number; disk: SimulatedDisk } | { refused: string; disk: SimulatedDisk }> {
  const disk = new SimulatedDisk()
  disk.put(SEGMENT, Buffer.from(bytes))
  try {
    const { journal, recovered } = await openJournal(disk.files(), DIRECTORY)
    assert.deepEqual(
      recovered.map(({ position }) => position),
      Array.from({ length: journal.head }, (_, index) => index + 1),
    )
    await journal.close()
    return { head: journal.head, disk }
  } catch (error) {
    assert.ok(error instanceof Corruption, String(error))
    return { refused: error.message, disk }
  }
}

test('cut at any byte of its last record, a journal opens with the earlier ones, and keeps and reports the rest', async () => {
  const { bytes, starts } = await written(4)
  const last = starts.at(-1) as number
  for (let size = last + 1; size < bytes.length; size++) {
    const disk = new SimulatedDisk()
    disk.put(SEGMENT, bytes.subarray(0, size))
    const { journal, recovered } = await openJournal(disk.files(), DIRECTORY)
    assert.equal(recovered.length, 3, `cut at ${size}`)
    const { cut } = journal
    assert.equal(cut?.offset, last)
    assert.deepEqual(disk.bytes(cut?.kept as string), bytes.subarray(last, size))
    assert.deepEqual(disk.bytes(SEGMENT), bytes.subarray(0, last))
    assert.equal((await journal.append(draft(4, created(9)))).position, 4, 'the next one takes its place')
    await journal.close()
  }
})

test('starts that fail after keeping a torn tail, or while they keep it, do not keep it again and again', async () => {
  const { bytes, starts } = await written(4)
  const last = starts.at(-1) as number
  const tail = bytes.subarray(last, bytes.length - 20)
  const kept = `${SEGMENT}.torn-${last}`
  const disk = new SimulatedDisk()
  disk.put(SEGMENT, bytes.subarray(0, bytes.length - 20))
  let failing = 'write'
  const files = disk.files((operation, path) =>
    operation === failing && path.startsWith(SEGMENT) ? { type: 'error', code: 'ENOSPC' } : undefined,
  )
  const keptFiles = (): readonly string[] => disk.list(DIRECTORY).filter((name) => name.includes('.torn-'))
  for (failing of ['write', 'write', 'truncate', 'truncate', 'truncate']) {
    await assert.rejects(openJournal(files, DIRECTORY), { code: 'ENOSPC' })
    assert.equal(keptFiles().length, failing === 'write' ? 0 : 1, failing)
  }
  // A kill may leave a part of it.
  disk.put(kept, tail.subarray(0, 10))
  failing = ''
  const { journal } = await openJournal(files, DIRECTORY)
  assert.equal(journal.cut?.kept, kept)
  assert.equal(keptFiles().length, 1)
  assert.deepEqual(disk.bytes(kept), tail)
  await journal.close()

  // Another tail at the same place is kept beside it.
  disk.put(SEGMENT, bytes.subarray(0, bytes.length - 21))
  disk.put(kept, Buffer.concat([tail, Buffer.from('x')]))
  const again = await openJournal(files, DIRECTORY)
  assert.equal(again.journal.cut?.kept, `${kept}-2`)
  await again.journal.close()
})

test('any zeroed sectors in the last write batch are a torn tail', async () => {
  const { bytes, starts } = await writtenWithBatch(3, 5, 'x'.repeat(300))
  const batch = starts[4] as number
  const sectors: [number, number][] = []
  for (let from = batch; from < bytes.length; from = Math.min(bytes.length, (Math.floor(from / 512) + 1) * 512)) {
    sectors.push([from, Math.min(bytes.length, (Math.floor(from / 512) + 1) * 512)])
  }
  assert.ok(sectors.length >= 4 && sectors.length <= 10, `${sectors.length} sectors`)
  for (let subset = 1; subset < 2 ** sectors.length; subset++) {
    const damaged = Buffer.from(bytes)
    for (const [index, [from, to]] of sectors.entries()) if (subset & (1 << index)) damaged.fill(0, from, to)
    const opened = await open(damaged)
    assert.ok('head' in opened, `subset ${subset}: ${JSON.stringify(opened)}`)
    assert.ok(opened.head >= 3, 'what was synced is there')
    const firstZero = damaged.indexOf(0, batch)
    const whole = starts.filter(
      (start, index) => start >= batch && (starts[index + 1] ?? bytes.length) <= firstZero,
    ).length
    assert.equal(opened.head, 3 + whole)
  }
})

test('an incomplete write at the end is cut completely', async () => {
  const disk = new SimulatedDisk()
  const { journal } = await openJournal(disk.files(), DIRECTORY)
  await journal.append(draft(1, created(0)))
  await journal.append(
    draft(2, ...Array.from({ length: 30 }, (_, id) => created(id + 1, { text: 'z'.repeat(60_000) }))),
  )
  await journal.close()
  const { bytes, starts } = linesOf(disk)
  assert.ok(starts.length > 4, 'the write spans records')
  for (const end of starts.slice(3)) {
    const opened = await open(bytes.subarray(0, end))
    assert.ok('head' in opened && opened.head === 1, JSON.stringify(opened))
  }
})

test('a flipped bit is corruption, named by segment, offset and position, and nothing is changed', async () => {
  const { bytes, starts } = await written(8)
  for (let at = 0; at < bytes.length; at++) {
    const damaged = Buffer.from(bytes)
    damaged[at] = (damaged[at] as number) ^ (1 << (at % 8))
    const opened = await open(damaged)
    assert.ok('refused' in opened, `byte ${at} was flipped and it opened with head ${'head' in opened && opened.head}`)
    const line = starts.findLastIndex((start) => start <= at)
    assert.ok(
      opened.refused.includes(`${SEGMENT}, offset ${starts[line]}, position ${Math.max(1, line)}:`),
      opened.refused,
    )
    assert.deepEqual(opened.disk.bytes(SEGMENT), damaged)
    assert.deepEqual(opened.disk.list(DIRECTORY), ['00000000000000000001.ndjson', 'lock'])
  }
})

test('zeroed sectors before the last batch are corruption', async () => {
  const { bytes, starts } = await written(12, 'x'.repeat(200))
  for (let from = 512; from + 512 < (starts.at(-1) as number); from += 512) {
    const damaged = Buffer.from(bytes)
    damaged.fill(0, from, from + 512)
    assert.ok('refused' in (await open(damaged)), `sector at ${from}`)
  }
})

test('dropped, doubled, swapped and moved records are corruption', async () => {
  const { bytes, starts } = await written(10)
  const lines = starts.map((start, index) => bytes.subarray(start, starts[index + 1] ?? bytes.length))
  const { length } = lines
  for (let index = 1; index < length; index++) {
    const line = lines[index] as Buffer
    const changed: [string, Buffer[]][] = [
      ['doubled', [...lines.slice(0, index + 1), line, ...lines.slice(index + 1)]],
      ['moved to the front', [lines[0] as Buffer, line, ...lines.slice(1).filter((other) => other !== line)]],
    ]
    if (index < length - 1) {
      const next = lines[index + 1] as Buffer
      changed.push(['dropped', lines.filter((_, at) => at !== index)])
      changed.push(['swapped', [...lines.slice(0, index), next, line, ...lines.slice(index + 2)]])
    }
    for (const [what, order] of changed) {
      if (order.every((other, at) => other === lines[at])) continue
      const opened = await open(Buffer.concat(order))
      assert.ok('refused' in opened, `record ${index} ${what}`)
    }
  }
})

test('a segment that is missing, of another journal, or does not follow is rejected by name', async () => {
  const build = async (id: string): Promise<SimulatedDisk> => {
    const disk = new SimulatedDisk()
    const { journal } = await openJournal(disk.files(), DIRECTORY, { segmentBytes: 600, newId: () => id })
    for (let n = 0; n < 12; n++) await journal.append(draft(n + 1, created(n, { text: id.repeat(3) })))
    await journal.close()
    return disk
  }
  const one = await build('a')
  const other = await build('b')
  const names = one.list(DIRECTORY).filter((name) => name.endsWith('.ndjson'))
  assert.ok(names.length >= 3)
  const refusal = async (change: (name: string) => Buffer | undefined): Promise<string> => {
    const disk = new SimulatedDisk()
    for (const name of names) {
      const bytes = change(name)
      if (bytes) disk.put(`${DIRECTORY}/${name}`, bytes)
    }
    const rejected = await openJournal(disk.files(), DIRECTORY).then(
      () => undefined,
      (error: unknown) => error,
    )
    assert.ok(rejected instanceof Corruption)
    return rejected.message
  }
  const bytesOf = (disk: SimulatedDisk, name: string): Buffer => disk.bytes(`${DIRECTORY}/${name}`) as Buffer
  const second = names[1] as string
  assert.match(await refusal((name) => (name === second ? undefined : bytesOf(one, name))), /is missing/)
  assert.match(await refusal((name) => (name === names[0] ? undefined : bytesOf(one, name))), /position 1 is missing/)
  assert.match(await refusal((name) => bytesOf(name === second ? other : one, name)), /another journal, b/)
})

test('an unknown event type and a newer format are rejected, and no byte changes', async () => {
  const disk = new SimulatedDisk()
  const { journal } = await openJournal(disk.files(), DIRECTORY)
  await journal.append(draft(1, created(0)))
  await journal.append({ ...draft(2), events: [{ ...created(1), type: 'ItemArchived' } as unknown as DomainEvent] })
  await journal.append(draft(3, created(2)))
  await journal.close()
  const { bytes } = linesOf(disk)
  const cut = bytes.subarray(0, bytes.length - 3)
  const opened = await open(cut)
  assert.ok('refused' in opened && /position 2.*"ItemArchived"/.test(opened.refused), JSON.stringify(opened))
  assert.deepEqual(opened.disk.bytes(SEGMENT), cut)
})

test('a newer format is rejected, and no byte changes', async () => {
  const newer = encodeHeader({ format: FORMAT + 1, journal: 'j', first: 1, previous: NO_PREVIOUS }).bytes
  const opened = await open(newer)
  assert.ok('refused' in opened && opened.refused.includes(`format ${FORMAT + 1}`), JSON.stringify(opened))
  assert.deepEqual(opened.disk.bytes(SEGMENT), newer)
})

test('a file with random bytes appended is rejected', async () => {
  const random = new Random(SEED)
  const { bytes } = await written(3)
  for (let run = 0; run < 200; run++) {
    const rubbish = Buffer.from(Array.from({ length: 1 + random.integer(200) }, () => 1 + random.integer(255)))
    const opened = await open(Buffer.concat([bytes, rubbish]))
    const isPrefix = '{"frame":"'.startsWith(rubbish.toString('latin1'))
    assert.equal('head' in opened, isPrefix, `${rubbish.toString('hex')}`)
  }
})
