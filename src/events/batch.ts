import type { DomainEvent, Position } from './event.ts'
import { type Draft, type Recorded, recordedOf } from './journal.ts'
import type { ChainState } from './record-format.ts'
import {
  type EncodedLine,
  type EncodedRecord,
  encodeEvent,
  encodeWrite,
  encodingWrite,
  type RecordStart,
} from './record-writer.ts'

export interface Write {
  readonly draft: Draft
  /** Its events as JSON; undefined for a large write, whose events are encoded while they are written. */
  readonly texts: readonly string[] | undefined
}

/**
 * Writes that become durable together, as lines of a segment, created once and in order. No generator closes over them:
 * V8 gives each such closure a hidden class in the old generation, which keeps everything it refers to until the next
 * full collection.
 */
export class Batch {
  /** The writes whose lines were created. */
  readonly recorded: Recorded[] = []
  /** The offset of each record in the segment. */
  readonly starts: (readonly [Position, number])[] = []
  /** The time of all its events. */
  readonly time: string
  readonly #writes: readonly Write[]
  readonly #next: { position: Position; previous: string; readonly flush: Position }
  #end: number

  /** `end` is the current end of the segment. */
  constructor(writes: readonly Write[], { position, previous }: ChainState, time: string, end: number) {
    this.#writes = writes
    this.time = time
    this.#next = { position, previous, flush: position }
    this.#end = end
  }

  get next(): ChainState {
    return this.#next
  }

  /** The end of the segment after the lines created so far. */
  get end(): number {
    return this.#end
  }

  /** Whether it is a large write, which is flushed alone. */
  get isLarge(): boolean {
    return this.#writes.some(({ texts }) => !texts)
  }

  /** Its lines. Those of a large write are created one by one, so that they are never in memory all at once. */
  lines(): Iterable<EncodedLine> {
    const [first] = this.#writes
    if (first && this.isLarge) return this.#linesOfLarge(first.draft)
    const lines: EncodedLine[] = []
    for (const { draft, texts = [] } of this.#writes) {
      for (const line of encodeWrite(this.#start(), draft, texts)) lines.push(this.#noted(line))
      this.#finish(draft)
    }
    return lines
  }

  *#linesOfLarge(draft: Draft): Generator<EncodedLine> {
    for (const line of encodingWrite(this.#start(), draft, encoded(draft.events))) yield this.#noted(line)
    this.#finish(draft)
  }

  #start(): RecordStart {
    const { position, previous, flush } = this.#next
    return { position, previous, flush, time: this.time }
  }

  #finish(draft: Draft): void {
    this.recorded.push(recordedOf(draft, this.time))
    this.#next.position += draft.events.length
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
