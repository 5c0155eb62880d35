import type { OpenFile } from '../files/files.ts'
import type { Checkpoint } from './checkpoint.ts'
import { Compression, type CompressionOptions } from './compression.ts'
import { type Damage, KnownDamage, MOST_PLACES } from './damage.ts'
import { beginSegment, type Cut, type DirectoryOptions, type JournalLock, type OpenDirectory } from './directory.ts'
import type { Position } from './event.ts'
import type { Recorded } from './journal.ts'
import type { ChainState } from './record-format.ts'
import { type RecordSource, repairSegments, type SegmentStart } from './repair.ts'
import { addToIndex, bytesAfter, type Segment } from './segment.ts'
import { SegmentReader } from './segment-reader.ts'
import { checkUpTo } from './walk.ts'

export interface SegmentLogOptions extends DirectoryOptions {
  /** The size at which a new segment begins. */
  readonly segmentBytes: number
  /** How sealed segments are compressed; undefined: they stay plain. */
  readonly compress?: Omit<CompressionOptions, 'files'>
}

interface SegmentStatus {
  readonly first: Position
  /** Bytes of the file. */
  readonly size: number
  readonly compressed: boolean
}

/** Complete writes in the last segment. */
interface Written {
  /** The position and the offset of each record. */
  readonly starts: Iterable<readonly [Position, number]>
  /** The offset after them. */
  readonly end: number
  /** The chain values of the next record. */
  readonly next: ChainState
  /** Time of their last event. */
  readonly time: string
}

/** The segments of a locked journal directory, and the open file of the last one. */
export class SegmentLog {
  readonly id: string
  /** The torn tail that was cut off when the directory was opened. */
  readonly cut: Cut | undefined
  /** Damage that reads and checks found since the journal was opened. */
  readonly damage = new KnownDamage()
  readonly #options: SegmentLogOptions
  readonly #lock: JournalLock | undefined
  readonly #segments: Segment[]
  readonly #compression: Compression | undefined
  readonly #reader: SegmentReader
  /** The segments that the last check found damaged. */
  readonly #damaged = new Map<Position, SegmentStart>()
  /** The file of the last segment. */
  protected file: OpenFile
  #next: ChainState
  #time: string
  /** Offset of the last record in the last segment; undefined while that has none. */
  #lastOffset: number | undefined

  protected constructor(
    options: SegmentLogOptions,
    { id, cut, lock, segments, file, next, time, lastOffset }: OpenDirectory,
  ) {
    const { files, compress } = options
    this.id = id
    this.cut = cut
    this.#options = options
    this.#lock = lock
    this.#segments = segments
    this.#reader = new SegmentReader(files, segments, this.damage)
    this.#compression = compress && new Compression(segments, { files, ...compress })
    this.file = file
    this.#next = next
    this.#time = time
    this.#lastOffset = lastOffset
  }

  /** Bytes of complete writes in the last segment. */
  protected get size(): number {
    return this.#last.size
  }

  /** Whether the last segment has reached its size. */
  protected get isFull(): boolean {
    return this.size >= this.#options.segmentBytes
  }

  get next(): ChainState {
    return this.#next
  }

  /** Time of the last event, '' if there is none. */
  get time(): string {
    return this.#time
  }

  /** Time of the last event in milliseconds since 1970; -Infinity if there is none. */
  get timeMs(): number {
    return this.#time === '' ? Number.NEGATIVE_INFINITY : Date.parse(this.#time)
  }

  /** Called when complete writes were written at the end of the last segment. */
  protected advance({ starts, end, next, time }: Written): void {
    for (const [position, offset] of starts) {
      addToIndex(this.#last, position, offset)
      this.#lastOffset = offset
    }
    this.#last.size = end
    this.#next = next
    this.#time = time
  }

  /** Seals the last segment and creates the next one. */
  protected async beginSegment(how: 'log' | 'edit'): Promise<void> {
    const { files, directory } = this.#options
    const segment = await beginSegment(files, directory, this.id, this.#next)
    const file = await files.open(segment.path, how)
    const full = this.file
    this.#segments.push(segment)
    this.#lastOffset = undefined
    this.file = file
    this.#compression?.sealed()
    await full.close()
  }

  /** The checkpoint after the last record, valid until the next write; undefined if the last segment has no record yet. */
  checkpoint(): Checkpoint | undefined {
    const lastOffset = this.#lastOffset
    if (lastOffset === undefined) return undefined
    return { journal: this.id, next: this.#next, time: this.#time, lastOffset, segments: this.#segments }
  }

  segments(): readonly SegmentStatus[] {
    return this.#segments.map(({ first, size, members }) => {
      return { first, size: members?.fileSize ?? size, compressed: members !== undefined }
    })
  }

  bytesAfter(position: Position): number {
    return bytesAfter(this.#segments, this.#next.position, position)
  }

  read(from: Position, to: Position): AsyncGenerator<Recorded> {
    return this.#reader.events(from, to)
  }

  at(positions: readonly Position[]): AsyncGenerator<Recorded> {
    return this.#reader.at(positions)
  }

  /**
   * Checks every record before a checkpoint, default: the end. Calls and awaits `rest` between batches. Damage becomes
   * known, and known damage that is no longer there is forgotten. Resolves with the first places.
   */
  async verify(rest: (checked: Position) => Promise<void>, until = this.#end()): Promise<readonly Damage[]> {
    const { files, directory } = this.#options
    const found: Damage[] = []
    this.#damaged.clear()
    await checkUpTo(files, directory, until, {
      rest,
      damaged: (damage, { first, path }, before) => {
        if (found.length < MOST_PLACES) {
          found.push(damage)
          this.damage.add(damage)
        }
        if (!this.#damaged.has(first)) this.#damaged.set(first, { path, before })
      },
    })
    const positions = new Set(found.map(({ position }) => position))
    this.damage.remove(({ position }) => position < until.next.position && !positions.has(position))
    // Those that were parts of removed ones.
    for (const damage of found) this.damage.add(damage)
    return found
  }

  /**
   * Replaces the sealed segments that the last check found damaged.
   * @returns why some could not be repaired
   */
  async repair(source: RecordSource): Promise<readonly string[]> {
    const sealed = this.#segments.slice(0, -1)
    const damaged = new Map(
      sealed.flatMap(({ first }) => {
        const found = this.#damaged.get(first)
        return found ? [[first, found] as const] : []
      }),
    )
    const work = () => repairSegments(this.#options.files, { damaged, segments: this.#segments, least: 0 }, source)
    const { repaired, problems } = await (this.#compression?.exclusive(work) ?? work())
    for (const { path } of repaired) {
      const index = sealed.findIndex((segment) => segment.path === path)
      const { first } = sealed[index] as Segment
      const end = this.#segments[index + 1]?.first ?? first
      delete this.#segments[index]?.members
      this.#damaged.delete(first)
      this.damage.remove(({ position }) => position >= first && position < end)
    }
    return problems
  }

  #end(): Pick<Checkpoint, 'journal' | 'next' | 'segments'> {
    const segments = this.#segments.map(({ first, size, index }) => ({ first, size, index }))
    return { journal: this.id, next: this.#next, segments }
  }

  async close(): Promise<void> {
    await this.#compression?.end()
    await this.file.close()
    await this.#lock?.release()
  }

  get #last(): Segment {
    return this.#segments.at(-1) as Segment
  }
}
