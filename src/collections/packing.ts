import type { Position } from '../events/event.ts'
import { Refusal } from '../runtime/errors.ts'
import { rest } from '../runtime/turns.ts'
import { SpaceRetry } from '../store/disk-space.ts'
import { numberedKey, PREFIX_BYTES, positionOf, type Row, TAG } from '../store/keys.ts'
import type { Store } from '../store/store.ts'
import { BLOCK_PLACES, itemBlockOf, MOST_BLOCK_BYTES } from './blocks.ts'
import { isTombstone, metadataOf } from './item.ts'
import type { CollectionFacts } from './stored-items.ts'
import { Table } from './table.ts'

/** An item is packed when so many events were stored since its creation, or since its last change. */
const QUIET_EVENTS = { created: 1024, changed: 50_000 }
/** A block is encoded again for so many rows at least. */
const LEAST_ROWS = 8
/** A pass begins after so many events, or as many as the last one has found rows that stay. */
const EVENTS_BETWEEN = 4096
/** A step reads for so long, and packs at most so many blocks with so many bytes: both take 2 ms, seldom more than 5. */
const READ_MS = 1
const MOST_BLOCKS = 8
const MOST_BYTES = 4 * MOST_BLOCK_BYTES

type PackedTable = Pick<CollectionFacts, 'table' | 'places'>

/** The rows of a block that can be packed. */
interface Candidate {
  readonly block: number
  readonly places: readonly number[]
}

/**
 * Moves items that have not changed for a while from their rows into blocks, in passes over all rows in the background.
 * Items that were added together are in blocks already (`Table.addRecord`).
 *
 * | A row stays | Because |
 * |---|---|
 * | of a block that is not full | places that are not used yet could not be added without encoding it again |
 * | that was created or changed lately | it may change again soon, and would leave its block |
 * | with fewer than LEAST_ROWS others of its block | encoding a block takes as long as writing 20 rows |
 * | in a block of long items | all of them are read and verified to read one |
 * | with a tombstone | tombstones have rows of their own |
 */
export class Packing {
  readonly #store: Store
  readonly #tables: () => Iterable<PackedTable>
  readonly #applied: () => Position
  readonly #space = new SpaceRetry()
  #isBegun = false
  #pass: Promise<void> | undefined
  /** The position at which the next pass begins. */
  #next = 0
  /** Rows that the pass has read and left. */
  #rowsLeft = 0

  /** `tables` are those that collections have now. */
  constructor(store: Store, tables: () => Iterable<PackedTable>, applied: () => Position) {
    this.#store = store
    this.#tables = tables
    this.#applied = applied
  }

  /** Begins a pass, over what earlier processes and versions have stored, too; `note` begins the others. Resolves at its end. */
  begin(): Promise<void> {
    this.#isBegun = true
    this.#pass ??= this.#packAll().finally(() => {
      this.#pass = undefined
    })
    return this.#pass
  }

  /** Called after writes. */
  note(): void {
    if (this.#isBegun && !this.#space.isEnded && this.#applied() >= this.#next) void this.begin()
  }

  end(): void {
    this.#space.end()
  }

  async #packAll(): Promise<void> {
    this.#rowsLeft = 0
    const began = this.#applied()
    try {
      for (const { table } of [...this.#tables()]) await this.#packTable(table)
    } catch (error) {
      // The store has reported its damage.
      if (!(error instanceof Refusal)) throw error
      this.end()
    }
    this.#next = began + Math.max(EVENTS_BETWEEN, this.#rowsLeft)
  }

  async #packTable(table: number): Promise<void> {
    for (let block: number | undefined = 0; block !== undefined; ) {
      await (this.#store.rest() ?? rest())
      if (this.#space.isEnded) return
      const from: number = block
      await this.#space.run(() => {
        block = this.#step(table, from)
      })
    }
  }

  /** Packs some blocks from one on. Returns the next block; undefined if there is none. */
  #step(table: number, from: number): number | undefined {
    // The collection may have another table by now, or none.
    const places = [...this.#tables()].find((one) => one.table === table)?.places ?? 0
    const end = itemBlockOf(places) * BLOCK_PLACES
    const candidates: Candidate[] = []
    const until = performance.now() + READ_MS
    let next: number | undefined = from
    let bytes = 0
    while (next !== undefined && candidates.length < MOST_BLOCKS && bytes < MOST_BYTES && performance.now() < until) {
      const rows = this.#rowsOfNextBlock(table, next * BLOCK_PLACES, end)
      const first = rows[0]
      if (!first) next = undefined
      else {
        const block = itemBlockOf(placeOf(first))
        const quiet = rows.filter(({ value }) => this.#isQuiet(value))
        for (const { value } of rows) bytes += value.length
        if (quiet.length >= LEAST_ROWS) candidates.push({ block, places: quiet.map(placeOf) })
        else this.#rowsLeft += rows.length
        next = block + 1
      }
    }
    if (candidates.length > 0) this.#pack(table, candidates)
    return next
  }

  #pack(number: number, candidates: readonly Candidate[]): void {
    // A table keeps what it has read, which a failed transaction takes back.
    const table = new Table(this.#store, number)
    this.#store.transaction(() => {
      for (const { block, places } of candidates) if (!table.pack(block, places)) this.#rowsLeft += places.length
    })
  }

  /** The rows of items in the first block from a place on that has any; not all of them if they are long. */
  #rowsOfNextBlock(table: number, from: number, end: number): readonly Row[] {
    if (from >= end) return []
    const range = [numberedKey(TAG.item, table, from), numberedKey(TAG.item, table, end)] as const
    const rows = this.#store.rows(...range, { limit: BLOCK_PLACES, bytes: MOST_BLOCK_BYTES })
    return rows.filter((row) => itemBlockOf(placeOf(row)) === itemBlockOf(placeOf(rows[0] as Row)))
  }

  #isQuiet(record: Buffer): boolean {
    if (isTombstone(record)) return false
    const position = positionOf(record)
    const { created, changed } = QUIET_EVENTS
    const isChanged = position > metadataOf(record).since
    return this.#applied() - position >= (isChanged ? changed : created)
  }
}

function placeOf({ key }: Row): number {
  return positionOf(key, PREFIX_BYTES)
}
