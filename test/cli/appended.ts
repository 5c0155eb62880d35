import type { DomainEvent } from '../../src/events/event.ts'
import { segmentName } from '../../src/events/segment.ts'
import type { Files } from '../../src/files/files.ts'
import { created, draft } from '../contract/journal.ts'
import { until } from '../support/deadline.ts'
import { COMPRESSED_AT_ONCE, openJournal } from '../support/journal.ts'

export const SEGMENT_BYTES = 2000
/** Every third write has so many events. */
const EVENTS_OF_LONG_WRITE = 3

/** The time of the write at a position: a minute for each. */
export function timeOf(position: number): string {
  return new Date(Date.UTC(2026, 10, 20, 0, position)).toISOString()
}

interface AppendOptions {
  /** Whether sealed segments are compressed, also those of earlier calls. */
  readonly compresses?: boolean
  /** A character that the items consist of. */
  readonly text?: string
  /** The UUID of a new journal. */
  readonly id?: string
}

/** Opens a journal in small segments, adds so many writes, and closes it. Resolves with its last position. */
export async function append(
  files: Files,
  directory: string,
  writes: number,
  { compresses = false, text = 'x', id }: AppendOptions = {},
): Promise<number> {
  let next = 1
  const { journal } = await openJournal(files, directory, {
    segmentBytes: SEGMENT_BYTES,
    now: () => new Date(timeOf(next)),
    ...(compresses && { compress: COMPRESSED_AT_ONCE }),
    ...(id !== undefined && { newId: () => id }),
  })
  for (let written = 0; written < writes; written++) {
    next = journal.head + 1
    const count = written % EVENTS_OF_LONG_WRITE === 0 ? EVENTS_OF_LONG_WRITE : 1
    const events = Array.from({ length: count }, (_, index): DomainEvent => {
      const position = next + index
      if (position === 1) return { type: 'CollectionCreated', collection: 'things' }
      return created(position, { text: text.repeat(100) })
    })
    await journal.append(draft(next, ...events))
  }
  if (compresses) {
    await until('all sealed segments to be compressed', () => {
      return journal.segments().filter(({ compressed }) => !compressed).length === 1
    })
  }
  await journal.close()
  return journal.head
}

/** The names of the segments in a directory, with their bytes. */
export async function segmentsIn(files: Files, directory: string): Promise<ReadonlyMap<string, string>> {
  const names = (await files.list(directory)).filter((name) => /^\d{20}\.ndjson(\.gz)?$/.test(name)).sort()
  const bytes = await Promise.all(
    names.map(async (name) => String((await files.read(`${directory}/${name}`))?.toString('latin1'))),
  )
  return new Map(names.map((name, index) => [name, bytes[index] as string]))
}

export function firstSegment(directory: string): string {
  return `${directory}/${segmentName(1)}`
}
