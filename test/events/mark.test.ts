import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Mark, whyNotMarked } from '../../src/events/mark.ts'
import { segmentName } from '../../src/events/segment.ts'
import { checkUpTo, walk } from '../../src/events/walk.ts'
import { Corruption } from '../../src/runtime/errors.ts'
import { all, created, draft } from '../contract/journal.ts'
import { openJournal } from '../support/journal.ts'
import { Random, SEED } from '../support/random.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'

const DIRECTORY = '/journal'
const SEGMENT_BYTES = 4096
const noRest = async (): Promise<void> => {}

/** A journal of several segments, and marks that were taken while it grew. */
async function marked(random: Random): Promise<{ readonly disk: SimulatedDisk; readonly marks: readonly Mark[] }> {
  const disk = new SimulatedDisk()
  const { journal } = await openJournal(disk.files(), DIRECTORY, { segmentBytes: SEGMENT_BYTES })
  assert.equal(journal.mark(), undefined, 'where nothing is, there is nothing to go on from')
  const marks: Mark[] = []
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
    marks.push(kept(journal.mark() as Mark))
  }
  await journal.close()
  assert.ok((marks.at(-1) as Mark).segments.length > 2)
  return { disk, marks }
}

/** As a mark is after it was on a disk. */
const kept = (mark: Mark): Mark => JSON.parse(JSON.stringify(mark)) as Mark

function flipped(disk: SimulatedDisk, path: string, at: number, random: Random): SimulatedDisk {
  const damaged = disk.killed()
  const bytes = Buffer.from(damaged.bytes(path) as Buffer)
  bytes[at] = (bytes[at] as number) ^ (1 << random.integer(8))
  damaged.put(path, bytes)
  return damaged
}

test('a journal opened from a mark replays what lies behind it, and is otherwise as if it had been read from its beginning', async () => {
  const { disk, marks } = await marked(new Random(SEED))
  const whole = await openJournal(disk.killed().files(), DIRECTORY, { segmentBytes: SEGMENT_BYTES })
  for (const mark of marks) {
    const context = `SEED=${SEED}, position ${mark.next.position}`
    const own = disk.killed()
    const { journal, replayed } = await openJournal(own.files(), DIRECTORY, {
      segmentBytes: SEGMENT_BYTES,
      resume: async (whyNot) => {
        assert.equal(await whyNot(kept(mark)), undefined, context)
        return kept(mark)
      },
    })
    assert.equal(journal.id, whole.journal.id)
    assert.equal(journal.head, whole.journal.head, context)
    const behind = whole.replayed.filter(({ position }) => position >= mark.next.position)
    assert.deepEqual(replayed, behind, context)
    assert.deepEqual(await all(journal), await all(whole.journal), context)
    assert.deepEqual(journal.mark(), whole.journal.mark(), context)
    await journal.append(draft(journal.head + 1, created(7)))
    await journal.close()
    const again = await walk(own.files(), DIRECTORY, () => {})
    assert.equal(again.next.position, whole.journal.head + 2, context)
  }
})

test('damage behind a mark refuses the start from it as it does any other', async () => {
  const random = new Random(SEED)
  const { disk, marks } = await marked(random)
  for (let run = 0; run < 100; run++) {
    const mark = random.pick(marks.slice(0, -3))
    const { first, size } = mark.segments.at(-1) as Mark['segments'][number]
    const path = `${DIRECTORY}/${segmentName(first)}`
    const length = (disk.bytes(path) as Buffer).length
    if (length === size) continue
    const damaged = flipped(disk, path, size + random.integer(length - size), random)
    const context = `SEED=${SEED}, run ${run}`
    const places = await Promise.all(
      [undefined, mark].map((from) =>
        walk(damaged.files(), DIRECTORY, undefined, { from }).then(
          () => assert.fail(context),
          (error: unknown) => (error as Corruption).message,
        ),
      ),
    )
    assert.equal(places[0], places[1], context)
  }
})

