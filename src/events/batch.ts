import type { Position } from './event.ts'
import { type Draft, type Recorded, recordedOf } from './journal.ts'
import { type Expected, encodeWrite, encodingWrite, type Line } from './record.ts'

/** A write that is to be made durable. */
export interface Write {
  readonly draft: Draft
  /** Its events as JSON; those of a large write are encoded as they are written. */
  readonly texts: readonly string[] | undefined
}

/**
 * Writes that become durable together, as lines of a segment: made once, in order. No closure holds them, as what a
 * closure once held is kept by V8 until all of its memory is looked through: each write cost four times its text.
 */
export class Batch {
  /** Of the writes whose lines are made. */
  readonly recorded: Recorded[] = []
  /** Where in the segment each record begins. */
  readonly starts: (readonly [Position, number])[] = []
  readonly flush: Position
  /** Of all its events. */
  readonly time: string
  readonly #writes: readonly Write[]
  #next: Expected
  #end: number

  /** `end` is where the segment ends so far. */
  constructor(writes: readonly Write[], { position, previous }: Expected, time: string, end: number) {
    this.#writes = writes
    this.time = time
    this.flush = position
    this.#next = { position, previous, flush: position }
    this.#end = end
  }

  /** What the record after those made so far begins with. */
  get next(): Expected {
    return this.#next
  }

  /** Where the segment ends after the lines made so far. */
  get end(): number {
    return this.#end
  }

  *lines(): Generator<Line> {
    const { flush } = this
    for (const { draft, texts } of this.#writes) {
      let { position, previous } = this.#next
      const start = { position, previous, flush, time: this.time }
      for (const line of texts ? encodeWrite(start, draft, texts) : encodingWrite(start, draft, draft.events)) {
        this.starts.push([line.position, this.#end])
        this.#end += line.bytes.length
        previous = line.crc
        yield line
      }
      this.recorded.push(recordedOf(draft, this.time))
      position += draft.events.length
      this.#next = { position, previous, flush }
    }
  }
}
