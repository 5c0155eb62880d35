import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Checkpoint, checkpointMismatch } from '../../src/events/checkpoint.ts'
import { damageText } from '../../src/events/damage.ts'
import { segmentName } from '../../src/events/segment.ts'
import { walk } from '../../src/events/walk.ts'
import type { Corruption } from '../../src/runtime/errors.ts'
import { all, created, draft } from '../contract/journal.ts'
import { damageUpTo, openJournal } from '../support/journal.ts'
import { Random, SEED } from '../support/random.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'

const DIRECTORY = '/journal'
const SEGMENT_BYTES = 4096

/** A journal of several segments, and checkpoints that were taken while it grew. */
async function marked(
  random: Random,
): Promise<{ readonly disk: SimulatedDisk; readonly checkpoints: readonly Checkpoint[] }> {
  const disk = new SimulatedDisk()
  const { journal } = await openJournal(disk.files(), DIRECTORY, { segmentBytes: SEGMENT_BYTES })
  assert.equal(journal.checkpoint(), undefined, 'where nothing is, there is nothing to go on from')
  const checkpoints: Checkpoint[] = []
  for (let position = 1; position < 120; ) {
    const batch = Array.from({ length: 1 + random.integer(3) }, () => {
      const events = Array.from({ length: 1 + random.integer(3) }, () =>
        created(1, { text: 'ä'.repeat(random.integer(90)) }),
      )
      const appended = journal.append(draft(position, ...events))
      position += events.length
      return appended
    })
    await Promise.all(batch)
    checkpoints.push(kept(journal.checkpoint() as Checkpoint))
  }
  await journal.close()
  assert.ok((checkpoints.at(-1) as Checkpoint).segments.length > 2)
  return { disk, checkpoints }
}

/** As a checkpoint is after it was on a disk. */
const kept = (checkpoint: Checkpoint): Checkpoint => JSON.parse(JSON.stringify(checkpoint)) as Checkpoint

function flipped(disk: SimulatedDisk, path: string, at: number, random: Random): SimulatedDisk {
  const damaged = disk.killed()
  const bytes = Buffer.from(damaged.bytes(path) as Buffer)
  bytes[at] = (bytes[at] as number) ^ (1 << random.integer(8))
  damaged.put(path, bytes)
  return damaged
}

test('a journal opened from a mark equals one that was read from its beginning', async () => {
  const { disk, checkpoints } = await marked(new Random(SEED))
  const whole = await openJournal(disk.killed().files(), DIRECTORY, { segmentBytes: SEGMENT_BYTES })
  for (const checkpoint of checkpoints) {
    const context = `SEED=${SEED}, position ${checkpoint.next.position}`
    const own = disk.killed()
    const from = kept(checkpoint)
    assert.equal(await checkpointMismatch(own.files(), DIRECTORY, from), undefined, context)
    const { journal, recovered } = await openJournal(own.files(), DIRECTORY, { segmentBytes: SEGMENT_BYTES, from })
    assert.equal(journal.id, whole.journal.id)
    assert.equal(journal.head, whole.journal.head, context)
    const behind = whole.recovered.filter(({ position }) => position >= checkpoint.next.position)
    assert.deepEqual(recovered, behind, context)
    assert.deepEqual(await all(journal), await all(whole.journal), context)
    assert.deepEqual(journal.checkpoint(), whole.journal.checkpoint(), context)
    await journal.append(draft(journal.head + 1, created(7)))
    await journal.close()
    const again = await walk(own.files(), DIRECTORY, () => {})
    assert.equal(again.next.position, whole.journal.head + 2, context)
  }
})

test('damage behind a mark fails the start', async () => {
  const random = new Random(SEED)
  const { disk, checkpoints } = await marked(random)
  for (let run = 0; run < 100; run++) {
    const checkpoint = random.pick(checkpoints.slice(0, -3))
    const { first, size } = checkpoint.segments.at(-1) as Checkpoint['segments'][number]
    const path = `${DIRECTORY}/${segmentName(first)}`
    const length = (disk.bytes(path) as Buffer).length
    if (length === size) continue
    const damaged = flipped(disk, path, size + random.integer(length - size), random)
    const context = `SEED=${SEED}, run ${run}`
    const places = await Promise.all(
      [undefined, checkpoint].map((from) =>
        walk(damaged.files(), DIRECTORY, undefined, { from }).then(
          () => assert.fail(context),
          (error: unknown) => (error as Corruption).message,
        ),
      ),
    )
    assert.equal(places[0], places[1], context)
  }
})

