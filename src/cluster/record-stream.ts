import type { Message, Sequence } from './message.ts'

/** The outcome of a message. 'behind': another message is at its place. 'unknown': it may or may not be stored, or may be later. */
export type PublishOutcome = 'stored' | 'behind' | 'unknown'

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
