import type { DomainEvent, Position } from './event.ts'
import { type Draft, type Recorded, recordedOf } from './journal.ts'
import type { Expected } from './record-format.ts'
import { type EncodedLine, type EncodedRecord, encodeEvent, encodeWrite, encodingWrite } from './record-writer.ts'

/** A write that is to be made durable. */
export interface Write {
  readonly draft: Draft
  /** Its events as JSON; those of a large write are encoded as they are written. */
  readonly texts: readonly string[] | undefined
}

/**
 * Writes that become durable together, as lines of a segment: made once, in order. No generator closes over them: V8 gives
 * each one a hidden class among what is old, which keeps what it closes over until the next whole collection.
 */
export class Batch {
  /** Of the writes whose lines are made. */
  readonly recorded: Recorded[] = []
  /** Where in the segment each record begins. */
  readonly starts: (readonly [Position, number])[] = []
  /** Of all its events. */
  readonly time: string
  readonly #writes: readonly Write[]
  readonly #next: { position: Position; previous: string; readonly flush: Position }
  #end: number

  /** `end` is where the segment ends so far. */
  constructor(writes: readonly Write[], { position, previous }: Expected, time: string, end: number) {
    this.#writes = writes
    this.time = time
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

  /** Whether it is a large write, which is flushed alone. */
  get isLarge(): boolean {
    return this.#writes.some(({ texts }) => !texts)
  }

  /** Its lines; those of a large write are each made when it is asked for, so that they are never there all at once. */
  lines(): Iterable<EncodedLine> {
    return this.isLarge ? this.#making() : [...this.#making()]
  }

  *#making(): Generator<EncodedLine> {
    for (const { draft, texts } of this.#writes) {
      const start = { ...this.#next, time: this.time }
      const { events } = draft
      for (const line of texts ? encodeWrite(start, draft, texts) : encodingWrite(start, draft, encoded(events))) {
        yield this.#noted(line)
      }
      this.recorded.push(recordedOf(draft, this.time))
      this.#next.position += events.length
    }
  }

  #noted(line: EncodedRecord): EncodedLine {
    this.starts.push([line.position, this.#end])
    this.#end += line.bytes.length
    this.#next.previous = line.crc
    return line
  }
}

function* encoded(events: Iterable<DomainEvent>): Generator<string> {
  for (const event of events) yield encodeEvent(event)
}
