import { randomUUID } from 'node:crypto'
import { pino } from 'pino'
import { type ClusterSettings, connect, retryWhileUnavailable } from '../cluster/connection.ts'
import { JetStream } from '../cluster/jetstream.ts'
import { type MigrationProgress, type MigrationResult, moveToDirectory, moveToStream } from '../cluster/migration.ts'
import type { Files } from '../files/files.ts'

/** From a journal on disk to a stream, or back. */
export type Migration =
  | { readonly from: string; readonly to: ClusterSettings }
  | { readonly from: ClusterSettings; readonly to: string }

const SEGMENT_BYTES = 64 * 1024 * 1024

/** Copies a journal completely and unchanged. Resumes after an interruption. */
export async function migrate(
  files: Files,
  migration: Migration,
  progress: MigrationProgress,
): Promise<MigrationResult> {
  const { from, to } = migration
  const place = typeof from === 'string' ? (to as ClusterSettings) : from
  const log = pino({ level: 'silent' })
  const nc = await retryWhileUnavailable(log, () => connect(place, 'recollect migrate', files))
  try {
    const stream = await retryWhileUnavailable(log, () => JetStream.open(nc, place.stream, place.replicas, log))
    return typeof from === 'string'
      ? await moveToStream(files, from, stream, randomUUID, progress)
      : await moveToDirectory(stream, files, to as string, SEGMENT_BYTES, progress)
  } finally {
    await nc.close()
  }
}
