import type { Message, Sequence } from './message.ts'

/**
 * The distributed log that a cluster's journal is kept in, and all that is asked of it: messages without gaps, which
 * are never removed or changed, and appending behind an expected end.
 */
export interface RecordStream {
  /** No message may have more bytes. */
  readonly messageBytes: number
  /**
   * Appends behind the message that `after` names, or not at all: 'behind' when that is not the last one, 'unknown'
   * when nobody answered in time, and it may have been appended, or may yet be.
   */
  publish(message: Message, after: Sequence): Promise<'stored' | 'behind' | 'unknown'>
  /** Undefined when there is none yet. Refused as Unavailable when the log does not answer. */
  find(sequence: Sequence): Promise<Message | undefined>
  /** Of the last message, 0 for none. Refused as Unavailable when the log does not answer. */
  last(): Promise<Sequence>
  /** Hands every message from one on, in order and one at a time, for as long as it takes, until it is closed. */
  follow(from: Sequence, receive: (sequence: Sequence, message: Message) => Promise<void>): { close(): Promise<void> }
}
