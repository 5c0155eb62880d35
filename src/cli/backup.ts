import { basename } from 'node:path'
import { writeSnapshot } from '../data-file/adapter.ts'
import { writeStateFile } from '../data-file/state-file.ts'
import type { Position } from '../events/event.ts'
import { openSegment } from '../events/segment-text.ts'
import { walk } from '../events/walk.ts'
import { type Files, makeIgnoredDirectory, type OpenFile, readFully, writeNew } from '../files/files.ts'
import { fold, type Progress } from '../projections/journal-fold.ts'
import { Refusal } from '../runtime/errors.ts'

interface BackupResult {
  /** Position of the last event in the copy. */
  readonly position: Position
  readonly segments: number
  /** The data file of the copy, with which a server opens the copy. */
  readonly file: string
}

/**
 * Copies journal and data file consistently to a new directory, also while a server is running: all segments up to the
 * last complete write, and the data file for that state. Full segments are hard-linked if possible.
 */
export async function backup(
  files: Files,
  journal: string,
  file: string,
  out: string,
  progress: Progress,
): Promise<BackupResult> {
  if ((await files.list(out)).length > 0)
    throw new Refusal('Conflict', `${out} is not empty; a backup needs a new directory.`)
  const { views, walked } = await fold(files, journal, { position: Number.MAX_SAFE_INTEGER }, progress)
  const { id, segments } = walked
  if (id === undefined) throw new Refusal('NotFound', `There is no journal in ${journal}.`)
  const name = basename(file)
  const copy = { file: `${out}/${name}`, journal: `${out}/${name.replace(/\.json$/i, '')}.journal` }
  await makeIgnoredDirectory(files, copy.journal)
  // The mark comes first: an interrupted copy ends before it and is refused (docs/journal.md, J22).
  const confirmed = { position: views.position, hash: await writeSnapshot(files, copy.file, views.snapshot()) }
  await writeStateFile(
    files,
    { dataFile: copy.file, journal: copy.journal },
    { journal: id, confirmed, pending: undefined, versions: [] },
  )
  for (const [index, segment] of segments.entries()) {
    const source = await openSegment(files, segment)
    try {
      const target = (path: string): string => `${copy.journal}/${basename(path)}`
      // The last segment is copied as text up to that write: the server may seal and compress it meanwhile.
      if (index === segments.length - 1) await copyBytes(files, source, segment.size, target(segment.path))
      else if (!(await tryLink(files, source.path, target(source.path))))
        await copyBytes(files, source.file, await source.file.size(), target(source.path))
    } finally {
      await source.close()
    }
  }
  await files.syncDirectory(copy.journal)

  const checked = await walk(files, copy.journal)
  if (checked.next.position - 1 !== views.position) throw new Error(`the copy in ${out} ends at another position`)
  return { position: views.position, segments: segments.length, file: copy.file }
}

/** False also if the segment has just been compressed. */
async function tryLink(files: Files, from: string, to: string): Promise<boolean> {
  try {
    return await files.link(from, to)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
    throw error
  }
}

const PIECE_BYTES = 4 * 1024 * 1024

function copyBytes(files: Files, source: Pick<OpenFile, 'read'>, size: number, target: string): Promise<void> {
  return writeNew(files, target, pieces())

  async function* pieces(): AsyncGenerator<Buffer> {
    for (let offset = 0; offset < size; offset += PIECE_BYTES) {
      yield await readFully(source, Math.min(PIECE_BYTES, size - offset), offset)
    }
  }
}
