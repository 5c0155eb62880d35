import { openDirectory } from '../events/directory.ts'
import type { Position } from '../events/event.ts'
import type { ChainState } from '../events/record-format.ts'
import { SegmentLog, type SegmentLogOptions } from '../events/segment-log.ts'
import { writeAll } from '../files/files.ts'

export interface ReplicaOptions extends Omit<SegmentLogOptions, 'newId'> {
  /** The UUID of the copied journal. */
  readonly id: string
}

/** Lines of the journal, and the chain values that follow. */
export interface Copied {
  readonly lines: readonly { readonly bytes: Uint8Array; readonly position: Position }[]
  readonly next: ChainState
  /** Time of the last event. */
  readonly time: string
}

/**
 * A copy of a journal that is stored elsewhere: a directory of segments like any other (docs/journal.md), with the same
 * lines as the original. Its writes are not synced: what a crash loses is copied again.
 */
export class Replica extends SegmentLog {
  static async open(options: ReplicaOptions): Promise<Replica> {
    const own = { ...options, newId: () => options.id }
    return new Replica(own, await openDirectory(own))
  }

  /** Appends complete writes. One call at a time. */
  async write({ lines, next, time }: Copied): Promise<void> {
    if (this.isFull) {
      // A segment with a successor must be complete after any crash.
      await this.file.sync()
      await this.beginSegment('edit')
    }
    await writeAll(this.file, Buffer.concat(lines.map(({ bytes }) => bytes)), this.size)
    let end = this.size
    const starts: [Position, number][] = []
    for (const { bytes, position } of lines) {
      starts.push([position, end])
      end += bytes.length
    }
    this.advance({ starts, end, next, time })
  }

  override async close(): Promise<void> {
    await this.file.sync()
    await super.close()
  }
}
