import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { directoryOf, type Files, isOutOfSpace, type OpenFile, readFully, writeNew } from '../files/files.ts'
import type { Schedule } from '../runtime/turns.ts'
import { MemberTable } from './members.ts'
import type { Segment } from './segment.ts'
import { compressedPath, readMember } from './segment-text.ts'

export interface CompressionOptions {
  readonly files: Files
  /** Delay between sealing and compressing a segment. */
  readonly afterMs: number
  readonly schedule: Schedule
  readonly log: {
    info(facts: object, message: string): void
    warn(facts: object, message: string): void
  }
}

/** Approximate bytes of text in a member. Reading a record inflates one member. */
const MEMBER_BYTES = 64 * 1024
const LEVEL = 6
/** The rest after each member, as a multiple of the time that the member took: compression works a quarter of the time. */
const REST_FACTOR = 3
const RETRY_MS = 60_000
const NEWLINE = 0x0a

const gzipped = promisify(gzip)

/** Compresses the sealed segments of a journal in the background, one after the other. */
export class Compression {
  readonly #options: CompressionOptions
  readonly #segments: readonly Segment[]
  readonly #timers = new Set<ReturnType<Schedule>>()
  /** Segments before this index are to be compressed. */
  #until = 0
  #running: Promise<void> | undefined
  /** Ends the current rest. */
  #wake = (): void => {}
  #isEnding = false

  /** @param segments The journal's segments, in order; all but the last one are sealed. */
  constructor(segments: readonly Segment[], options: CompressionOptions) {
    this.#segments = segments
    this.#options = options
    if (segments.length > 1) this.sealed()
  }

  /** Another segment is sealed. */
  sealed(): void {
    const until = this.#segments.length - 1
    this.#after(this.#options.afterMs, () => {
      this.#until = Math.max(this.#until, until)
      this.#begin()
    })
  }

  /** Runs work on segments while none is compressed. */
  async exclusive<Result>(work: () => Promise<Result>): Promise<Result> {
    while (this.#running) await this.#running
    const running = work()
    this.#running = running.then(
      () => {},
      () => {},
    )
    try {
      return await running
    } finally {
      this.#running = undefined
      this.#begin()
    }
  }

  /** Aborts incomplete work. */
  async end(): Promise<void> {
    this.#isEnding = true
    for (const timer of this.#timers) timer.cancel()
    this.#wake()
    await this.#running
  }

  #after(delayMs: number, work: () => void): void {
    const timer = this.#options.schedule(() => {
      this.#timers.delete(timer)
      work()
    }, delayMs)
    this.#timers.add(timer)
  }

  #begin(): void {
    if (this.#running || this.#isEnding) return
    this.#running = this.#compressAll().finally(() => {
      this.#running = undefined
    })
  }

  async #compressAll(): Promise<void> {
    const { files, log } = this.#options
    for (let at = 0; at < this.#until; at++) {
      const segment = this.#segments[at] as Segment
      if (segment.members) continue
      try {
        if (!(await files.stat(segment.path))) continue
        const began = performance.now()
        const bytes = await compressSegment(files, segment, (tookMs) => this.#rest(tookMs))
        const ms = Math.round(performance.now() - began)
        log.info({ path: segment.path, text: segment.size, bytes, ms }, 'a segment was compressed')
      } catch (error) {
        if (this.#isEnding) return
        const why = isOutOfSpace(error) ? 'there is no room' : (error as Error).message
        log.warn({ path: segment.path, why }, 'a segment could not be compressed; it stays as it is')
        this.#after(RETRY_MS, () => this.#begin())
        return
      }
    }
  }

  /** `end` does not wait for the timer, which does not keep the process alive. */
  async #rest(tookMs: number): Promise<void> {
    const rested = new Promise<void>((resolve) => {
      this.#wake = resolve
    })
    const timer = this.#options.schedule(this.#wake, REST_FACTOR * tookMs)
    if (!this.#isEnding) await rested
    timer.cancel()
    if (this.#isEnding) throw new Error('the journal is being closed')
  }
}

/**
 * Replaces a segment's file by a compressed one: temporary name → fsync → compared with the original → rename → fsync
 * of the directory → removal of the original. Until then, the original is used.
 * @param rest Awaited after each step with its duration in milliseconds; throwing aborts.
 * @returns The size of the compressed file.
 */
export async function compressSegment(
  files: Files,
  segment: Segment,
  rest: (tookMs: number) => Promise<void>,
): Promise<number> {
  const target = compressedPath(segment.path)
  const temporary = `${target}.tmp`
  const original = await files.open(segment.path, 'read')
  try {
    // Damage may have added bytes: the last records would then not be compressed, and be lost.
    if ((await original.size()) !== segment.size) throw new Error('its size has changed')
    const members = new MemberTable()
    await writeNew(files, temporary, membersOf(original, segment.size, members, rest))
    await verify(files, original, segment, members, rest)
    await files.rename(temporary, target)
    await files.syncDirectory(directoryOf(target))
    segment.members = members
    await files.remove(segment.path)
    return members.fileSize
  } catch (error) {
    if (!segment.members && (await files.stat(temporary))) await files.remove(temporary)
    throw error
  } finally {
    await original.close()
  }
}

/** The bytes of the compressed file, one gzip member after the other, and at last their table. */
async function* membersOf(
  original: OpenFile,
  size: number,
  members: MemberTable,
  rest: (tookMs: number) => Promise<void>,
): AsyncGenerator<Buffer> {
  let offset = 0
  while (offset < size) {
    const began = performance.now()
    const lines = await nextLines(original, offset, size)
    const member = await gzipped(lines, { level: LEVEL })
    members.add(member, lines.length)
    offset += lines.length
    yield member
    await rest(performance.now() - began)
  }
  yield members.encode()
}

/** The whole lines from an offset on that fit into a member, at least one. */
async function nextLines(file: OpenFile, offset: number, size: number): Promise<Buffer> {
  for (let length = MEMBER_BYTES; ; length *= 2) {
    const bytes = await readFully(file, Math.min(length, size - offset), offset)
    if (bytes.length < Math.min(length, size - offset)) throw new Error('the segment is shorter than it was')
    // Only a line longer than a member is read in several attempts: it gets a member of its own.
    const end = (length === MEMBER_BYTES ? bytes.lastIndexOf(NEWLINE) : bytes.indexOf(NEWLINE)) + 1
    if (end > 0) return bytes.subarray(0, end)
    if (offset + bytes.length === size) return bytes
  }
}

/** Reads the whole compressed file like a reader, and compares it with the original. */
async function verify(
  files: Files,
  original: OpenFile,
  { path, size }: Segment,
  members: MemberTable,
  rest: (tookMs: number) => Promise<void>,
): Promise<void> {
  const written = await files.open(`${compressedPath(path)}.tmp`, 'read')
  try {
    const table = await MemberTable.read(written)
    if (!table?.encode().equals(members.encode())) throw new Error('the compressed segment has another table')
    for (let offset = 0; offset < size; ) {
      const began = performance.now()
      const member = table.at(offset)
      if (!member) throw new Error('the compressed segment is shorter')
      const text = await readMember(written, member)
      if (!text.equals(await readFully(original, member.textLength, offset))) throw new Error('it differs')
      offset += text.length
      await rest(performance.now() - began)
    }
  } finally {
    await written.close()
  }
}
