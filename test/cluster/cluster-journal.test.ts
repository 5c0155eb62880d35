import assert from 'node:assert/strict'
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { JetStream } from '../../src/cluster/jetstream.ts'
import type { RecordStream } from '../../src/cluster/record-stream.ts'
import type { ReplicaOptions } from '../../src/cluster/replica.ts'
import { streamSource } from '../../src/cluster/stream-source.ts'
import type { Journal } from '../../src/events/journal.ts'
import { walk } from '../../src/events/walk.ts'
import type { Files } from '../../src/files/files.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { Corruption, JournalMismatch } from '../../src/runtime/errors.ts'
import { all, created, draft, durableJournalContract } from '../contract/journal.ts'
import { type OpenedClusterJournal, openClusterJournal, SILENT } from '../support/cluster.ts'
import { until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { COMPRESSED_AT_ONCE } from '../support/journal.ts'
import { connectTo, startNats, withoutNats } from '../support/nats.ts'
import { Random, SEED } from '../support/random.ts'
import { SimulatedStream } from './simulated-stream.ts'

async function open(t: TestContext, stream: RecordStream, directory?: string): Promise<OpenedClusterJournal> {
  const opened = await openClusterJournal(stream, nodeFiles, directory ?? (await temporaryDirectory(t)))
  t.after(() => opened.journal.close().catch(() => {}))
  return opened
}

function contract(
  name: string,
  streamFor: (t: TestContext) => Promise<RecordStream>,
  options: Pick<ReplicaOptions, 'compress'> & { readonly segmentBytes?: number } = {},
): void {
  durableJournalContract(name, async (t) => {
    const stream = await streamFor(t)
    const directory = await temporaryDirectory(t)
    let now = new Date('2026-11-20T00:00:00.000Z')
    let opened: Journal | undefined
    const reopen = async (): Promise<Journal> => {
      await opened?.close()
      const { journal } = await openClusterJournal(stream, nodeFiles, directory, { ...options, now: () => now })
      opened = journal
      await journal.lead()
      return journal
    }
    const journal = await reopen()
    t.after(() => opened?.close().catch(() => {}))
    return {
      journal,
      setTime: (iso) => {
        now = new Date(iso)
      },
      reopen,
    }
  })
}

contract('the journal of a cluster on a simulated stream', async () => new SimulatedStream())
contract('the journal of a cluster on a stream of tiny messages', async () => new SimulatedStream(2048))
contract('the journal of a cluster with a compressed copy', async () => new SimulatedStream(), {
  segmentBytes: 300,
  compress: COMPRESSED_AT_ONCE,
})

if (withoutNats) test('the journal of a cluster on JetStream', { skip: withoutNats }, () => {})
else {
  for (const servers of [1, 3] as const) {
    let nats: ReturnType<typeof startNats> | undefined
    let streams = 0
    const ends: (() => Promise<unknown>)[] = []
    test.after(async () => {
      for (const end of ends.reverse()) await end()
    })
    const on = `on ${servers} nats-server${servers > 1 ? 's' : ''}`
    const opened = async (): Promise<JetStream> => {
      nats ??= startNats({ after: (end) => void ends.push(end) }, { servers })
      const nc = await connectTo(await nats)
      ends.push(() => nc.close())
      return JetStream.open(nc, `contract-${++streams}`, servers, SILENT)
    }
    contract(`the journal of a cluster ${on}`, opened)

    test(`following a stream ${on} can be closed at any moment, even before it has started`, async () => {
      const stream = await opened()
      await stream.publish({ position: 1, bytes: Buffer.from('first') }, 0)
      let received = 0
      for (const ms of [undefined, 0, 1, 2, 4, 8, 16]) {
        const following = stream.follow(1, async () => void received++)
        if (ms !== undefined) await sleep(ms)
        await following.close()
      }
      const following = stream.follow(1, async () => void received++)
      const before = received
      await until('it is received', () => received > before)
      await following.close()
    })
  }
}

test('every node gets every write in order, and keeps a copy that is an ordinary journal', async (t) => {
  const stream = new SimulatedStream()
  const directory = await temporaryDirectory(t)
  const first = await open(t, stream)
  const second = await open(t, stream, directory)
  await first.journal.lead()
  await Promise.all(Array.from({ length: 50 }, (_, id) => first.journal.append(draft(id + 1, created(id)))))
  await until('the other node has all', () => second.journal.head === 50)
  assert.deepEqual(second.seen, first.seen)
  assert.ok(stream.messages.length < 10, 'writes that came together share a message')
  await second.journal.close()
  const walked = await walk(nodeFiles, directory, () => {})
  assert.equal(walked.id, first.journal.id)
  assert.equal(walked.next.position, 51)
})

test('only the node that was elected last can append', async (t) => {
  const stream = new SimulatedStream()
  const [first, second] = [await open(t, stream), await open(t, stream)]
  await assert.rejects(first.journal.append(draft(1, created(0))), { code: 'Unavailable' })
  await first.journal.lead()
  await first.journal.append(draft(1, created(0)))
  await second.journal.lead()
  await second.journal.append(draft(2, created(1)))
  await assert.rejects(first.journal.append(draft(2, created(9))), { code: 'Unavailable' })
  assert.equal(first.lost(), 1)
  await first.journal.lead()
  await first.journal.append(draft(3, created(2)))
  await until('the other node has it', () => second.journal.head === 3)
  assert.equal(second.lost(), 1)
  assert.deepEqual(await all(first.journal), await all(second.journal))
})

test('a leader without disk space rejects writes, and answers what is already stored', async (t) => {
  const stream = new SimulatedStream()
  let isFull = false
  let freed = (): void => {}
  const project = (): Promise<void> | undefined => {
    if (!isFull) return undefined
    return new Promise((resolve) => {
      freed = resolve
    })
  }
  const opened = await openClusterJournal(stream, nodeFiles, await temporaryDirectory(t), {
    hasRoom: () => !isFull,
    project,
  })
  const { journal, lost, failures } = opened
  t.after(() => journal.close())
  await journal.lead()
  await journal.append(draft(1, created(0)))
  const waiting = journal.append(draft(2, created(1)))
  isFull = true
  await assert.rejects(waiting, { code: 'OutcomeUnknown' })
  await assert.rejects(journal.append(draft(3, created(2))), { code: 'Unavailable' })
  assert.equal(lost(), 1)
  isFull = false
  freed()
  await journal.lead()
  assert.equal(journal.head, 2)
  isFull = true
  await assert.rejects(journal.append(draft(3, created(2))), { code: 'DiskFull' })
  isFull = false
  await journal.append(draft(3, created(2)))
  assert.deepEqual(failures, [])
})

test('writes that a leader decided before it heard of its successor are all rejected', async (t) => {
  const stream = new SimulatedStream()
  const [first, second] = [await open(t, stream), await open(t, stream)]
  await first.journal.lead()
  await first.journal.append(draft(1, created(0)))
  // The first node hears nothing any more, not even that there is a second one.
  const follow = first.journal.append(draft(2, created(7)))
  stream.fates.push('lost')
  await second.journal.lead()
  const later = first.journal.append(draft(3, created(8)))
  const outcomes = await Promise.allSettled([follow, later])
  const stored = await all(second.journal)
  for (const [index, { status }] of outcomes.entries()) {
    assert.equal(
      status === 'fulfilled',
      stored.some(({ position }) => position === index + 2),
    )
  }
  assert.equal(outcomes[1]?.status, 'rejected')
})

test('a message whose acknowledgement was lost is found and stored once', async (t) => {
  const stream = new SimulatedStream()
  const { journal } = await open(t, stream)
  await journal.lead()
  stream.fates.push('unheard', 'unheard', 'lost', 'stored')
  await journal.append(draft(1, created(0)))
  await journal.append(draft(2, created(1)))
  assert.equal(stream.messages.length, 4)
  assert.equal((await all(journal)).length, 2)
})

test('a message that arrives after its sender gave up is either a write or void, and all nodes agree', async (t) => {
  for (const isFirst of [true, false]) {
    const stream = new SimulatedStream()
    const [first, second] = [await open(t, stream), await open(t, stream)]
    await first.journal.lead()
    stream.fates.push('late')
    const sent = first.journal.append(draft(1, created(0)))
    const outcome = sent.then(
      () => 'stored',
      (error) => error.code,
    )
    await until('it was sent', () => stream.fates.length === 0)
    first.journal.resign()
    assert.equal(await outcome, 'OutcomeUnknown')
    if (isFirst) stream.arrive()
    await second.journal.lead()
    stream.arrive()
    await second.journal.append(draft(isFirst ? 2 : 1, created(1)))
    await first.journal.caughtUp()
    assert.equal(second.journal.head, isFirst ? 2 : 1)
    assert.deepEqual(await all(first.journal), await all(second.journal))
    assert.deepEqual([...first.failures, ...second.failures], [])
  }
})

test('a message is sent only when the previous one is known to be stored', async (t) => {
  const stream = new SimulatedStream(8192)
  const publish = stream.publish.bind(stream)
  let onTheirWay = 0
  const sent: { readonly after: number; readonly stored: number; readonly others: number }[] = []
  stream.publish = async (message, after) => {
    sent.push({ after, stored: stream.messages.length, others: onTheirWay++ })
    try {
      return await publish(message, after)
    } finally {
      onTheirWay--
    }
  }
  const { journal } = await open(t, stream)
  await journal.lead()
  sent.length = 0
  stream.fates.push('stored', 'lost', 'stored', 'unheard', 'lost')
  await Promise.all(Array.from({ length: 200 }, (_, id) => journal.append(draft(id + 1, created(id)))))
  assert.ok(sent.length > 5)
  // Behind a message that was lost another node's may be, and the number alone does not tell.
  for (const { after, stored, others } of sent) assert.ok(after <= stored && others === 0)
})

test('a stored write is answered even if the message after it fails', async (t) => {
  const stream = new SimulatedStream()
  let isSlow = false
  const held: (() => void)[] = []
  const slow: Files = {
    ...nodeFiles,
    open: async (...how) => {
      const file = await nodeFiles.open(...how)
      return {
        ...file,
        write: async (bytes, at) => {
          if (isSlow) await new Promise<void>((resolve) => held.push(resolve))
          return file.write(bytes, at)
        },
      }
    },
  }
  const { journal, failures } = await openClusterJournal(stream, slow, await temporaryDirectory(t))
  t.after(() => journal.close())
  const other = await open(t, stream)
  await journal.lead()
  isSlow = true
  const outcomes: unknown[] = []
  const note = (name: string, write: Promise<unknown>): void => {
    write.then(
      () => outcomes.push(`${name} stored`),
      (error) => outcomes.push(`${name} ${error.code}`),
    )
  }
  note('first', journal.append(draft(1, created(0))))
  await until('the first is being taken in', () => held.length > 0)
  stream.fates.push('lost')
  note('second', journal.append(draft(2, created(1))))
  await until('the second was sent meanwhile', () => stream.fates.length === 0)
  await other.journal.lead()
  await until('the second is refused', () => outcomes.length > 0)
  isSlow = false
  for (const go of held) go()
  await until('both are known', () => outcomes.length === 2)
  assert.deepEqual(outcomes.toSorted(), ['first stored', 'second Unavailable'])
  await other.journal.append(draft(2, created(7)))
  await journal.caughtUp()
  assert.deepEqual(await all(journal), await all(other.journal))
  assert.deepEqual(failures, [])
})

test('a copy that finds no file descriptor for a new segment waits for one', async (t) => {
  let isShort = false
  let refused = 0
  const files: Files = {
    ...nodeFiles,
    open: async (...how) => {
      if (!isShort) return nodeFiles.open(...how)
      refused++
      throw Object.assign(new Error('EMFILE: too many open files'), { code: 'EMFILE' })
    },
  }
  const stream = new SimulatedStream()
  const directory = await temporaryDirectory(t)
  const { journal, failures } = await openClusterJournal(stream, files, directory, { segmentBytes: 300 })
  t.after(() => journal.close())
  await journal.lead()
  await journal.append(draft(1, created(0, { text: 'x'.repeat(300) })))
  isShort = true
  const waiting = journal.append(draft(2, created(1)))
  await until('it needs a segment', () => refused > 0)
  isShort = false
  await waiting
  assert.equal(journal.head, 2)
  assert.deepEqual(failures, [])
})

test('a write of several messages is void when its leader stops in the middle', async (t) => {
  const stream = new SimulatedStream(2048)
  const [first, second] = [await open(t, stream), await open(t, stream)]
  await first.journal.lead()
  await first.journal.append(draft(1, created(0)))
  const many = Array.from({ length: 40 }, (_, id) => created(id + 1, { text: 'x'.repeat(100) }))
  stream.fates.push('stored', 'stored', 'lost')
  const outcome = first.journal.append(draft(2, ...many)).catch((error) => error.code)
  await until('it was begun', () => stream.fates.length === 0)
  first.journal.resign()
  assert.equal(await outcome, 'Unavailable')
  const before = stream.messages.length
  await second.journal.lead()
  await second.journal.append(draft(2, ...many))
  assert.ok(stream.messages.length > before + 2)
  await first.journal.caughtUp()
  assert.equal(first.journal.head, 41)
  assert.deepEqual(
    (await all(first.journal)).flatMap(({ events }) => [...events]),
    [created(0), ...many],
  )
  const fresh = await open(t, stream)
  await fresh.journal.caughtUp()
  assert.deepEqual(await all(fresh.journal), await all(second.journal))
})

test('a damaged or missing part of a copy is replaced by the records of the stream, but not by void ones', async (t) => {
  const random = new Random(SEED)
  const stream = new SimulatedStream(2048)
  const directory = await temporaryDirectory(t)
  const options = { segmentBytes: 3000 }
  const [first, second] = [await open(t, stream), await open(t, stream)]
  await first.journal.lead()
  let position = 1
  const append = async ({ journal }: OpenedClusterJournal, count: number): Promise<void> => {
    const many = Array.from({ length: count }, (_, id) => created(position + id, { text: 'x'.repeat(100) }))
    await journal.append(draft(position, ...many))
    position += count
  }
  for (let write = 0; write < 30; write++) await append(first, random.pick([1, 2, 30]))
  // A void write: its last message is lost.
  stream.fates.push('stored', 'stored', 'lost')
  const before = position
  await append(first, 40).catch(() => {
    position = before
  })
  first.journal.resign()
  await second.journal.lead()
  for (let write = 0; write < 10; write++) await append(second, random.pick([1, 2, 30]))
  const { journal } = await openClusterJournal(stream, nodeFiles, directory, options)
  t.after(() => journal.close().catch(() => {}))
  await journal.begin()
  await journal.caughtUp()
  const segments = (await readdir(directory)).filter((name) => name.endsWith('.ndjson')).sort()
  assert.ok(segments.length > 6)
  const whole = await Promise.all(segments.map((name) => readFile(join(directory, name))))
  const source = streamSource(stream, journal.id)
  const rest = async (): Promise<void> => {}
  for (let run = 0; run < 20; run++) {
    for (let places = 1 + random.integer(3); places > 0; places--) {
      const index = random.integer(segments.length - 1)
      const path = join(directory, segments[index] as string)
      if (random.chance(0.2)) await rm(path, { force: true })
      else {
        const bytes = Buffer.from(whole[index] as Buffer)
        const at = random.integer(bytes.length)
        bytes.fill(random.integer(256), at, Math.min(bytes.length, at + random.pick([1, 600, 6000])))
        await writeFile(path, bytes)
      }
    }
    await journal.replica.verify(rest)
    assert.deepEqual(await journal.replica.repair(source), [], `SEED=${SEED}, run ${run}`)
    assert.deepEqual([await journal.replica.verify(rest), journal.replica.damage.list], [[], []])
    for (const [index, name] of segments.entries())
      assert.ok(
        (await readFile(join(directory, name))).equals(whole[index] as Buffer),
        `SEED=${SEED}, run ${run}, ${name}`,
      )
  }
})

test('a copy continues where it stopped, even within a message', async (t) => {
  const stream = new SimulatedStream(4096)
  const { journal } = await open(t, stream)
  await journal.lead()
  const appends: Promise<unknown>[] = []
  for (let position = 1; position <= 60; position += 3) {
    appends.push(journal.append(draft(position, created(position), created(position + 1), created(position + 2))))
    if (position % 7 === 0) await Promise.all(appends)
  }
  await Promise.all(appends)
  await journal.lead()
  await journal.append(draft(61, created(61)))
  const whole = await all(journal)
  const directory = await temporaryDirectory(t)
  const copy = await open(t, stream, directory)
  await copy.journal.caughtUp()
  await copy.journal.close()
  const [name] = (await readdir(directory)).filter((entry) => entry.endsWith('.ndjson'))
  const path = join(directory, name as string)
  const lines = (await readFile(path, 'utf8')).split('\n')
  for (let kept = 1; kept < lines.length; kept++) {
    await nodeFiles.remove(path)
    const file = await nodeFiles.open(path, 'create')
    // Sometimes the end is torn, too.
    const torn = kept % 3 === 0 ? (lines[kept] ?? '').slice(0, 20) : ''
    await file.write(Buffer.from(`${lines.slice(0, kept).join('\n')}\n${torn}`), 0)
    await file.close()
    const again = await open(t, stream, directory)
    await again.journal.caughtUp()
    assert.deepEqual(await all(again.journal), whole, `with ${kept} lines`)
    assert.deepEqual(
      again.seen.map(({ position, events }) => [position, events]),
      whole.map(({ position, events }) => [position, events]),
    )
    assert.deepEqual(again.failures, [])
    await again.journal.close()
  }
})

test('a gap, a damaged line or a record that does not follow stops the node', async (t) => {
  const damages: ((messages: SimulatedStream['messages']) => void)[] = [
    (messages) => messages.splice(3, 1),
    (messages) => messages.splice(3, 0, messages[2] as never),
    (messages) => {
      const { bytes } = messages[3] as { bytes: Uint8Array }
      bytes[40] = (bytes[40] as number) ^ 1
    },
    (messages) => messages.splice(3, 1, { position: 2, bytes: new Uint8Array() }),
  ]
  for (const damage of damages) {
    const stream = new SimulatedStream()
    const writer = await open(t, stream)
    await writer.journal.lead()
    for (let position = 1; position <= 5; position++) await writer.journal.append(draft(position, created(position)))
    damage(stream.messages)
    const reader = await open(t, stream)
    await until('the reader has ended', () => reader.failures.length > 0)
    assert.ok(reader.failures[0] instanceof Corruption)
    assert.equal(reader.journal.head, 1, 'nothing is read beyond it')
    await assert.rejects(reader.journal.lead(), { code: 'Unavailable' })
  }
})

test('a copy that is ahead of the stream, or differs from it, is rejected', async (t) => {
  const stream = new SimulatedStream()
  const directory = await temporaryDirectory(t)
  const first = await open(t, stream, directory)
  await first.journal.lead()
  await first.journal.append(draft(1, created(0)))
  const kept = stream.messages.length
  await first.journal.append(draft(2, created(1)))
  await first.journal.close()

  const last = stream.messages.splice(kept)
  await assert.rejects(open(t, stream, directory), (error: Error) => {
    assert.ok(error instanceof JournalMismatch)
    assert.match(error.message, /lost events/)
    return true
  })
  const other = await open(t, stream)
  await other.journal.lead()
  await other.journal.append(draft(2, created(99)))
  await assert.rejects(open(t, stream, directory), (error: Error) => error instanceof JournalMismatch)
  stream.messages.splice(kept)
  stream.messages.push(...last)
  const right = await open(t, stream, directory)
  assert.equal(right.journal.head, 2)
  await right.journal.close()
  await assert.rejects(
    open(t, new SimulatedStream(), directory),
    (error: Error) => error instanceof JournalMismatch && /is a copy of/.test(error.message),
  )
})

test('an event that is larger than a message is rejected, and nothing else', async (t) => {
  const stream = new SimulatedStream(8192)
  const { journal } = await open(t, stream)
  await journal.lead()
  await assert.rejects(journal.append(draft(1, created(0, { text: 'x'.repeat(9000) }))), { code: 'TooLarge' })
  await journal.append(draft(1, created(0, { text: 'x'.repeat(6000) })))
  assert.equal(journal.head, 1)
})
