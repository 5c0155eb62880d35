import type { Checkpoint } from '../events/checkpoint.ts'
import type { Position } from '../events/event.ts'
import type { SegmentSpan } from '../events/segment.ts'
import { POSITION_BYTES, positionOf, putPosition } from '../store/bytes.ts'
import { numberedKey, prefixEnd, TAG, tableKey } from '../store/keys.ts'
import type { Store } from '../store/store.ts'

/** An indexed record: its position, and its offset. */
const RECORD_BYTES = 2 * POSITION_BYTES

/** A checkpoint with only its last segment, without the index. */
interface Stored extends Omit<Checkpoint, 'segments'>, Omit<SegmentSpan, 'index'> {
  /** How many records of its index are stored. */
  readonly records: number
}

/** The store's position in the journal with the data to continue reading from there. */
export class StoredCheckpoint {
  readonly #store: Store

  constructor(store: Store) {
    this.#store = store
  }

  /**
   * In a transaction. Segments that are stored already are not written again. The stored state is read each time, as
   * the previous transaction may have been rolled back.
   */
  save({ segments, ...end }: Checkpoint): void {
    const last = segments.at(-1) as SegmentSpan
    const stored = this.#stored()
    const from = segments.findLastIndex(({ first }) => first === stored?.first)
    if (from !== segments.length - 1) {
      for (const segment of segments.slice(Math.max(0, from), -1)) this.#saveWhole(segment)
    }
    const { positions, offsets } = last.index
    for (let at = last.first === stored?.first ? stored.records : 0; at < positions.length; at++) {
      const position = positions[at] as Position
      this.#store.set(numberedKey(TAG.record, 0, position), recordOf(position, offsets[at] as number))
    }
    const text = JSON.stringify({
      ...end,
      first: last.first,
      size: last.size,
      records: positions.length,
    } satisfies Stored)
    this.#store.set(tableKey(TAG.segment, 0), Buffer.from(text))
  }

  load(): Checkpoint | undefined {
    const stored = this.#stored()
    if (!stored) return undefined
    const { first, size, records: _, ...end } = stored
    const prefix = tableKey(TAG.segment, 1)
    const segments: SegmentSpan[] = []
    for (const { key, value } of this.#store.rows(prefix, prefixEnd(prefix))) {
      segments.push(wholeSegment(positionOf(key, prefix.length), value))
    }
    const records = this.#store.rows(Buffer.from(numberedKey(TAG.record, 0, first)), prefixEnd(tableKey(TAG.record, 0)))
    const index = {
      positions: records.map(({ value }) => positionOf(value)),
      offsets: records.map(({ value }) => positionOf(value, POSITION_BYTES)),
    }
    return { ...end, segments: [...segments, { first, size, index }] }
  }

  #stored(): Stored | undefined {
    const found = this.#store.newest(tableKey(TAG.segment, 0))
    return found && (JSON.parse(found.toString()) as Stored)
  }

  #saveWhole({ first, size, index: { positions, offsets } }: SegmentSpan): void {
    const bytes = Buffer.allocUnsafe(POSITION_BYTES + positions.length * RECORD_BYTES)
    putPosition(bytes, 0, size)
    for (const [at, position] of positions.entries()) {
      putPosition(bytes, POSITION_BYTES + at * RECORD_BYTES, position)
      putPosition(bytes, POSITION_BYTES + at * RECORD_BYTES + POSITION_BYTES, offsets[at] as number)
    }
    this.#store.set(numberedKey(TAG.segment, 1, first), bytes)
  }
}

function recordOf(position: Position, offset: number): Buffer {
  const bytes = Buffer.allocUnsafe(RECORD_BYTES)
  putPosition(bytes, 0, position)
  putPosition(bytes, POSITION_BYTES, offset)
  return bytes
}

function wholeSegment(first: Position, bytes: Buffer): SegmentSpan {
  const positions: Position[] = []
  const offsets: number[] = []
  for (let at = POSITION_BYTES; at < bytes.length; at += RECORD_BYTES) {
    positions.push(positionOf(bytes, at))
    offsets.push(positionOf(bytes, at + POSITION_BYTES))
  }
  return { first, size: positionOf(bytes), index: { positions, offsets } }
}
