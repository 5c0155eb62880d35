import { writeAll } from '../files/files.ts'
import { openDirectory } from './directory.ts'
import type { Position } from './event.ts'
import type { Expected } from './record-format.ts'
import { SegmentLog, type SegmentLogOptions } from './segment-log.ts'

export interface ReplicaOptions extends Omit<SegmentLogOptions, 'newId'> {
  /** The UUID of the journal that is copied. */
  readonly id: string
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
export class Replica extends SegmentLog {
  static async open(options: ReplicaOptions): Promise<Replica> {
    const own = { ...options, newId: () => options.id }
    return new Replica(own, await openDirectory(own))
  }

  /** Whole writes, the next ones. One at a time. */
  async write({ lines, next, time }: Copied): Promise<void> {
    if (this.isFull) {
      // A segment that others follow must be whole after any crash.
      await this.file.sync()
      await this.beginSegment('edit')
    }
    await writeAll(this.file, Buffer.concat(lines.map(({ bytes }) => bytes)), this.size)
    for (const { bytes, position } of lines) this.note(position, this.size, this.size + bytes.length)
    this.goOn(next, time)
  }

  override async close(): Promise<void> {
    await this.file.sync()
    await super.close()
  }
}
