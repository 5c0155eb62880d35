/** What a file is known by: it changes whenever somebody else has written or replaced the file. */
export interface FileStat {
  readonly size: number
  /** Equal signatures mean: the same file, not written since. */
  readonly signature: string
  /** Permission bits. */
  readonly mode: number
  /** No directory, pipe or device. */
  readonly isFile: boolean
}

export interface OpenFile {
  /** May write fewer bytes than asked, as the operating system may. Resolves with the number written. */
  write(bytes: Uint8Array, offset: number): Promise<number>
  /** Reads up to `into.length` bytes; 0 at the end. */
  read(into: Uint8Array, offset: number): Promise<number>
  size(): Promise<number>
  truncate(size: number): Promise<void>
  /** Resolves when the bytes written are on the medium (fdatasync). */
  sync(): Promise<void>
  close(): Promise<void>
}

/**
 * The file system as this program sees it. Everything that must survive a crash goes through here, so that a
 * test can put a simulated disk underneath. Errors are Node's, with their `code`.
 */
export interface Files {
  /**
   * `create` fails when the file exists, and gives it exactly the mode, by default one for the owner alone; `edit` reads and writes one that does, and so
   * does `log`, where the bytes of a write are on the medium when it resolves.
   */
  open(path: string, how: 'read' | 'edit' | 'log' | 'create', mode?: number): Promise<OpenFile>
  /** The whole content, or undefined when there is no such file. */
  read(path: string): Promise<Buffer | undefined>
  stat(path: string): Promise<FileStat | undefined>
  list(directory: string): Promise<readonly string[]>
  /** Makes it and its missing parents, durably, for the owner alone. */
  makeDirectory(path: string): Promise<void>
  rename(from: string, to: string): Promise<void>
  remove(path: string): Promise<void>
  /** Gives a file a second name; false where that cannot be (another file system, no hard links). */
  link(from: string, to: string): Promise<boolean>
  /** Makes creations, renames and removals in the directory durable. */
  syncDirectory(path: string): Promise<void>
  /** The path with every symbolic link followed, also where nothing is at its end; the path itself when nothing is there. */
  resolve(path: string): Promise<string>
  /**
   * Takes the file as this process's own until `release` or the process's end, however it ends.
   * Undefined when another process has it.
   */
  lock(path: string): Promise<{ release(): Promise<void> } | undefined>
  /** Calls back after something in the directory changed; may do so too often. */
  watch(directory: string, changed: (name: string) => void): { close(): void }
}

/** Writes every byte: the operating system may take fewer than asked without an error. */
export async function writeAll(file: OpenFile, bytes: Uint8Array, offset: number): Promise<void> {
  let written = 0
  while (written < bytes.length) written += await file.write(bytes.subarray(written), offset + written)
}

/** Reads exactly `length` bytes, fewer only at the end of the file. */
export async function readFully(file: Pick<OpenFile, 'read'>, length: number, offset: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(length)
  let filled = 0
  while (filled < length) {
    const count = await file.read(buffer.subarray(filled), offset + filled)
    if (count === 0) break
    filled += count
  }
  return buffer.subarray(0, filled)
}

/** A large file is synced as it grows: at its end alone, that would hold up whoever else syncs then. */
const SYNC_BYTES = 16 * 1024 * 1024

/** Writes a new file and syncs it; one left over from a crash is written anew. */
export async function writeNew(
  files: Files,
  path: string,
  chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
  mode?: number,
): Promise<void> {
  if (await files.stat(path)) await files.remove(path)
  const file = await files.open(path, 'create', mode)
  try {
    await writeChunks(file, chunks)
  } finally {
    await file.close()
  }
}

/** Writes an empty file and syncs it. */
export async function writeChunks(
  file: OpenFile,
  chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
): Promise<void> {
  let offset = 0
  let synced = 0
  for await (const chunk of chunks) {
    await writeAll(file, chunk, offset)
    offset += chunk.length
    if (offset - synced < SYNC_BYTES) continue
    await file.sync()
    synced = offset
  }
  await file.sync()
}

/** Replaces a file as a whole: after a crash there is the old one or the new one, never a mixture. */
export async function replace(files: Files, path: string, bytes: Uint8Array, mode?: number): Promise<void> {
  const temporary = `${path}.tmp`
  await writeNew(files, temporary, [bytes], mode)
  await files.rename(temporary, path)
  await files.syncDirectory(directoryOf(path))
}

export function directoryOf(path: string): string {
  const slash = path.lastIndexOf('/')
  return slash < 0 ? '.' : path.slice(0, slash) || '/'
}

/** Whether an error says that the disk, or what this process may use of it, is full. */
export function isOutOfSpace(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | undefined)?.code
  return code === 'ENOSPC' || code === 'EDQUOT' || code === 'EFBIG'
}
