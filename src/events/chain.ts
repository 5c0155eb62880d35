import { lastPosition, type Recorded } from './journal.ts'
import { BEGINNING, type ChainState, type JournalRecord } from './record-format.ts'

/** Verifies that each record follows the one before (docs/journal.md, J14). */
export class Chain {
  #next: ChainState
  #whole: ChainState

  /** @param next the chain values of the first record */
  constructor(next: ChainState = BEGINNING) {
    this.#next = next
    this.#whole = next
  }

  /** The chain values of the next record. */
  get next(): ChainState {
    return this.#next
  }

  /** The chain values of the next write. */
  get whole(): ChainState {
    return this.#whole
  }

  /** Returns the rule that a record breaks; undefined if it is valid. */
  add(record: JournalRecord, crc: string): string | undefined {
    const wrong = chainViolation(record, this.#next)
    if (wrong !== undefined) return wrong
    this.#next = { position: lastPosition(record) + 1, previous: crc, flush: record.flush }
    if (!record.more) this.#whole = this.#next
    return undefined
  }

  /** Continues after damage, with the chain values of a record that can be read. */
  resume(next: ChainState): void {
    this.#next = next
    this.#whole = next
  }

  /** Drops the records of the incomplete write. */
  cutOff(): void {
    this.#next = this.#whole
  }
}

function chainViolation(record: JournalRecord, expected: ChainState): string | undefined {
  if (record.position !== expected.position) {
    return `a record of position ${record.position} stands where position ${expected.position} belongs`
  }
  if (record.previous !== expected.previous) {
    return `the record of position ${record.position} does not follow the one before it (a record was dropped, doubled or moved)`
  }
  if (record.flush !== expected.flush && record.flush !== record.position) {
    return `the record of position ${record.position} names a write batch that did not begin there`
  }
  return undefined
}

/** Joins the records of one write. */
export function writeOf(parts: readonly JournalRecord[]): Recorded {
  const [{ previous, flush, more, ...write }] = parts as readonly [JournalRecord]
  return parts.length === 1 ? write : { ...write, events: parts.flatMap((part) => part.events) }
}
