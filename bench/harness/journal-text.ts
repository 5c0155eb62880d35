import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { COLLECTION, type Reading, writeTexts } from './readings.ts'

/** docs/journal.md has the format; it is written out once more here, so that a journal of a million events is made in seconds. */
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

/** A journal of one record a reading, which creates it. */
export async function writeJournal(directory: string, all: Iterable<Reading>): Promise<void> {
  let position = 1
  let previous = '00000000'
  let flush = 1
  const time = '2026-11-21T08:00:00.000Z'
  const rest = all[Symbol.iterator]()
  let next = rest.next()
  while (!next.done) {
    const first = position
    const segment = function* (): Generator<Buffer> {
      const header = frame(JSON.stringify({ format: 1, journal: JOURNAL_ID, first, previous }))
      yield header.bytes
      let size = header.bytes.length
      while (!next.done && size < SEGMENT_BYTES) {
        if ((position - 1) % FLUSH === 0) flush = position
        const { id } = next.value
        const requestId = `6f6d2f3c-6d0b-4c1e-9f5e-${String(id).padStart(12, '0')}`
        const head = JSON.stringify({ position, previous, flush, time, actor: 'anonymous', requestId })
        const created = position === 1 ? `{"type":"CollectionCreated","collection":"${COLLECTION}"},` : ''
        const event = `{"type":"ItemCreated","collection":"${COLLECTION}","id":${id},"revision":1,"prior":0,"item":${JSON.stringify(next.value)}}`
        const line = frame(`${head.slice(0, -1)},"events":[${created}${event}]}`)
        yield line.bytes
        size += line.bytes.length
        previous = line.crc
        position += created === '' ? 1 : 2
        next = rest.next()
      }
    }
    await writeTexts(join(directory, `${String(first).padStart(20, '0')}.ndjson`), segment())
  }
}
