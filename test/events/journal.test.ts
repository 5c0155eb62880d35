import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { crc32 } from 'node:zlib'
import type { DomainEvent } from '../../src/events/event.ts'
import { type Journal, positioned } from '../../src/events/journal.ts'
import { linesOf as linesIn, parseRecord, readFrame } from '../../src/events/record-reader.ts'
import { encodeEvent, frame, WriteEncoder } from '../../src/events/record-writer.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { Document } from '../../src/json/document.ts'
import { Locked } from '../../src/runtime/errors.ts'
import { all, created, draft, durableJournalContract, journalContract } from '../contract/journal.ts'
import { DEADLINE_MS } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { memoryJournal, openJournal } from '../support/journal.ts'
import { anyObject, forAll, type Random } from '../support/random.ts'

for (const segmentBytes of [64 * 1024 * 1024, 1024]) {
  durableJournalContract(`the file journal with segments of ${segmentBytes} bytes`, async (t) => {
    const directory = await temporaryDirectory(t)
    let now = new Date('2026-11-20T00:00:00.000Z')
    let open: Journal
    const reopen = async (): Promise<Journal> => {
      await open?.close()
      open = (await openJournal(nodeFiles, directory, { now: () => now, segmentBytes })).journal
      return open
    }
    const journal = await reopen()
    t.after(() => open.close().catch(() => {}))
    return {
      journal,
      setTime: (iso) => {
        now = new Date(iso)
      },
      reopen,
    }
  })
}

async function linesOf(directory: string): Promise<{ name: string; lines: string[] }[]> {
  const names = (await readdir(directory)).filter((name) => name.endsWith('.ndjson')).sort()
  return Promise.all(
    names.map(async (name) => ({ name, lines: (await readFile(join(directory, name), 'utf8')).trimEnd().split('\n') })),
  )
}

