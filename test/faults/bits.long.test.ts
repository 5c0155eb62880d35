import assert from 'node:assert/strict'
import { cp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { Chain } from '../../src/events/chain.ts'
import { type ChainState, NO_PREVIOUS } from '../../src/events/record-format.ts'
import { parseHeader, parseRecord, readFrame, linesOf as scanned } from '../../src/events/record-reader.ts'
import { segmentName } from '../../src/events/segment.ts'
import { walk, whyNotTorn } from '../../src/events/walk.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { Corruption } from '../../src/runtime/errors.ts'
import { created, draft } from '../contract/journal.ts'
import { stateOf, temporaryDirectory } from '../support/directory.ts'
import { openJournal } from '../support/journal.ts'
import { Random, SEED } from '../support/random.ts'
import { spawnServer, startProgram } from '../support/server.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'
import { Load } from './load.ts'

const RECORDS = Number(process.env.RECORDS ?? 40)
/** How many of the flips are also read by the walk as a whole. */
const WALKS = Number(process.env.WALKS ?? 150)
const STARTS = Number(process.env.STARTS ?? 3)
const SECTOR = 512
const DIRECTORY = '/journal'
const SEGMENT = `${DIRECTORY}/${segmentName(1)}`

interface Line {
  readonly offset: number
  readonly end: number
  /** The chain state before the record that begins here; for the header, that before the first record. */
  readonly expected: ChainState
  /** The write batch that it was synced with. */
  readonly flush: number
}

interface Written {
  readonly bytes: Buffer
  /** The header, then the records. */
  readonly lines: readonly Line[]
  /** Where the last write batch begins. */
  readonly lastBatch: number
}

/** A journal of one segment: batches of one to five records, the last one of three. */
async function written(records: number, random: Random): Promise<Written> {
  const disk = new SimulatedDisk()
  const { journal } = await openJournal(disk.files(), DIRECTORY)
  for (let done = 0; done < records; ) {
    const left = records - done
    const size = left <= 3 ? left : Math.min(1 + random.integer(5), left - 3)
    const texts = Array.from({ length: size }, () => 'x'.repeat(random.integer(60)))
    await Promise.all(
      texts.map((text, index) => journal.append(draft(done + index + 1, created(done + index, { text })))),
    )
    done += size
  }
  await journal.close()
  return linesOf(disk.bytes(SEGMENT) as Buffer)
}

function linesOf(bytes: Buffer): Written {
  const chain = new Chain()
  const lines: Line[] = []
  let lastBatch = 0
  for (const line of scanned(bytes)) {
    const { offset } = line
    const place = { offset, end: offset + line.bytes.length, expected: chain.next }
    if (offset === 0) lines.push({ ...place, flush: 0 })
    else {
      const record = line.record()
      assert.equal(chain.add(record, line.crc), undefined)
      lines.push({ ...place, flush: record.flush })
      if (record.flush === record.position) lastBatch = offset
    }
  }
  return { bytes, lines, lastBatch }
}

/** Whether the walk, which comes to this line with all before it being whole, refuses it: what it does with one line. */
function isRefused(bytes: Buffer, { offset, expected }: Line): boolean {
  if (offset === 0) {
    try {
      const header = parseHeader(bytes)
      return header.first !== 1 || header.previous !== NO_PREVIOUS
    } catch (error) {
      return error instanceof Corruption
    }
  }
  const found = readFrame(bytes, offset)
  if (found.kind !== 'whole') return whyNotTorn(bytes, offset, expected.position) !== undefined
  return new Chain(expected).add(parseRecord(bytes, found), found.crc) !== undefined
}

type Walked = { readonly head: number } | { readonly refused: string }

async function walked(bytes: Buffer): Promise<Walked> {
  const disk = new SimulatedDisk()
  disk.put(SEGMENT, bytes)
  try {
    const { next } = await walk(disk.files(), DIRECTORY, () => {})
    return { head: next.position - 1 }
  } catch (error) {
    assert.ok(error instanceof Corruption, String(error))
    return { refused: error.message }
  }
}

/** How the walk names the place of a line. */
function placeOf({ offset, expected }: Line, segment = SEGMENT): string {
  return `${segment}, offset ${offset}, position ${expected.position}:`
}

function lineAt(lines: readonly Line[], at: number): Line {
  return lines.findLast(({ offset }) => offset <= at) as Line
}

test('any one flipped bit of a journal is detected', async (t) => {
  const random = new Random(SEED)
  const { bytes, lines } = await written(RECORDS, random)
  let flips = 0
  for (const line of lines) {
    for (let at = line.offset; at < line.end; at++) {
      for (let bit = 0; bit < 8; bit++) {
        bytes[at] = (bytes[at] as number) ^ (1 << bit)
        if (!isRefused(bytes, line)) assert.fail(`SEED=${SEED}: bit ${bit} of byte ${at} was flipped unnoticed`)
        bytes[at] = (bytes[at] as number) ^ (1 << bit)
        flips++
      }
    }
  }
  assert.equal(flips, bytes.length * 8)

  for (let run = 0; run < WALKS; run++) {
    const damaged = Buffer.from(bytes)
    const at = random.integer(bytes.length)
    damaged[at] = (damaged[at] as number) ^ (1 << random.integer(8))
    const found = await walked(damaged)
    assert.ok('refused' in found && found.refused.includes(placeOf(lineAt(lines, at))), JSON.stringify(found))
  }
  t.diagnostic(`${flips} bits of ${RECORDS} records, ${WALKS} of them by the whole walk: 0 unnoticed`)
})

test('zeroed sectors are rejected, except at the end, where they are a torn tail', async (t) => {
  const random = new Random(SEED)
  const { bytes, lines } = await written(RECORDS, random)
  let refused = 0
  let torn = 0
  for (let from = 0; from < bytes.length; from += SECTOR) {
    for (const count of [1, 2 + random.integer(8)]) {
      const to = Math.min(bytes.length, from + count * SECTOR)
      const damaged = Buffer.from(bytes)
      damaged.fill(0, from, to)
      const line = lineAt(lines, from)
      const { position } = line.expected
      const isLast = !lines.some(({ offset, flush }) => offset >= to && flush > position)
      const found = await walked(damaged)
      const context = `SEED=${SEED}, ${count} from ${from}: ${JSON.stringify(found)}`
      if (isLast && line.offset > 0) {
        assert.ok('head' in found && found.head === position - 1, context)
        torn++
      } else {
        assert.ok('refused' in found && found.refused.includes(placeOf(line)), context)
        refused++
      }
    }
  }
  t.diagnostic(`${refused} runs of zeroed sectors refused, ${torn} at the end torn`)
  assert.ok(refused > 0 && torn > 0)
})

test('records that are doubled, dropped, swapped or moved are rejected with the place', async (t) => {
  const random = new Random(SEED)
  const { bytes, lines } = await written(RECORDS, random)
  const texts = lines.map(({ offset, end }) => bytes.subarray(offset, end))
  let changes = 0
  for (let index = 1; index < texts.length; index++) {
    const [before, line, rest] = [texts.slice(0, index), texts[index] as Buffer, texts.slice(index + 1)]
    const changed: Record<string, readonly Buffer[]> = { doubled: [...before, line, line, ...rest] }
    if (rest.length > 0) {
      changed.dropped = [...before, ...rest]
      changed.swapped = [...before, rest[0] as Buffer, line, ...rest.slice(1)]
      changed.moved = [...before, ...rest, line]
      const other = texts[1 + random.integer(texts.length - 1)] as Buffer
      if (other !== line) changed.overwritten = [...before, other, ...rest]
    }
    for (const [what, order] of Object.entries(changed)) {
      const found = await walked(Buffer.concat(order))
      const place = lines[what === 'doubled' ? index + 1 : index]
      // A doubled last record stands where there was none.
      const expected = place ? placeOf(place) : `offset ${bytes.length}, position ${RECORDS + 1}:`
      assert.ok(
        'refused' in found && found.refused.includes(expected),
        `SEED=${SEED}: record ${index} ${what}: ${JSON.stringify(found)}`,
      )
      changes++
    }
  }
  t.diagnostic(`${changes} changes of the order of ${RECORDS} records: 0 unnoticed`)
})

test('a damaged journal fails the start of the program: the place is named, exit code 1, no byte changes', async (t) => {
  const random = new Random(SEED)
  const whole = await temporaryDirectory(t)
  const server = await startProgram(t, { directory: whole, data: {}, flags: ['--Api.UpsertOnPut', 'true'] })
  const load = new Load(random, 'w')
  const working = load.run(server.url, 8)
  await load.reached(RECORDS)
  load.end()
  await working
  assert.equal(await server.stop(), 0)

  const name = join('db.journal', segmentName(1))
  const { bytes, lines, lastBatch } = linesOf(await readFile(join(whole, name)))
  const directory = await temporaryDirectory(t)
  await cp(whole, directory, { recursive: true })
  const segment = join(directory, name)
  const kinds: Record<string, number> = {}
  for (let start = 0; start < STARTS; start++) {
    const { kind, damaged, line } = damage(random, bytes, lines, lastBatch)
    kinds[kind] = (kinds[kind] ?? 0) + 1
    await writeFile(segment, damaged)
    // With it, what lies before its position would be looked at behind the answers.
    await rm(join(directory, 'db.journal', 'store'), { recursive: true, force: true })
    const before = await stateOf(directory)
    const program = spawnServer(t, directory)
    const context = `SEED=${SEED}, start ${start}, ${kind}`
    assert.equal(await program.listening(), undefined, context)
    assert.equal((await program.ended()).code, 1, context)
    assert.ok(program.stderr().includes(placeOf(line, segment)), `${context}: ${program.stderr()}`)
    assert.deepEqual(await stateOf(directory), before, context)
  }

  await writeFile(segment, bytes)
  const mended = await startProgram(t, { directory })
  assert.equal(await mended.stop(), 0)
  t.diagnostic(`${STARTS} starts refused: ${JSON.stringify(kinds)}`)
})

function damage(
  random: Random,
  bytes: Buffer,
  lines: readonly Line[],
  lastBatch: number,
): { readonly kind: string; readonly damaged: Buffer; readonly line: Line } {
  const damaged = Buffer.from(bytes)
  const kind = random.pick(['bit', 'sector', 'doubled', 'dropped', 'swapped', 'cut'] as const)
  const index = 1 + random.integer(lines.length - 2)
  const line = lines[index] as Line
  const next = lines[index + 1] as Line
  switch (kind) {
    case 'bit': {
      const at = random.integer(bytes.length)
      damaged[at] = (damaged[at] as number) ^ (1 << random.integer(8))
      return { kind, damaged, line: lineAt(lines, at) }
    }
    case 'sector': {
      const at = random.integer(Math.floor(lastBatch / SECTOR)) * SECTOR
      damaged.fill(0, at, at + SECTOR)
      return { kind, damaged, line: lineAt(lines, at) }
    }
    case 'doubled':
      return {
        kind,
        damaged: Buffer.concat([bytes.subarray(0, line.end), bytes.subarray(line.offset)]),
        line: next,
      }
    case 'dropped':
      return { kind, damaged: Buffer.concat([bytes.subarray(0, line.offset), bytes.subarray(line.end)]), line }
    case 'swapped': {
      const [one, other] = [bytes.subarray(line.offset, line.end), bytes.subarray(next.offset, next.end)]
      const rest = bytes.subarray(next.end)
      return { kind, damaged: Buffer.concat([bytes.subarray(0, line.offset), other, one, rest]), line }
    }
    case 'cut': {
      const at = line.offset + random.integer(line.end - line.offset - 1)
      return { kind, damaged: Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1)]), line }
    }
    default:
      return kind satisfies never
  }
}

