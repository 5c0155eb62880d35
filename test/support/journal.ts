import { randomUUID } from 'node:crypto'
import { pino } from 'pino'
import { FileJournal, type FileJournalOptions } from '../../src/events/file-journal.ts'
import type { Recorded } from '../../src/events/journal.ts'
import type { Files } from '../../src/files/files.ts'
import { LimitedLog } from '../../src/runtime/limited-log.ts'

/** Each segment is compressed as soon as it is sealed, without rests. */
export const COMPRESSED_AT_ONCE = {
  afterMs: 0,
  schedule: (work: () => void) => {
    const timer = setImmediate(work)
    return { cancel: () => clearImmediate(timer) }
  },
  log: { info: () => {}, warn: () => {} },
}

export interface OpenedJournal {
  readonly journal: FileJournal
  /** The records that opening replayed. */
  readonly replayed: readonly Recorded[]
  /** The error that made the journal unusable, if there was one. */
  readonly failures: readonly unknown[]
}

export async function openJournal(
  files: Files,
  directory: string,
  options: Partial<Pick<FileJournalOptions, 'now' | 'segmentBytes' | 'newId' | 'resume' | 'compress'>> = {},
): Promise<OpenedJournal> {
  const replayed: Recorded[] = []
  const failures: unknown[] = []
  const journal = await FileJournal.open({
    files,
    directory,
    now: options.now ?? (() => new Date('2026-11-20T12:00:00.000Z')),
    log: new LimitedLog(pino({ level: 'silent' }), () => 0),
    newId: options.newId ?? randomUUID,
    segmentBytes: options.segmentBytes ?? 64 * 1024 * 1024,
    ...(options.compress && { compress: options.compress }),
    ...(options.resume && { resume: options.resume }),
    replay: (recorded) => replayed.push(recorded),
    failed: (error) => failures.push(error),
  })
  return { journal, replayed, failures }
}
