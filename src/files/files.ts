import type { Adapter } from 'lowdb'

export interface FileStat {
  readonly size: number
  /** Two equal signatures mean that the file has not been written in between. */
  readonly signature: string
  readonly mode: number
  /** False for directories, pipes and devices. */
  readonly isFile: boolean
}

export interface OpenFile {
  /** May write fewer bytes than requested. Resolves with the number written. */
  write(bytes: Uint8Array, offset: number): Promise<number>
  /** Reads up to `into.length` bytes; 0 at the end. */
  read(into: Uint8Array, offset: number): Promise<number>
  size(): Promise<number>
  truncate(size: number): Promise<void>
  /** Resolves when the written bytes are on the medium (fdatasync). */
  sync(): Promise<void>
  close(): Promise<void>
}

/**
 * The file system. Everything that must survive a crash goes through this interface, so that tests can simulate a disk.
 * Errors are those of Node, with their `code`.
 */
export interface Files {
  /**
   * `read` and `edit` require that the file exists. `log` is `edit` with synchronous writes: a write resolves when its
   * bytes are on the medium. `create` fails if the file exists, and sets exactly the given mode (default: read and
   * write for the owner).
   */
  open(path: string, how: 'read' | 'edit' | 'log' | 'create', mode?: number): Promise<OpenFile>
  /** The whole content; undefined if the file does not exist. */
  read(path: string): Promise<Buffer | undefined>
  stat(path: string): Promise<FileStat | undefined>
  list(directory: string): Promise<readonly string[]>
  /** Creates the directory and its missing parents durably, accessible to the owner only. */
  makeDirectory(path: string): Promise<void>
  rename(from: string, to: string): Promise<void>
  /** Gives two files each other's names in one step. Resolves with false where the file system cannot do that. */
  exchange(one: string, other: string): Promise<boolean>
  remove(path: string): Promise<void>
  /** Creates a hard link. Resolves with false where that is impossible (another file system, no hard links). */
  link(from: string, to: string): Promise<boolean>
  /** Makes file creations, renames and removals in the directory durable. */
  syncDirectory(path: string): Promise<void>
  /** The path without symbolic links. A link may be dangling; nothing has to be there. */
  follow(path: string): Promise<string>
  /** Locks the file until `release` or the end of the process. Undefined if another process holds the lock. */
  lock(path: string): Promise<{ release(): Promise<void> } | undefined>
}

/** Repeats partial writes until all bytes are written. */
export async function writeAll(file: OpenFile, bytes: Uint8Array, offset: number): Promise<void> {
  let written = 0
  while (written < bytes.length) written += await file.write(bytes.subarray(written), offset + written)
}

/** Reads exactly `length` bytes; fewer only at the end of the file. */
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

/** Bytes written between two syncs. One sync at the end of a large file would delay those of other files. */
const SYNC_BYTES = 16 * 1024 * 1024

/** Creates a file and syncs it; replaces one that is left over from a crash. */
export async function writeNew(
  files: Files,
  path: string,
  chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
  mode?: number,
): Promise<void> {
  if (await files.stat(path)) await files.remove(path)
  await createFile(files, path, chunks, mode)
}

/** Creates a file and syncs it. A file that cannot be written is removed: it would take the last space of a full disk. */
export async function createFile(
  files: Files,
  path: string,
  chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
  mode?: number,
): Promise<void> {
  const file = await files.open(path, 'create', mode)
  try {
    await writeChunks(file, chunks)
  } catch (error) {
    await file.close().catch(() => {})
    await files.remove(path).catch(() => {})
    throw error
  }
  await file.close()
}

/** Writes to an empty file and syncs it. */
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

/** Replaces a file atomically: after a crash the file has either the old or the new content. */
export async function replace(files: Files, path: string, bytes: Uint8Array): Promise<void> {
  const temporary = `${path}.tmp`
  await writeNew(files, temporary, [bytes])
  await files.rename(temporary, path)
  await files.syncDirectory(directoryOf(path))
}

/** Creates a directory that git ignores, with all that will be in it. An empty one was not completed by a crash. */
export async function makeIgnoredDirectory(files: Files, path: string): Promise<void> {
  if ((await files.list(path)).length > 0) return
  await files.makeDirectory(path)
  await ignoreInGit(files, path)
}

/** Makes git ignore a directory, unless that has rules of its own. */
export async function ignoreInGit(files: Files, directory: string): Promise<void> {
  const path = `${directory}/.gitignore`
  if (!(await files.stat(path))) await replace(files, path, Buffer.from('*\n'))
}

/**
 * Moves a new file to a path in one step. Resolves with true if a file that was there has the name of the new one now,
 * and with false if there was none, or if the file system cannot exchange files: then that file is lost.
 */
export async function putInPlace(files: Files, from: string, to: string): Promise<boolean> {
  try {
    if (await files.exchange(from, to)) return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    // A link, unlike a rename, fails if another program creates the missing file now.
    if (await files.link(from, to)) {
      await files.remove(from)
      return false
    }
  }
  await files.rename(from, to)
  return false
}

export function directoryOf(path: string): string {
  const slash = path.lastIndexOf('/')
  return slash < 0 ? '.' : path.slice(0, slash) || '/'
}

/** Whether the error says that the disk is full, or a quota or file size limit is reached. */
export function isOutOfSpace(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | undefined)?.code
  return code === 'ENOSPC' || code === 'EDQUOT' || code === 'EFBIG'
}

/** Errors of replacing a mounted file, or in a read-only directory. */
const UNWRITABLE = ['EBUSY', 'EXDEV', 'EACCES', 'EPERM', 'EROFS']

/** Whether the error says that a file cannot be replaced, or a directory not be written to. */
export function isUnwritable(error: unknown): boolean {
  return UNWRITABLE.includes((error as NodeJS.ErrnoException | undefined)?.code ?? '')
}

/** A small JSON document for lowdb, whose own adapter does not sync. */
export class JsonFile<Content> implements Adapter<Content> {
  readonly #files: Files
  readonly #path: string

  constructor(files: Files, path: string) {
    this.#files = files
    this.#path = path
  }

  /**
   * Null if the file does not exist.
   * @throws {SyntaxError} when it holds no JSON object or array; otherwise the content is not checked.
   */
  async read(): Promise<Content | null> {
    const bytes = await this.#files.read(this.#path)
    if (!bytes) return null
    const content = JSON.parse(bytes.toString()) as Content
    // lowdb would take null and other falsy values for a missing file.
    if (typeof content !== 'object' || content === null) throw new SyntaxError(`${this.#path} holds no document`)
    return content
  }

  write(content: Content): Promise<void> {
    return replace(this.#files, this.#path, Buffer.from(`${JSON.stringify(content)}\n`))
  }
}