test('a journal whose end was cut off cleanly is rejected by the data file, and opens when that is accepted', async (t) => {
  const server = await startProgram(t, { data: {}, flags: ['--Api.UpsertOnPut', 'true'] })
  const load = new Load(new Random(SEED), 'w')
  const working = load.run(server.url, 8)
  await load.reached(50)
  load.end()
  await working
  assert.equal(await server.stop(), 0)
  const segment = join(server.directory, 'db.journal', segmentName(1))
  const { bytes, lines } = linesOf(await readFile(segment))
  const last = lines.at(-5) as Line
  await rm(segment)
  await writeFile(segment, bytes.subarray(0, last.offset))
  const before = await stateOf(server.directory)
  const refused = spawnServer(t, server.directory)
  assert.equal(await refused.listening(), undefined)
  assert.equal((await refused.ended()).code, 1)
  assert.match(
    refused.stderr(),
    new RegExp(`the journal ends at ${last.expected.position - 1}: it has lost the events`),
  )
  assert.deepEqual(await stateOf(server.directory), before)
  const state = await readFile(server.file, 'utf8')
  const accepted = await startProgram(t, { directory: server.directory, flags: ['--accept-journal'] })
  assert.equal(await accepted.stop(), 0)
  assert.deepEqual(JSON.parse(await readFile(server.file, 'utf8')), JSON.parse(state))
  const { next } = await walk(nodeFiles, join(server.directory, 'db.journal'), () => {})
  assert.ok(next.position > last.expected.position)
})
