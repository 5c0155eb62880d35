import type { Position } from '../events/event.ts'
import type { Mark, MarkedSegment } from '../events/mark.ts'
import { POSITION_BYTES, positionOf, putPosition } from '../store/bytes.ts'
import { numberedKey, prefixEnd, TAG, tableKey } from '../store/keys.ts'
import type { Store } from '../store/store.ts'

/** A record in an index: its position, and where it begins. */
const RECORD_BYTES = 2 * POSITION_BYTES

/** What the store knows of the journal at its own position, so that a start reads on from there. */
export class StoredMark {
  readonly #store: Store
  /** Records of the last segment's index that are stored. */
  #stored = { first: 0, records: 0 }

  constructor(store: Store) {
    this.#store = store
  }

  /** In a transaction. What the store has of the segments already is not written again. */
  save({ segments, ...place }: Mark): void {
    const last = segments.at(-1) as MarkedSegment
    const from = segments.findLastIndex(({ first }) => first === this.#stored.first)
    if (from !== segments.length - 1) {
      for (const segment of segments.slice(Math.max(0, from), -1)) this.#saveWhole(segment)
      this.#stored = { first: last.first, records: 0 }
    }
    const { positions, offsets } = last.index
    for (; this.#stored.records < positions.length; this.#stored.records++) {
      const at = this.#stored.records
      const record = recordOf(positions[at] as Position, offsets[at] as number)
      this.#store.set(numberedKey(TAG.record, 0, positions[at] as Position), record)
    }
    const stored = { ...place, first: last.first, size: last.size }
    this.#store.set(tableKey(TAG.segment, 0), Buffer.from(JSON.stringify(stored)))
  }

  load(): Mark | undefined {
    const found = this.#store.newest(tableKey(TAG.segment, 0))
    if (!found) return undefined
    const { first, size, ...place } = JSON.parse(found.toString('utf8', 0, found.length)) as Omit<Mark, 'segments'> &
      MarkedSegment
    const prefix = tableKey(TAG.segment, 1)
    const segments: MarkedSegment[] = []
    for (const { key, value } of this.#store.rows(prefix, prefixEnd(prefix))) {
      segments.push(wholeSegment(positionOf(key, prefix.length), value))
    }
    const records = this.#store.rows(Buffer.from(numberedKey(TAG.record, 0, first)), prefixEnd(tableKey(TAG.record, 0)))
    this.#stored = { first, records: records.length }
    const all = records.map(({ value }) => ({ position: positionOf(value), offset: positionOf(value, POSITION_BYTES) }))
    const index = {
      positions: all.map(({ position }) => position),
      offsets: all.map(({ offset }) => offset),
    }
    return { ...place, segments: [...segments.filter((one) => one.first < first), { first, size, index }] }
  }

  #saveWhole({ first, size, index: { positions, offsets } }: MarkedSegment): void {
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

function wholeSegment(first: Position, bytes: Buffer): MarkedSegment {
  const positions: Position[] = []
  const offsets: number[] = []
  for (let at = POSITION_BYTES; at < bytes.length; at += RECORD_BYTES) {
    positions.push(positionOf(bytes, at))
    offsets.push(positionOf(bytes, at + POSITION_BYTES))
  }
  return { first, size: positionOf(bytes), index: { positions, offsets } }
}
