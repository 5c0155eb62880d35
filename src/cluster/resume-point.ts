import { lastPosition } from '../events/journal.ts'
import type { ChainState } from '../events/record-format.ts'
import type { RecordLine } from '../events/record-reader.ts'
import { JournalMismatch } from '../runtime/errors.ts'
import { decodeContent, type Sequence } from './message.ts'
import type { RecordStream } from './record-stream.ts'

export interface ResumePoint {
  /** Sequence of the message that holds the last record of the copy. */
  readonly sequence: Sequence
  /** The lines of that message after this record. */
  readonly rest: readonly RecordLine[]
}

/**
 * Finds where in the stream a copy ends.
 * @throws {JournalMismatch} when the stream does not continue the copy.
 */
export async function findResumePoint(stream: RecordStream, next: ChainState, directory: string): Promise<ResumePoint> {
  if (next.position === 1) return { sequence: 1, rest: [] }
  const head = next.position - 1
  let low = 1
  let high = await stream.last()
  while (low < high) {
    const middle = (low + high + 1) >> 1
    const message = await stream.find(middle)
    if (message && message.position <= head) low = middle
    else high = middle - 1
  }
  const message = low > 1 ? await stream.find(low) : undefined
  const content = message && decodeContent(message)
  const lines = content?.kind === 'records' ? content.lines : []
  const index = lines.findIndex(({ record }) => lastPosition(record) === head)
  const line = lines[index]
  if (line === undefined) {
    throw new JournalMismatch(
      `${directory} is a copy of the stream up to position ${head}, and the stream ends before that: it has lost events. Every other node may hold them, too: see docs/cluster.md, "When the stream lost events".`,
    )
  }
  if (line.crc !== next.previous) {
    throw new JournalMismatch(
      `${directory} is no copy of the stream: they differ at position ${head}. Name the right stream, or another directory with --journal.`,
    )
  }
  return { sequence: low, rest: lines.slice(index + 1) }
}
