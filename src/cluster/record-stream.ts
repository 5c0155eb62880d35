import type { Position } from '../events/event.ts'

/** The log that holds the journal of a cluster: unchanging messages without gaps, with compare-and-append. */
export interface RecordStream {
  /** Highest size of a message. */
  readonly messageBytes: number
  /**
   * Appends right after the message `after`: 'behind' if that is not the last one, 'unknown' if there was no response
   * in time and the message may still be appended.
   */
  publish(message: Message, after: Sequence): Promise<PublishOutcome>
  /**
   * Undefined if the message does not exist yet.
   * @throws {Refusal} `Unavailable` when the log does not respond.
   */
  find(sequence: Sequence): Promise<Message | undefined>
  /**
   * Sequence of the last message, 0 for none.
   * @throws {Refusal} `Unavailable` when the log does not respond.
   */
  last(): Promise<Sequence>
  /** Delivers every message from `from` on, in order, one at a time, until closed. */
  follow(from: Sequence, receive: (sequence: Sequence, message: Message) => Promise<void>): { close(): Promise<void> }
}

/** The number of a message in the stream: 1, 2, 3… without gaps. */
export type Sequence = number

export interface Message {
  /**
   * Position of the first event of the write with which the message begins or continues. It never decreases from one
   * message to the next, so a binary search can find a position.
   */
  readonly position: Position
  readonly bytes: Uint8Array
}

export type PublishOutcome =
  | 'stored'
  /** Another message has its number. */
  | 'behind'
  /** It may be stored, now or later. */
  | 'unknown'