test('a torn tail behind a mark is the same tail, cut at any byte', async () => {
  const { disk, marks } = await marked(new Random(SEED))
  const last = segmentName((marks.at(-1) as Mark).segments.at(-1)?.first as number)
  const path = `${DIRECTORY}/${last}`
  const bytes = disk.bytes(path) as Buffer
  const mark = marks.findLast(
    ({ segments }) =>
      (segments.at(-1)?.size as number) < bytes.length ||
      segments.at(-1)?.first !== marks.at(-1)?.segments.at(-1)?.first,
  ) as Mark
  const from =
    mark.segments.at(-1)?.first === marks.at(-1)?.segments.at(-1)?.first ? (mark.segments.at(-1)?.size as number) : 200
  for (let end = Math.max(from, bytes.length - 600); end < bytes.length; end++) {
    const cut = disk.killed()
    cut.put(path, Buffer.from(bytes.subarray(0, end)))
    const [one, other] = await Promise.all([
      walk(cut.files(), DIRECTORY, () => {}),
      walk(cut.files(), DIRECTORY, undefined, { from: mark }),
    ])
    assert.deepEqual(other, one, `SEED=${SEED}, cut at ${end}`)
  }
})

test('a mark of another journal, of a later end or of another past is not one of this journal', async () => {
  const random = new Random(SEED)
  const { disk, marks } = await marked(random)
  const mark = marks.at(-1) as Mark
  const { first, size } = mark.segments.at(-1) as Mark['segments'][number]
  const path = `${DIRECTORY}/${segmentName(first)}`
  assert.equal(await whyNotMarked(disk.files(), DIRECTORY, mark), undefined)
  const why = (changed: Partial<Mark>) => whyNotMarked(disk.files(), DIRECTORY, { ...mark, ...changed })
  assert.match(String(await why({ journal: 'another' })), /another journal/)
  assert.match(String(await why({ next: { ...mark.next, previous: '00000000' } })), /another record/)
  const shorter = disk.killed()
  shorter.put(path, (disk.bytes(path) as Buffer).subarray(0, size - 1))
  assert.match(String(await whyNotMarked(shorter.files(), DIRECTORY, mark)), /another size/)
  const fewer = disk.killed()
  await fewer.files().remove(`${DIRECTORY}/${segmentName(1)}`)
  assert.match(String(await whyNotMarked(fewer.files(), DIRECTORY, mark)), /is missing/)
})

test('damage before a mark is found when that is checked, wherever it is, and named as a walk names it', async () => {
  const random = new Random(SEED)
  const { disk, marks } = await marked(random)
  const mark = marks.at(-1) as Mark
  await checkUpTo(disk.files(), DIRECTORY, mark, noRest)
  for (let run = 0; run < 300; run++) {
    const { first, size } = random.pick(mark.segments)
    const path = `${DIRECTORY}/${segmentName(first)}`
    const damaged = flipped(disk, path, random.integer(size), random)
    const walked = await walk(damaged.files(), DIRECTORY, () => {}).catch((error: Error) => error)
    await assert.rejects(checkUpTo(damaged.files(), DIRECTORY, mark, noRest), (error: unknown) => {
      assert.ok(error instanceof Corruption, String(error))
      const place = /^.*?position \d+:/.exec(error.message)?.[0]
      assert.ok(
        walked instanceof Error ? walked.message.startsWith(place as string) : walked.torn,
        `SEED=${SEED}, run ${run}: ${error.message}`,
      )
      return true
    })
  }
})

test('a journal that is shorter than its mark is damaged, and the check of it ends', async () => {
  const { disk, marks } = await marked(new Random(SEED))
  const mark = marks.at(-1) as Mark
  const path = `${DIRECTORY}/${segmentName(mark.segments.at(-1)?.first as number)}`
  const shorter = disk.killed()
  shorter.put(path, (disk.bytes(path) as Buffer).subarray(0, mark.lastOffset))
  await assert.rejects(
    checkUpTo(shorter.files(), DIRECTORY, mark, noRest),
    new RegExp(`offset ${mark.lastOffset}, position \\d+: the segment ends here`),
  )
})
