import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compressSegment } from '../../src/events/compression.ts'
import type { DomainEvent, Position } from '../../src/events/event.ts'
import { positioned, type Recorded } from '../../src/events/journal.ts'
import { type Segment, segmentName } from '../../src/events/segment.ts'
import { SegmentReader } from '../../src/events/segment-reader.ts'
import { walk } from '../../src/events/walk.ts'
import { Document } from '../../src/json/document.ts'
import { Corruption } from '../../src/runtime/errors.ts'
import { segmentsOf } from '../support/journal.ts'
import { Random, SEED } from '../support/random.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'

const DIRECTORY = '/journal'
/** Those of this version, and of earlier ones. */
const RECORD_KIB = [16, 512]

/** Texts that look like the end of an item and the beginning of the next event. */
const LURES = ['"},{"type":"', ',"item":{', '}}]}', '\\', '"']

function eventAt(position: Position, random: Random): DomainEvent {
  const stamp = { collection: random.pick(['a', ...LURES]), id: position, revision: 1, prior: 0 }
  if (random.chance(0.1)) return { type: 'ItemDeleted', ...stamp }
  if (random.chance(0.02)) return { type: 'CollectionOrdered', collection: 'a', ids: [1, 2, random.pick(LURES)] }
  const lists = [[{ type: 'x', events: [{ item: {} }] }, { type: random.pick(LURES) }], [], {}]
  const text = random.pick(LURES).repeat(random.integer(random.chance(0.01) ? 20_000 : 40))
  return { type: 'ItemCreated', ...stamp, item: Document.of({ id: position, text, list: random.pick(lists) }) }
}

/** A journal of several segments with small and large writes. */
async function written(recordKib: number, random: Random) {
  const events: DomainEvent[] = []
  const writes: Recorded[] = []
  while (writes.length < 250) {
    const count = writes.length % 80 === 79 ? 2000 : random.pick([1, 1, 1, 3, 40])
    const position = events.length + 1
    const some = Array.from({ length: count }, (_, index) => eventAt(position + index, random))
    const time = new Date(writes.length).toISOString()
    writes.push({ position, time, actor: 'ada', requestId: `request ${position}`, events: some })
    events.push(...some)
  }
  const disk = new SimulatedDisk()
  for (const { first, bytes } of segmentsOf(writes, recordKib * 1024, 128 * 1024)) {
    disk.put(`${DIRECTORY}/${segmentName(first)}`, bytes)
  }
  const { segments } = await walk(disk.files(), DIRECTORY)
  const expected = new Map(
    writes.flatMap((write) =>
      Array.from(positioned(write), ([at, event]) => [at, { ...write, position: at, events: [event] }]),
    ),
  )
  return { disk, segments, expected }
}

async function found(disk: SimulatedDisk, segments: readonly Segment[], positions: readonly Position[]) {
  const all: Recorded[] = []
  for await (const recorded of new SegmentReader(disk.files(), segments).at(positions))
    for (const [position, event] of positioned(recorded)) all.push({ ...recorded, position, events: [event] })
  return all
}

for (const recordKib of RECORD_KIB) {
  test(`the events at any positions are read out of records of ${recordKib} KiB, plain and compressed`, async () => {
    const random = new Random(SEED)
    const { disk, segments, expected } = await written(recordKib, random)
    assert.ok(segments.length > 2)
    const check = async (): Promise<void> => {
      for (let round = 0; round < 20; round++) {
        const share = random.pick([0.0001, 0.001, 0.01, 0.3, 1])
        const positions = [...expected.keys()].filter(() => random.chance(share))
        assert.deepEqual(
          await found(disk, segments, positions),
          positions.map((position) => expected.get(position)),
          `SEED=${SEED}, round ${round}`,
        )
        if (share > 0.1) round += 10
      }
    }
    await check()
    for (const segment of segments.slice(0, -1)) await compressSegment(disk.files(), segment, async () => {})
    await check()
  })
}

test('no event is read out of a damaged record, and the message names the place', async () => {
  const random = new Random(SEED)
  const { disk, segments } = await written(16, random)
  const { first, index } = segments.find(({ index }) => index.positions.length > 3) as Segment
  const { positions, offsets } = index
  const path = `${DIRECTORY}/${segmentName(first)}`
  const bytes = Buffer.from(disk.bytes(path) as Buffer)
  const at = offsets[3] as number
  bytes[at + 100] = (bytes[at + 100] as number) ^ 1
  disk.put(path, bytes)
  const [before, damaged] = [positions[2] as Position, positions[3] as Position]
  assert.equal((await found(disk, segments, [before])).length, 1)
  await assert.rejects(found(disk, segments, [before, damaged]), (error: Error) => {
    assert.ok(error instanceof Corruption)
    assert.equal(error.message, `${path}, offset ${at}, position ${damaged}: the record is damaged.`)
    return true
  })
})

test('an event that a shortened segment has no more is missed', async () => {
  const { disk, segments, expected } = await written(16, new Random(SEED))
  const last = segments.at(-1) as Segment
  const path = `${DIRECTORY}/${segmentName(last.first)}`
  disk.put(path, (disk.bytes(path) as Buffer).subarray(0, last.index.offsets.at(-1)))
  await assert.rejects(found(disk, segments, [expected.size]), /the segment ends here/)
})
