import type { Files } from '../files/files.ts'
import { Refusal } from '../runtime/errors.ts'
import type { Position } from './event.ts'
import { type Journal, lastPosition, type Recorded } from './journal.ts'
import type { Segment } from './segment.ts'
import { SegmentReader } from './segment-reader.ts'

interface PlayedJournalOptions {
  readonly files: Files
  readonly id: string
  /** The segments as they were at the start: later events are not replayed. */
  readonly segments: readonly Segment[]
  readonly head: Position
  /** The time of the event there. */
  readonly timeMs: number
  readonly end: Position
  /** Awaited before followers see writes. */
  readonly project: (batch: readonly Recorded[]) => void | Promise<void>
}

/**
 * A journal that replays recorded events: its head advances to the end. It takes no lock and writes nothing, so a
 * server may have the same journal open.
 */
export class PlayedJournal implements Journal {
  readonly id: string
  readonly end: Position
  readonly writable = false
  readonly #options: PlayedJournalOptions
  readonly #followers: ((recorded: Recorded) => void)[] = []
  readonly #reader: SegmentReader
  #head: Position
  #timeMs: number
  #isClosed = false

  constructor(options: PlayedJournalOptions) {
    this.id = options.id
    this.end = options.end
    this.#options = options
    this.#reader = new SegmentReader(options.files, options.segments)
    this.#head = options.head
    this.#timeMs = options.timeMs
  }

  get head(): Position {
    return this.#head
  }

  get timeMs(): number {
    return this.#timeMs
  }

  /** Replays one write after the other, each once `reach` has resolved for its time, until the end or `close`. */
  async play(reach: (time: string) => Promise<void>): Promise<void> {
    for await (const write of this.#reader.writes(this.#head + 1, this.end)) {
      await reach(write.time)
      if (this.#isClosed) return
      const projected = this.#options.project([write])
      if (projected) await projected
      this.#head = lastPosition(write)
      this.#timeMs = Date.parse(write.time)
      for (const follower of this.#followers) follower(write)
    }
  }

  read(from: Position, to: Position = this.#head): AsyncIterable<Recorded> {
    return this.#reader.events(from, Math.min(to, this.#head))
  }

  at(positions: readonly Position[]): AsyncIterable<Recorded> {
    return this.#reader.at(positions)
  }

  follow(follower: (recorded: Recorded) => void): void {
    this.#followers.push(follower)
  }

  append(): Promise<never> {
    return Promise.reject(new Refusal('Unavailable', 'What was recorded is only read.'))
  }

  async close(): Promise<void> {
    this.#isClosed = true
  }
}
