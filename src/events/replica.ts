import { type OpenFile, writeAll } from '../files/files.ts'
import { bytesAfter } from './bytes-after.ts'
import { Compression, type CompressionOptions } from './compression.ts'
import { beginSegment, type Cut, type DirectoryOptions, type Opened, openDirectory } from './directory.ts'
import type { Position } from './event.ts'
import { InflatedMembers } from './inflated-members.ts'
import type { Recorded } from './journal.ts'
import { type Mark, markOf } from './mark.ts'
import type { Expected } from './record-format.ts'
import { note, type Segment } from './segment.ts'
import { readSegments } from './segment-reader.ts'
import { checkUpTo } from './walk.ts'

export interface ReplicaOptions extends Omit<DirectoryOptions, 'newId'> {
  /** The UUID of the journal that is copied. */
  readonly id: string
  readonly segmentBytes: number
  /** How sealed segments are compressed; undefined: they stay plain. */
  readonly compress?: Omit<CompressionOptions, 'files'>
}

/** Lines as the journal has them, and what follows them. */
export interface Copied {
  readonly lines: readonly { readonly bytes: Uint8Array; readonly position: Position }[]
  readonly next: Expected
  /** Of the last event. */
  readonly time: string
}

/**
 * A copy of a journal that is kept elsewhere: a directory of segments like any journal's (docs/journal.md), line by
 * line what the original holds. It is not what is promised, so that nothing waits for its sync: what a crash
 * takes is copied again.
 */
export class Replica {
  readonly id: string
  readonly cut: Cut | undefined
  readonly #options: ReplicaOptions
  readonly #lock: { release(): Promise<void> }
  readonly #segments: Segment[]
  readonly #compression: Compression | undefined
  readonly #inflated = new InflatedMembers()
  #file: OpenFile
  #next: Expected
  #time: string
  #lastOffset: number | undefined

  private constructor(options: ReplicaOptions, opened: Opened) {
    this.id = opened.id
    this.cut = opened.cut
    this.#time = opened.time
    this.#lastOffset = opened.lastOffset
    this.#options = options
    this.#lock = opened.lock
    this.#segments = opened.segments
    const { files, compress } = options
    this.#compression = compress && new Compression(opened.segments, { files, ...compress })
    this.#file = opened.file
    this.#next = opened.next
  }

  static async open(options: ReplicaOptions): Promise<Replica> {
    return new Replica(options, await openDirectory({ ...options, newId: () => options.id }))
  }

  /** What the next record must carry. */
  get next(): Expected {
    return this.#next
  }

  /** Of the last event, '' for none. */
  get time(): string {
    return this.#time
  }

  /** The place behind the last record; undefined when the last segment has none yet. */
  mark(): Mark | undefined {
    const { id: journal } = this
    return markOf(this.#segments, { journal, next: this.#next, time: this.#time, lastOffset: this.#lastOffset })
  }

  /** Whole writes, the next ones. One at a time. */
  async write({ lines, next, time }: Copied): Promise<void> {
    let segment = this.#segments.at(-1) as Segment
    if (segment.size >= this.#options.segmentBytes) segment = await this.#beginSegment()
    await writeAll(this.#file, Buffer.concat(lines.map(({ bytes }) => bytes)), segment.size)
    for (const { bytes, position } of lines) {
      note(segment, position, segment.size)
      this.#lastOffset = segment.size
      segment.size += bytes.length
    }
    this.#next = next
    this.#time = time
  }

  bytesAfter(position: Position): number {
    return bytesAfter(this.#segments, this.#next.position, position)
  }

  read(from: Position, to: Position): AsyncGenerator<Recorded> {
    return readSegments(this.#options.files, this.#segments, from, to, this.#inflated)
  }

  /** Checks every record of the copy; see FileJournal. */
  async verify(rest: (checked: Position) => Promise<void>): Promise<void> {
    const { files, directory } = this.#options
    const segments = this.#segments.map(({ first, size, index }) => ({ first, size, index }))
    await checkUpTo(files, directory, { journal: this.id, next: this.#next, segments }, rest)
  }

  async close(): Promise<void> {
    await this.#compression?.end()
    await this.#file.sync()
    await this.#file.close()
    await this.#lock.release()
  }

  /** A segment that others follow must be whole after any crash. */
  async #beginSegment(): Promise<Segment> {
    const { files, directory } = this.#options
    await this.#file.sync()
    const segment = await beginSegment(files, directory, this.id, this.#next)
    const file = await files.open(segment.path, 'edit')
    await this.#file.close()
    this.#segments.push(segment)
    this.#lastOffset = undefined
    this.#file = file
    this.#compression?.sealed()
    return segment
  }
}