test('a torn tail behind a mark is detected, cut at any byte', async () => {
  const { disk, checkpoints } = await marked(new Random(SEED))
  const last = segmentName((checkpoints.at(-1) as Checkpoint).segments.at(-1)?.first as number)
  const path = `${DIRECTORY}/${last}`
  const bytes = disk.bytes(path) as Buffer
  const checkpoint = checkpoints.findLast(
    ({ segments }) =>
      (segments.at(-1)?.size as number) < bytes.length ||
      segments.at(-1)?.first !== checkpoints.at(-1)?.segments.at(-1)?.first,
  ) as Checkpoint
  const from =
    checkpoint.segments.at(-1)?.first === checkpoints.at(-1)?.segments.at(-1)?.first
      ? (checkpoint.segments.at(-1)?.size as number)
      : 200
  for (let end = Math.max(from, bytes.length - 600); end < bytes.length; end++) {
    const cut = disk.killed()
    cut.put(path, Buffer.from(bytes.subarray(0, end)))
    const [one, other] = await Promise.all([
      walk(cut.files(), DIRECTORY, () => {}),
      walk(cut.files(), DIRECTORY, undefined, { from: checkpoint }),
    ])
    assert.deepEqual(other, one, `SEED=${SEED}, cut at ${end}`)
  }
})

test('a mark of another journal, of a later end or of another past is rejected', async () => {
  const random = new Random(SEED)
  const { disk, checkpoints } = await marked(random)
  const checkpoint = checkpoints.at(-1) as Checkpoint
  const { first, size } = checkpoint.segments.at(-1) as Checkpoint['segments'][number]
  const path = `${DIRECTORY}/${segmentName(first)}`
  assert.equal(await checkpointMismatch(disk.files(), DIRECTORY, checkpoint), undefined)
  const why = (changed: Partial<Checkpoint>) =>
    checkpointMismatch(disk.files(), DIRECTORY, { ...checkpoint, ...changed })
  assert.match(String(await why({ journal: 'another' })), /another journal/)
  assert.match(String(await why({ next: { ...checkpoint.next, previous: '00000000' } })), /another record/)
  const shorter = disk.killed()
  shorter.put(path, (disk.bytes(path) as Buffer).subarray(0, size - 1))
  assert.match(String(await checkpointMismatch(shorter.files(), DIRECTORY, checkpoint)), /is shorter/)
  const fewer = disk.killed()
  await fewer.files().remove(`${DIRECTORY}/${segmentName(1)}`)
  assert.match(String(await checkpointMismatch(fewer.files(), DIRECTORY, checkpoint)), /is missing/)
})

test('damage before a mark is found by the check of the journal, and named as by a full read', async () => {
  const random = new Random(SEED)
  const { disk, checkpoints } = await marked(random)
  const checkpoint = checkpoints.at(-1) as Checkpoint
  assert.deepEqual(await damageUpTo(disk.files(), DIRECTORY, checkpoint), [])
  for (let run = 0; run < 300; run++) {
    const { first, size } = random.pick(checkpoint.segments)
    const path = `${DIRECTORY}/${segmentName(first)}`
    const damaged = flipped(disk, path, random.integer(size), random)
    const walked = await walk(damaged.files(), DIRECTORY, () => {}).catch((error: Error) => error)
    const [found] = (await damageUpTo(damaged.files(), DIRECTORY, checkpoint)).map(damageText)
    const place = /^.*?position \d+:/.exec(found ?? '')?.[0] ?? 'none'
    assert.ok(
      walked instanceof Error ? walked.message.startsWith(place) : walked.torn,
      `SEED=${SEED}, run ${run}: ${found}`,
    )
  }
})

test('a journal shorter than its mark is damaged, and its check ends', async () => {
  const { disk, checkpoints } = await marked(new Random(SEED))
  const checkpoint = checkpoints.at(-1) as Checkpoint
  const path = `${DIRECTORY}/${segmentName(checkpoint.segments.at(-1)?.first as number)}`
  const shorter = disk.killed()
  shorter.put(path, (disk.bytes(path) as Buffer).subarray(0, checkpoint.lastOffset))
  const [found, ...others] = await damageUpTo(shorter.files(), DIRECTORY, checkpoint)
  assert.deepEqual([found?.offset, found?.next, others], [checkpoint.lastOffset, checkpoint.next.position, []])
  assert.match(found?.why ?? '', /^the segment ends here/)
})
