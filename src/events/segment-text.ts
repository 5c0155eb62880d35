import { crc32, gunzipSync } from 'node:zlib'
import { type Files, type OpenFile, readFully } from '../files/files.ts'
import { Corruption } from '../runtime/errors.ts'
import { JournalDamage } from './damage.ts'
import type { Position } from './event.ts'
import { type InflatedMembers, type Member, MemberTable } from './members.ts'

/** A segment to open. Its file is plain or compressed, under different names, and may be compressed at any time. */
export interface SegmentFile {
  /** The path of the plain file, even if only the compressed one exists. */
  readonly path: string
  /** The position of its first event. */
  readonly first: Position
  /** The table of the compressed file's members, once it was opened. */
  members?: MemberTable
}

/** The text of a segment, whether its file is plain or compressed. All offsets refer to the text. */
export interface SegmentText extends Pick<OpenFile, 'read' | 'size' | 'close'> {
  readonly path: string
  /** The bytes on disk, compressed or not. */
  readonly file: Pick<OpenFile, 'read' | 'size'>
}

/**
 * Opens a segment's file, the plain one if there are both.
 * @param inflated Caches the members of compressed segments.
 * @throws {JournalDamage} if the file is missing or unreadable as a whole; it does not know the next readable position
 */
export async function openSegment(
  files: Files,
  segment: SegmentFile,
  inflated?: InflatedMembers,
): Promise<SegmentText> {
  // The plain file may be replaced by the compressed one between two attempts, and after a crash both may exist.
  const text =
    (segment.members ? undefined : await openPlain(files, segment)) ??
    (await openCompressed(files, segment, inflated)) ??
    (await openPlain(files, segment))
  if (!text) throw unreadable(segment.path, segment, 'the segment is missing')
  return text
}

function unreadable(path: string, { first }: SegmentFile, why: string): JournalDamage {
  return new JournalDamage({ path, offset: 0, position: first, next: undefined, why })
}

async function openPlain(files: Files, segment: SegmentFile): Promise<SegmentText | undefined> {
  const { path } = segment
  const file = await openIfThere(files, path, segment)
  return file && { ...file, path, file }
}

async function openCompressed(
  files: Files,
  segment: SegmentFile,
  inflated: InflatedMembers | undefined,
): Promise<SegmentText | undefined> {
  const path = compressedPath(segment.path)
  const file = await openIfThere(files, path, segment)
  if (!file) return undefined
  try {
    const members = segment.members ?? (await MemberTable.read(file).catch(unlessUnreadable))
    if (!members) throw unreadable(path, segment, 'the table of its gzip members is damaged')
    segment.members = members
    return new CompressedText(path, file, segment.first, members, inflated)
  } catch (error) {
    await file.close()
    throw error
  }
}

export function compressedPath(path: string): string {
  return `${path}.gz`
}

async function openIfThere(files: Files, path: string, segment: SegmentFile): Promise<OpenFile | undefined> {
  try {
    return await files.open(path, 'read')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    unlessUnreadable(error)
    throw unreadable(path, segment, `the file cannot be opened (${code})`)
  }
}

class CompressedText implements SegmentText {
  readonly path: string
  readonly file: OpenFile
  readonly #first: Position
  readonly #members: MemberTable
  readonly #inflated: InflatedMembers | undefined
  #last: { readonly member: Member; readonly text: Buffer } | undefined

  constructor(
    path: string,
    file: OpenFile,
    first: Position,
    members: MemberTable,
    inflated: InflatedMembers | undefined,
  ) {
    this.path = path
    this.file = file
    this.#first = first
    this.#members = members
    this.#inflated = inflated
  }

  async size(): Promise<number> {
    return this.#members.size
  }

  /** Reads up to the end of a member. */
  async read(into: Uint8Array, offset: number): Promise<number> {
    const member = this.#members.at(offset)
    if (!member) return 0
    if (this.#last?.member.offset !== member.offset) this.#last = { member, text: await this.#text(member) }
    return this.#last.text.copy(into, 0, offset - member.textOffset)
  }

  close(): Promise<void> {
    return this.file.close()
  }

  async #text(member: Member): Promise<Buffer> {
    const cached = this.#inflated?.get(this.#first, member.offset)
    if (cached) return cached
    const text = await readMember(this.file, member)
    this.#inflated?.set(this.#first, member.offset, text)
    return text
  }
}

/** A part of a segment that cannot be read. */
class DamagedText extends Corruption {
  /** The offset of the text after the damaged part. */
  readonly end: number

  constructor(message: string, end: number) {
    super(message)
    this.end = end
  }
}

/** The text of a member, completely verified. */
export async function readMember(file: OpenFile, member: Member): Promise<Buffer> {
  const { offset, length, textOffset, textLength, crc } = member
  const bytes = await readFully(file, length, offset).catch(unlessUnreadable)
  if (bytes?.length === length && crc32(bytes) === crc) {
    const text = gunzipSync(bytes, { maxOutputLength: Math.max(1, textLength) })
    if (text.length === textLength) return text
  }
  throw new DamagedText(`the gzip member at byte ${offset} is damaged`, textOffset + textLength)
}

/** The bytes read from a text, and the damage that ended the reading. */
interface TextRead {
  readonly bytes: Buffer
  readonly damage?: DamagedText
}

/** The unit that a disk fails to read. */
const BLOCK_BYTES = 4096

/**
 * Reads at most `length` bytes at an offset: none at the end of the text, fewer at the end of a member, or in a file with
 * unreadable blocks.
 */
export async function readSome(text: SegmentText, length: number, offset: number): Promise<TextRead> {
  const bytes = Buffer.allocUnsafe(length)
  try {
    return { bytes: bytes.subarray(0, await text.read(bytes, offset)) }
  } catch (error) {
    const none = bytes.subarray(0, 0)
    if (error instanceof DamagedText) return { bytes: none, damage: error }
    unlessUnreadable(error)
    const left = BLOCK_BYTES - (offset % BLOCK_BYTES)
    if (length > left) return readSome(text, left, offset)
    const { code } = error as NodeJS.ErrnoException
    return { bytes: none, damage: new DamagedText(`this block cannot be read (${code})`, offset + left) }
  }
}

/** A damaged disk, a directory in place of the file, missing permissions, symbolic links in a circle. */
const UNREADABLE = ['EIO', 'EISDIR', 'EACCES', 'EPERM', 'ELOOP']

/** Throws any other error. */
function unlessUnreadable(error: unknown): undefined {
  if (!UNREADABLE.includes((error as NodeJS.ErrnoException).code ?? '')) throw error
}

/** Reads `length` bytes at an offset, fewer only at the end of the text or before damage. */
export async function readText(text: SegmentText, length: number, offset: number): Promise<TextRead> {
  const parts: Buffer[] = []
  let filled = 0
  while (filled < length) {
    const { bytes, damage } = await readSome(text, length - filled, offset + filled)
    parts.push(bytes)
    filled += bytes.length
    if (damage) return { bytes: Buffer.concat(parts), damage }
    if (bytes.length === 0) break
  }
  return { bytes: parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts) }
}
