import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { COLLECTION, type Reading, readings, SEED, writeTexts } from './readings.ts'

/** The format is that of docs/journal.md. It is written here without the program, so that a journal of a million events takes seconds. */
const SEGMENT_BYTES = 64 * 1024 * 1024
const JOURNAL_ID = '6f6d2f3c-6d0b-4c1e-9f5e-000000000001'
/** Writes that shared a flush. */
const FLUSH = 64

const hex = (value: number): string => value.toString(16).padStart(8, '0')

function frame(json: string): { readonly bytes: Buffer; readonly crc: string } {
  const rest = Buffer.from(json.slice(1))
  const crc = hex(crc32(rest))
  const checked = crc + hex(rest.length)
  return { bytes: Buffer.from(`{"frame":"${checked}${hex(crc32(checked))}",${rest.toString()}\n`), crc }
}

/** The events of readings that are created one by one. */
export function* creations(all: Iterable<Reading>): Generator<ItemEvent> {
  for (const item of all) yield { type: 'ItemCreated', item, revision: 1, prior: 0 }
}

/** The creation of so many readings, then replacements of all of them in turn: `times` for each. */
export function* changes(count: number, times: number): Generator<ItemEvent> {
  yield* creations(readings(count))
  for (let change = 0; change < times; change++) {
    let index = 0
    for (const item of readings(count, SEED + 1 + change)) {
      yield { type: 'ItemReplaced', item, revision: change + 2, prior: FIRST_ITEM + change * count + index++ }
    }
  }
}

interface ItemEvent {
  readonly type: 'ItemCreated' | 'ItemReplaced'
  readonly item: Reading
  readonly revision: number
  readonly prior: number
}

/** Position 1 is the creation of the collection. */
const FIRST_ITEM = 2

/** A journal with one record for each event. */
export async function writeJournal(directory: string, events: Iterable<ItemEvent>): Promise<void> {
  let position = 1
  let previous = '00000000'
  let flush = 1
  const time = '2026-11-21T08:00:00.000Z'
  const rest = events[Symbol.iterator]()
  let next = rest.next()
  while (!next.done) {
    const first = position
    const segment = function* (): Generator<Buffer> {
      const header = frame(JSON.stringify({ format: 1, journal: JOURNAL_ID, first, previous }))
      yield header.bytes
      let size = header.bytes.length
      while (!next.done && size < SEGMENT_BYTES) {
        if ((position - 1) % FLUSH === 0) flush = position
        const { type, item, revision, prior } = next.value
        const requestId = `6f6d2f3c-6d0b-4c1e-9f5e-${String(item.id).padStart(12, '0')}`
        const head = JSON.stringify({ position, previous, flush, time, actor: 'anonymous', requestId })
        const created = position === 1 ? `{"type":"CollectionCreated","collection":"${COLLECTION}"},` : ''
        const event = JSON.stringify({ type, collection: COLLECTION, id: item.id, revision, prior, item })
        const line = frame(`${head.slice(0, -1)},"events":[${created}${event}]}`)
        yield line.bytes
        size += line.bytes.length
        previous = line.crc
        position += created === '' ? 1 : FIRST_ITEM
        next = rest.next()
      }
    }
    await writeTexts(join(directory, `${String(first).padStart(20, '0')}.ndjson`), segment())
  }
}
