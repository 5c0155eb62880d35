import { type Files, makeIgnoredDirectory, writeNew } from '../files/files.ts'
import { Refusal } from '../runtime/errors.ts'
import type { Recorded } from './journal.ts'
import { BEGINNING, FORMAT, NO_PREVIOUS } from './record-format.ts'
import { encodeEvent, encodeHeader, WriteEncoder } from './record-writer.ts'
import { segmentAt } from './segment.ts'

/**
 * Writes a journal of one segment whose writes have given times. It is the only code that can date events back, and it only
 * makes new journals: no directory of the path may exist.
 * @param writes in order, from position 1 on, with ascending times
 * @throws {Refusal} `Conflict` if something is at the path
 */
export async function writeNewJournal(
  files: Files,
  directory: string,
  id: string,
  writes: AsyncIterable<Recorded>,
): Promise<void> {
  if (await files.stat(directory)) {
    throw new Refusal('Conflict', `${directory} exists. Past times are only written to a new journal.`)
  }
  await makeIgnoredDirectory(files, directory)
  const { path } = segmentAt(directory, BEGINNING.position, 0)
  await writeNew(files, `${path}.tmp`, lines(id, writes))
  await files.rename(`${path}.tmp`, path)
  await files.syncDirectory(directory)
}

/** The lines of the segment. Each write has a flush of its own. */
async function* lines(journal: string, writes: AsyncIterable<Recorded>): AsyncGenerator<Buffer> {
  const first = BEGINNING.position
  yield encodeHeader({ format: FORMAT, journal, first, previous: NO_PREVIOUS }).bytes
  let previous = NO_PREVIOUS
  let last = ''
  for await (const write of writes) {
    const { position, time, events } = write
    if (time < last) throw new Error(`the write at position ${position} is earlier than the one before it`)
    last = time
    const encoder = new WriteEncoder({ position, previous, flush: position, time }, write)
    for (const event of events) {
      const record = encoder.add(encodeEvent(event))
      if (record) yield record.bytes
    }
    const end = encoder.end()
    yield end.bytes
    previous = end.crc
  }
}
