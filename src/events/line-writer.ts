import type { OpenFile } from '../files/files.ts'
import type { EncodedLine } from './record-writer.ts'

/** Lines are written together until they have this size. */
const WRITE_BYTES = 1024 * 1024
/** Smaller than most lines of a large write, so that it yields after each of them. */
const LARGE_WRITE_BYTES = 256 * 1024

/** Writes lines durably, several at once, without copying all lines of a large write. */
export async function writeLines(
  file: OpenFile,
  lines: Iterable<EncodedLine>,
  offset: number,
  isLarge: boolean,
): Promise<void> {
  const together = isLarge ? LARGE_WRITE_BYTES : WRITE_BYTES
  let at = offset
  let gathered: Buffer[] = []
  let size = 0
  const write = async (): Promise<void> => {
    await writeWhole(file, gathered.length === 1 ? (gathered[0] as Buffer) : Buffer.concat(gathered, size), at)
    at += size
    gathered = []
    size = 0
  }
  for (const { bytes } of lines) {
    gathered.push(bytes)
    size += bytes.length
    if (size >= together) await write()
  }
  if (size > 0) await write()
}

/** After this many partial writes the disk counts as full. */
const MOST_ATTEMPTS = 10

/**
 * Writes complete records durably. Cuts back partial writes first: otherwise a power loss during the rest could leave
 * zeros in the middle of a record, which is not a torn tail.
 */
async function writeWhole(file: OpenFile, bytes: Buffer, offset: number): Promise<void> {
  for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
    if ((await file.write(bytes, offset)) === bytes.length) return
    await file.truncate(offset)
    await file.sync()
  }
  throw Object.assign(new Error(`There is no room for ${bytes.length} bytes.`), { code: 'ENOSPC' })
}