test('a line is JSON, framed by its CRC, its length and the CRC of both', async (t) => {
  const directory = await temporaryDirectory(t)
  const { journal } = await openJournal(nodeFiles, directory)
  await journal.append({ ...draft(1, created(0, { name: 'Zoë' })), key: 'once', request: 'abc' })
  await journal.append(draft(2, created(1)))
  await journal.close()
  const [segment] = await linesOf(directory)
  assert.equal(segment?.name, '00000000000000000001.ndjson')
  const crcs = segment?.lines.map((line) => {
    const [, crc, length, check, rest] = /^\{"frame":"([0-9a-f]{8})([0-9a-f]{8})([0-9a-f]{8})",(.*)$/.exec(line) ?? []
    assert.equal(Number.parseInt(length as string, 16), Buffer.byteLength(rest as string))
    assert.equal(Number.parseInt(crc as string, 16), crc32(rest as string))
    assert.equal(Number.parseInt(check as string, 16), crc32(`${crc}${length}`))
    return crc
  })
  const [header, first, second] = (segment?.lines ?? []).map((line) => JSON.parse(line))
  assert.deepEqual(
    { ...header, frame: '' },
    { frame: '', format: 1, journal: journal.id, first: 1, previous: '00000000' },
  )
  assert.deepEqual(
    { ...first, frame: '' },
    {
      frame: '',
      position: 1,
      previous: '00000000',
      flush: 1,
      time: '2026-11-20T12:00:00.000Z',
      actor: 'miranda',
      requestId: 'request-1',
      key: 'once',
      request: 'abc',
      events: [
        { type: 'ItemCreated', collection: 'things', id: 0, revision: 1, prior: 0, item: { id: 0, name: 'Zoë' } },
      ],
    },
  )
  assert.equal(second.previous, crcs?.[1])
  assert.equal(second.flush, 2)
})

/** Files that say when something is written to the journal, before it is. */
function watched(writing: () => void): typeof nodeFiles {
  return {
    ...nodeFiles,
    open: async (...args: Parameters<typeof nodeFiles.open>) => {
      const file = await nodeFiles.open(...args)
      if (args[1] !== 'log') return file
      return {
        ...file,
        write: (bytes: Uint8Array, offset: number) => {
          writing()
          return file.write(bytes, offset)
        },
      }
    },
  }
}

test('concurrent appends share one flush and one durable write', async (t) => {
  const directory = await temporaryDirectory(t)
  let writes = 0
  const { journal } = await openJournal(
    watched(() => writes++),
    directory,
  )
  await Promise.all(Array.from({ length: 100 }, (_, id) => journal.append(draft(id + 1, created(id)))))
  assert.equal(writes, 1)
  const [segment] = await linesOf(directory)
  assert.deepEqual(new Set(segment?.lines.slice(1).map((line) => JSON.parse(line).flush)), new Set([1]))
  await journal.close()
})

test('the disk gets the next batch before anybody is told of the durable one', async (t) => {
  const directory = await temporaryDirectory(t)
  let writes = 0
  let second: Promise<unknown> | undefined
  const { journal } = await openJournal(
    watched(() => {
      writes++
      second ??= journal.append(draft(2, created(1)))
    }),
    directory,
  )
  const writesWhenTold: number[] = []
  journal.follow(() => writesWhenTold.push(writes))
  await journal.append(draft(1, created(0)))
  await second
  assert.deepEqual(writesWhenTold, [2, 2])
  await journal.close()
  const { recovered } = await openJournal(nodeFiles, directory)
  assert.deepEqual(
    recovered.map(({ position }) => position),
    [1, 2],
  )
})

test('when a notification of a write fails, none is sent for what was flushed meanwhile', async (t) => {
  const directory = await temporaryDirectory(t)
  let second: Promise<unknown> | undefined
  const { journal, failures } = await openJournal(
    watched(() => {
      second ??= journal.append(draft(2, created(1)))
    }),
    directory,
  )
  const told: number[] = []
  journal.follow(({ position }) => {
    told.push(position)
    throw new Error('it could not be projected')
  })
  await assert.rejects(journal.append(draft(1, created(0))), { code: 'Unavailable' })
  await assert.rejects(second as Promise<unknown>, { code: 'Unavailable' })
  assert.deepEqual(told, [1])
  assert.deepEqual(
    failures.map((error) => (error as Error).message),
    ['it could not be projected'],
  )
  await journal.close()
})

test('a write of many events spans records of at most 16 KiB, and is read as one write', async (t) => {
  const directory = await temporaryDirectory(t)
  const { journal } = await openJournal(nodeFiles, directory)
  const events = Array.from({ length: 40 }, (_, id) => created(id, { text: 'x'.repeat(id === 20 ? 20_000 : 2000) }))
  await journal.append(draft(1, ...events))
  await journal.append(draft(41, created(40)))
  await journal.close()
  const [segment] = await linesOf(directory)
  const records = (segment?.lines ?? []).slice(1).map((line) => JSON.parse(line))
  assert.ok(records.length > 4)
  for (const record of records) {
    const bytes = Buffer.byteLength(JSON.stringify(record.events))
    assert.ok(bytes <= 16 * 1024 || record.events.length === 1, `${bytes} bytes in ${record.events.length} events`)
  }
  assert.deepEqual(
    records.map(({ more }) => more),
    [...records.slice(0, -2).map(() => true), undefined, undefined],
  )
  const { recovered, journal: again } = await openJournal(nodeFiles, directory)
  assert.deepEqual(
    recovered.map(({ position, events: { length } }) => [position, length]),
    [
      [1, 40],
      [41, 1],
    ],
  )
  assert.deepEqual(
    (await all(again)).flatMap((recorded) => [...recorded.events]),
    [...events, created(40)],
  )
  await again.close()
})

test('a write that spans records can be read from any of its positions, even directly after it was written', async (t) => {
  const directory = await temporaryDirectory(t)
  const { journal } = await openJournal(nodeFiles, directory)
  const padding = 'x'.repeat(10 * 1024)
  await journal.append(draft(1, ...Array.from({ length: 20 }, (_, n) => created(n, { padding }))))
  await journal.append(draft(21, created(20)))
  const check = async (read: Journal['read']): Promise<void> => {
    for (let from = 1; from <= 21; from++) {
      const positions: number[] = []
      for await (const recorded of read(from)) for (const [position] of positioned(recorded)) positions.push(position)
      assert.deepEqual(
        positions,
        Array.from({ length: 22 - from }, (_, index) => from + index),
      )
    }
  }
  await check((from) => journal.read(from))
  await journal.close()
  const { journal: again } = await openJournal(nodeFiles, directory)
  await check((from) => again.read(from))
  await again.close()
})

test('a full segment is followed by a new one, whose header contains the checksum of the record before', async (t) => {
  const directory = await temporaryDirectory(t)
  const { journal } = await openJournal(nodeFiles, directory, { segmentBytes: 2000 })
  for (let id = 0; id < 40; id++) await journal.append(draft(id + 1, created(id, { text: 'y'.repeat(100) })))
  await journal.close()
  const segments = await linesOf(directory)
  assert.ok(segments.length > 3)
  for (const [index, { name, lines }] of segments.entries()) {
    const header = JSON.parse(lines[0] as string)
    assert.equal(name, `${String(header.first).padStart(20, '0')}.ndjson`)
    const before = segments[index - 1]?.lines.at(-1)
    assert.equal(header.previous, before ? JSON.parse(before).frame.slice(0, 8) : '00000000')
    assert.equal(JSON.parse(lines[1] as string).position, header.first)
  }
  const { recovered, journal: again } = await openJournal(nodeFiles, directory)
  assert.equal(recovered.length, 40)
  for (const from of [1, 7, 20, 39, 40]) assert.equal((await all(again, from))[0]?.position, from)
  await again.close()
})

test('a second owner is rejected and changes nothing; when the first closes, the lock is free', async (t) => {
  const directory = await temporaryDirectory(t)
  const { journal } = await openJournal(nodeFiles, directory)
  await journal.append(draft(1, created(0)))
  const before = await linesOf(directory)
  await assert.rejects(openJournal(nodeFiles, directory), Locked)
  assert.deepEqual(await linesOf(directory), before)
  await journal.close()
  const again = await openJournal(nodeFiles, directory)
  assert.equal(again.journal.head, 1)
  await again.journal.close()
})

test('jq reads the journal', async (t) => {
  const jq = process.env.JQ
  if (!jq && process.env.CI !== 'true') return t.skip('jq is missing')
  const directory = await temporaryDirectory(t)
  const { journal } = await openJournal(nodeFiles, directory)
  for (let id = 0; id < 5; id++) await journal.append(draft(id + 1, created(id)))
  await journal.close()
  const segment = join(directory, '00000000000000000001.ndjson')
  const options = { timeout: DEADLINE_MS }
  const out = execFileSync(jq as string, ['-c', 'select(.events) | .events[].id', segment], options)
  assert.equal(out.toString(), '0\n1\n2\n3\n4\n')
})

journalContract('the memory journal', async () => {
  let now = new Date('2026-11-20T00:00:00.000Z')
  return {
    journal: memoryJournal(randomUUID(), () => now),
    setTime: (iso) => {
      now = new Date(iso)
    },
  }
})

const START = { position: 1, previous: '00000000', flush: 1, time: '2026-11-20T12:00:00.000Z' }
const ORIGIN = { actor: 'a,"events":[{', requestId: '"item":{', key: '\\","item":{}}]}', request: '' }

/** Texts and names that look like the parts of a record by which it is taken apart. */
const PARTS = ['item', 'events', ',"item":{', '},{"type":"', '\\', '"', '}}]}', '{', '[', 'type', 'ä€😀', '\u2028', '']

function event(random: Random): DomainEvent {
  const stamp = { collection: random.pick(PARTS), id: random.pick([...PARTS, 7]), revision: 2, prior: 1 }
  switch (random.integer(6)) {
    case 0:
      return { type: 'ItemDeleted', ...stamp }
    case 1:
      return { type: 'CollectionOrdered', collection: random.pick(PARTS), ids: [...PARTS, 1] }
    case 2:
      return { type: 'IdsReset', collection: random.pick(PARTS), nextId: 7 }
    case 3:
      return { type: 'CollectionCreated', collection: random.pick(PARTS) }
    default:
      return { type: 'ItemReplaced', ...stamp, item: Document.of(anyObject(random, PARTS, 3)) }
  }
}

function readBack(events: readonly DomainEvent[]) {
  const encoder = new WriteEncoder(START, ORIGIN)
  for (const one of events) assert.equal(encoder.add(encodeEvent(one)), undefined)
  const line = encoder.end()
  const found = readFrame(line.bytes, 0)
  assert.ok(found.kind === 'whole')
  return { line, record: parseRecord(line.bytes, found) }
}

test('a record is read back as it was written, whatever texts it contains', () => {
  forAll(5000, (random) => {
    const events = Array.from({ length: 1 + random.integer(5) }, () => event(random))
    const { record } = readBack(events)
    assert.deepEqual(record.events, events)
    assert.deepEqual([record.actor, record.requestId, record.key], [ORIGIN.actor, ORIGIN.requestId, ORIGIN.key])
  })
})

test('the text of an event is the JSON of its fields, with the item last', () => {
  const replaced = { type: 'ItemReplaced', collection: 'c', id: 'x', revision: 2, prior: 1 } as const
  const text = encodeEvent({ ...replaced, item: Document.of({ id: 'x', n: 1 }) })
  assert.equal(text, JSON.stringify({ ...replaced, item: { id: 'x', n: 1 } }))
})

test('a record with other JSON formatting is read, too', () => {
  const item = { id: 1, item: { a: [1] } }
  const fields = { position: 1, events: [{ item, type: 'ItemCreated', collection: 'c', id: 1, revision: 1, prior: 0 }] }
  const bytes = Buffer.from(JSON.stringify(fields, null, 1))
  const record = parseRecord(bytes, { start: 1, end: bytes.length + 1 })
  assert.deepEqual(record.events[0] && 'item' in record.events[0] && record.events[0].item, Document.of(item))
  const [line] = linesIn(frame(`{${bytes.toString('utf8', 1)}`).bytes)
  assert.deepEqual(line?.recordsAt([1]), [record])
})
