/**
 * The journal's lines, as docs/journal.md describes them: all that their writer and their reader share.
 *
 *     {"frame":"<crc32><length><crc32 of these 16 digits>",<rest>\n
 *
 * The frame covers the rest: the bytes after its own comma up to and without the newline.
 */
import type { DomainEvent, Position } from './event.ts'
import type { Recorded } from './journal.ts'

export const FORMAT = 1
/** A record holds at most this many bytes of events; only a single larger event may exceed it. */
export const RECORD_BYTES = 16 * 1024
export const NO_PREVIOUS = '00000000'

export interface JournalRecord extends Recorded {
  readonly events: readonly DomainEvent[]
  /** The crc32 of the previous record, 8 hex digits. */
  readonly previous: string
  /** The first position of the write batch with which the record was synced. */
  readonly flush: Position
  /** The write continues in the next record. */
  readonly more?: true
}

/** The chain values of a record. */
export interface ChainState {
  readonly position: Position
  readonly previous: string
  readonly flush: Position
}

/** Before the first record of a journal. */
export const BEGINNING: ChainState = { position: 1, previous: NO_PREVIOUS, flush: 0 }

export interface SegmentHeader {
  readonly format: number
  /** The journal's UUID. */
  readonly journal: string
  readonly first: Position
  readonly previous: string
}

/** The beginning of each line. */
export const OPENING = '{"frame":"'
/** Hex digits of a frame. */
export const DIGITS = 24
/** Bytes before a line's rest: `{"frame":"`, 24 digits, `",`. */
export const PREFIX_BYTES = OPENING.length + DIGITS + 2
export const NEWLINE = 0x0a
