import { randomUUID } from 'node:crypto'
import { pino } from 'pino'
import { ClusterJournal, type ClusterJournalOptions } from '../../src/cluster/cluster-journal.ts'
import type { RecordStream } from '../../src/cluster/record-stream.ts'
import type { Recorded } from '../../src/events/journal.ts'
import type { Files } from '../../src/files/files.ts'

export const SILENT = pino({ level: 'silent' })

export interface OpenedClusterJournal {
  readonly journal: ClusterJournal
  /** What it was given to replay and to follow, in order. */
  readonly seen: readonly Recorded[]
  /** What would have ended the process. */
  readonly failures: readonly unknown[]
  /** How often it ceased to decide. */
  readonly lost: () => number
}

/** One node's journal on a stream, following it. */
export async function openClusterJournal(
  stream: RecordStream,
  files: Files,
  directory: string,
  options: Partial<Pick<ClusterJournalOptions, 'now' | 'segmentBytes' | 'node'>> = {},
): Promise<OpenedClusterJournal> {
  const seen: Recorded[] = []
  const failures: unknown[] = []
  let lost = 0
  const journal = await ClusterJournal.open({
    stream,
    files,
    directory,
    node: options.node ?? 'node',
    now: options.now ?? (() => new Date('2026-11-20T12:00:00.000Z')),
    newId: randomUUID,
    segmentBytes: options.segmentBytes ?? 64 * 1024 * 1024,
    locked: async () => {},
    replay: (recorded) => seen.push(recorded),
    lost: () => lost++,
    failed: (error) => failures.push(error),
  })
  journal.follow((recorded) => void seen.push(recorded))
  await journal.begin()
  return { journal, seen, failures, lost: () => lost }
}
