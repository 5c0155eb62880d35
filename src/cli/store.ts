import { storedCollections } from '../collections/collection-writer.ts'
import { idInRecord, isSameRecord, isTombstone, keyOf, metadataOf } from '../collections/item.ts'
import { naturalKeyOf, storedNaturalKeys } from '../collections/natural-keys.ts'
import type { CollectionFacts } from '../collections/stored-items.ts'
import { Table } from '../collections/table.ts'
import { tombstoneBlockOf } from '../collections/tombstones.ts'
import { Projections } from '../engine/projections.ts'
import { lockDirectory } from '../events/directory.ts'
import type { Position } from '../events/event.ts'
import { lastPosition, type Recorded, slice } from '../events/journal.ts'
import { type Walk, walk } from '../events/walk.ts'
import type { Files } from '../files/files.ts'
import { BUCKETS, collectionOf, EventCounts, withCollection } from '../projections/event-counts.ts'
import type { Progress } from '../projections/journal-fold.ts'
import { StoredCheckpoint, storedState } from '../projections/store-fold.ts'
import { Views } from '../projections/views.ts'
import { isFoundUnder, keysAt, type StoredIndex } from '../query/index/stored-index.ts'
import { StoredIndexes } from '../query/index/stored-indexes.ts'
import { Refusal } from '../runtime/errors.ts'
import { ENDLESS } from '../runtime/turns.ts'
import {
  blockKey,
  expiredIdsKey,
  expiryKey,
  HIGHEST,
  itemEventKey,
  keyedKey,
  leastTimeKey,
  numberedKey,
  POSITION_BYTES,
  PREFIX_BYTES,
  positionOf,
  prefixEnd,
  type Row,
  TAG,
  type Tag,
  tableKey,
  tombstonesKey,
} from '../store/keys.ts'
import type { Store } from '../store/store.ts'
import { type Compacted, StoreDirectory } from '../store/store-directory.ts'

/** Rewrites the store without its free pages. The server must have ended. */
export async function compact(files: Files, journal: string): Promise<Compacted> {
  return whileStopped(files, journal, (directory) => directory.compact())
}

/** Compares the store, row by row, with the state that its events produce. The server must have ended. */
export async function compareStore(files: Files, journal: string, progress: Progress): Promise<readonly string[]> {
  return whileStopped(files, journal, async (directory) => {
    const store = directory.open()
    await directory.settle(store)
    try {
      return await differences(store, files, journal, progress)
    } finally {
      await directory.close(store)
    }
  })
}

/** Throws while a server holds the journal, and if there is no usable store. */
async function whileStopped<Result>(
  files: Files,
  journal: string,
  work: (directory: StoreDirectory) => Promise<Result>,
): Promise<Result> {
  const directory = new StoreDirectory(`${journal}/store`)
  const whyNot = directory.whyNotUsable()
  if (whyNot !== undefined) throw new Refusal('NotFound', `There is no usable store in ${directory.path}: ${whyNot}.`)
  const lock = await lockDirectory(files, journal)
  try {
    return await work(directory)
  } finally {
    await lock.release()
  }
}

async function differences(
  store: Store,
  files: Files,
  journal: string,
  progress: Progress,
): Promise<readonly string[]> {
  const problems: string[] = []
  try {
    const state = storedState(store)
    const checkpoint = new StoredCheckpoint(store).load()
    const built = await buildViews(files, journal, state.applied, progress, checkpoint?.next.position)
    const { views, id, whole, passed } = built
    const comparison = new Comparison(store, views.store, state.applied, problems)
    if (store.newest(tableKey(TAG.state, 1))?.toString() !== id) comparison.addDifference('the id of the journal')
    // A killed process may have stored a part of a write, which is applied and not visible.
    if (state.applied !== views.applied || state.visible !== whole)
      comparison.addDifference('the last applied or visible position')
    // Format 7 has none, and a write that is stored in part is not received yet.
    const isWhole = state.applied === state.visible
    if (isWhole && state.receivedMs !== undefined && state.receivedMs !== views.receipt.receivedMs)
      comparison.addDifference('a time of receipt')
    if (state.names !== views.namesPosition) comparison.addDifference('the position at which collections changed last')
    if (checkpoint?.next.previous !== passed?.previous) comparison.addDifference('the place in the journal')
    await comparison.collections(state.next)
    for (const [tag, what] of ROWS_OF_STORE) comparison.rows(tag, 0, 0, what)
    comparison.times()
    comparison.counts()
  } catch (error) {
    if (!(error instanceof Refusal || error instanceof SyntaxError)) throw error
    problems.push(`The store is damaged: ${error.message}`)
  }
  return problems.slice(0, MOST_PROBLEMS)
}

/** Highest number of reported problems; a damaged store may have a million. */
const MOST_PROBLEMS = 20

const ROWS_OF_STORE: readonly (readonly [Tag, string])[] = [
  [TAG.request, 'an answered Idempotency-Key'],
  [TAG.requestTime, 'the time of an answered Idempotency-Key'],
  [TAG.mergedEdit, 'the edit of the data file that was merged last'],
]

/**
 * Builds a temporary store as a server would, up to a position, which may lie inside a write. `whole` is the position
 * of the last write that ends at or before it, `passed` has the chain values at the position `passing`.
 */
async function buildViews(
  files: Files,
  journal: string,
  position: Position,
  progress: Progress,
  passing: Position | undefined,
): Promise<Pick<Walk, 'id' | 'passed'> & { readonly views: Views; readonly whole: Position }> {
  // By this id a cluster node recognizes the imports of its own data file.
  const { views } = new Projections(Views.temporary(), (await files.read(`${journal}/data-file.id`))?.toString())
  let whole = 0
  const apply = (recorded: Recorded): void => {
    if (lastPosition(recorded) <= position) {
      views.replay(recorded)
      whole = lastPosition(recorded)
    } else if (recorded.position <= position) {
      // The idempotency key is stored with the last event of a write, which is missing here.
      const { key: _, request: __, ...part } = slice(recorded, recorded.position, position)
      views.replay(part)
    }
  }
  const { id, passed } = await walk(files, journal, apply, { progress, ...(passing !== undefined && { passing }) })
  views.replayed()
  return { views, id, whole, passed }
}

/**
 * Compares the rows of two stores of one journal. Numbers of collections and tables may differ, since a killed process
 * may have used some up. Tables that no collection refers to and versions kept for ended readers are ignored: nothing
 * reads them, and the next start removes them.
 */
class Comparison {
  readonly #problems: string[]
  readonly #store: Store
  readonly #expected: Store
  readonly #position: Position
  readonly #indexes: StoredIndexes

  constructor(store: Store, expected: Store, position: Position, problems: string[]) {
    this.#problems = problems
    this.#store = store
    this.#expected = expected
    this.#position = position
    this.#indexes = new StoredIndexes(store, () => position)
  }

  addDifference(what: string): void {
    this.#problems.push(`The store has ${what} other than the journal does at position ${this.#position}, or none.`)
  }

  /** `next` is above the numbers of all collections and tables. */
  async collections(next: number): Promise<void> {
    const expected = new Map(Array.from(storedCollections(this.#expected), (entry) => [entry[1].name, entry]))
    for (const [number, facts] of storedCollections(this.#store)) {
      const quoted = JSON.stringify(facts.name)
      const wanted = expected.get(facts.name)
      expected.delete(facts.name)
      if (!wanted) this.#problems.push(`The store has the collection ${quoted}, and the journal has not.`)
      else {
        if (Math.max(number, facts.table) >= next) this.addDifference(`the number of ${quoted}`)
        this.#facts(facts, wanted[1], quoted)
        this.#places(facts.table, wanted[1].table, quoted)
        this.rows(TAG.gaps, facts.table, wanted[1].table, `a count of empty places of ${quoted}`)
        this.rows(TAG.life, number, wanted[0], `a creation or removal of ${quoted}`)
        this.#items(facts.table, wanted[1], quoted)
        this.#changes(facts.table, wanted[1], quoted)
        this.#events(number, wanted, quoted)
        for (const index of this.#indexes.of(facts.table)) await this.#index(index, wanted[1], quoted)
        this.#naturalKeys(facts.table, wanted[1], quoted)
      }
      if (this.#problems.length >= MOST_PROBLEMS) return
    }
    for (const name of expected.keys()) this.#problems.push(`The store lacks the collection ${JSON.stringify(name)}.`)
  }

  /** Compares the rows of a table in both stores. */
  rows(tag: Tag, table: number, expectedTable: number, what: string): void {
    this.#ranges(rangeOf(tag, table), rangeOf(tag, expectedTable), what)
  }

  #places(table: number, expectedTable: number, quoted: string): void {
    const placesIn = (number: number): Range => [tableKey(TAG.place, number), tombstonesKey(number, 0)]
    this.#ranges(placesIn(table), placesIn(expectedTable), `the place of an item of ${quoted}`)
  }

  #ranges(range: Range, expectedRange: Range, what: string): void {
    const rows = rowBytes(this.#store, range)
    for (const row of rowBytes(this.#expected, expectedRange)) {
      if (rows.next().value?.equals(row)) continue
      this.addDifference(what)
      return
    }
    if (!rows.next().done) this.addDifference(what)
  }

  /** Earlier versions have a record for each deleted item. */
  #items(number: number, facts: CollectionFacts, quoted: string): void {
    const what = `an item of ${quoted}`
    const { places } = facts
    const [table, expected] = [new Table(this.#store, number), new Table(this.#expected, facts.table)]
    let records = 0
    let blocks = 0
    let lastBlock = -1
    for (const [place, wanted] of recordsOf(expected, places)) {
      const record = table.recordAt(place, HIGHEST)
      if (!record || !isSameRecord(Buffer.from(record as Buffer), wanted)) {
        this.addDifference(what)
        return
      }
      const tombstones = table.sharedTombstones(place, HIGHEST)
      // The comparison leaves out its CRC.
      if (isTombstone(wanted)) table.copyAt(place, HIGHEST)
      if (!tombstones.has(place)) records++
      else if (lastBlock !== tombstoneBlockOf(place)) {
        blocks++
        lastBlock = tombstoneBlockOf(place)
      }
    }
    const tombstoneRange: Range = [tombstonesKey(number, 0), leastTimeKey(number, 0)]
    const rows = countRows(this.#store, rangeOf(TAG.item, number))
    const isOneMore = rows + this.#packed(table) > records || countRows(this.#store, tombstoneRange) > blocks
    if (isOneMore) this.addDifference(what)
  }

  /** The number of items in blocks. */
  #packed(table: Table): number {
    let count = 0
    for (const { key } of rowsIn(this.#store, [blockKey(table.number, 0), rangeOf(TAG.place, table.number)[1]]))
      count += table.sizeOfBlock(positionOf(key, key.length - POSITION_BYTES))
    return count
  }

  /** Each changed item has a row at its last change, but the deleted ones of a block have one together. */
  #changes(number: number, { table: expectedTable, places }: CollectionFacts, quoted: string): void {
    const expiriesIn = (one: number): Range => [expiryKey(one, 0), blockKey(one, 0)]
    this.#ranges(expiriesIn(number), expiriesIn(expectedTable), `an expiry of items of ${quoted}`)
    const table = new Table(this.#store, number)
    let wanted = 0
    let found = 0
    for (const [place, record] of recordsOf(table, places)) {
      if (positionOf(record) <= metadataOf(record).since) continue
      const tombstones = table.sharedTombstones(place, HIGHEST)
      const isShared = tombstones.has(place)
      const last = isShared ? Math.max(...Array.from(tombstones.values(), ({ position }) => position)) : 0
      // Another one of the block was deleted last.
      if (isShared && positionOf(record) !== last) continue
      wanted++
      const row = this.#store.newest(numberedKey(TAG.changed, number, positionOf(record)))
      if (row && positionOf(row) === place) found++
    }
    const isOneMore = countRows(this.#store, rangeOf(TAG.changed, number)) > wanted
    if (found < wanted || isOneMore) this.addDifference(`the place of an item that changed of ${quoted}`)
  }

  /** Earlier versions have a row for the last but one event of each item, too. */
  #events(number: number, [expectedNumber, { table, places }]: Numbered, quoted: string): void {
    const expiredIn = (collection: number): Range => [
      expiredIdsKey(collection, 0),
      rangeOf(TAG.itemEvent, collection)[1],
    ]
    this.#ranges(expiredIn(number), expiredIn(expectedNumber), `an item of ${quoted} that has expired`)
    const earlierIn = (collection: number): Range => [tableKey(TAG.itemEvent, collection), expiredIdsKey(collection, 0)]
    let wanted = 0
    let found = 0
    for (const { key, value } of rowsIn(this.#expected, earlierIn(expectedNumber))) {
      wanted++
      const stored = this.#store.newest(Buffer.concat([tableKey(TAG.itemEvent, number), key.subarray(PREFIX_BYTES)]))
      if (stored && value.equals(Buffer.from(stored as Buffer))) found++
    }
    const items = new Table(this.#expected, table)
    let extra = 0
    for (const [place, record] of recordsOf(items, places)) {
      const [key, { prior }] = [keyOf(idInRecord(record)), metadataOf(record)]
      const stored = prior > 0 ? this.#store.newest(itemEventKey(number, key, prior)) : undefined
      if (!stored || positionOf(stored) !== positionOf(record)) continue
      // A deleted item that exists again has another place, and later events.
      if (items.placeOf(key, HIGHEST, places) === place) extra++
    }
    const isOneMore = countRows(this.#store, earlierIn(number)) > wanted + extra
    if (found < wanted || isOneMore) this.addDifference(`an earlier event of an item of ${quoted}`)
  }

  /** Earlier versions store no times, so rows may be missing: they only shorten a search. */
  times(): void {
    for (const row of rowBytes(this.#store, rangeOf(TAG.time, 0))) {
      if (this.#expected.newest(Buffer.concat([tableKey(TAG.time, 0), row]))) continue
      this.addDifference('the time of an event')
      return
    }
  }

  /** A server counts the events of a store of format 6 in the background: until then only their sum is known. */
  counts(): void {
    const counts = new EventCounts(this.#store, this.#position)
    if (!counts.isComplete) {
      let sum = 0
      for (const { count } of counts.between(BUCKETS.minute, 0, HIGHEST, HIGHEST)) sum += count
      if (sum !== this.#position - counts.left) this.addDifference('a number of events')
      return
    }
    const numbers = new Map(Array.from(storedCollections(this.#store), ([number, { name }]) => [name, number]))
    const expected = storedCollections(this.#expected)
    let wanted = 0
    let found = 0
    let rows = 0
    for (const { table } of Object.values(BUCKETS)) {
      for (const { key, value } of rowsIn(this.#expected, rangeOf(TAG.time, table))) {
        wanted++
        const name = expected.get(collectionOf(key))?.name as string
        const stored = this.#store.newest(withCollection(key, numbers.get(name) ?? 0))
        if (stored && value.equals(Buffer.from(stored as Buffer))) found++
      }
      rows += countRows(this.#store, rangeOf(TAG.time, table))
    }
    if (found < wanted || rows > wanted) this.addDifference('a number of events')
  }

  /** An incomplete index is ignored: the next start builds it anew. */
  async #index(index: StoredIndex, { table, places }: CollectionFacts, quoted: string): Promise<void> {
    const { isBuilt, tree, name } = index
    if (!isBuilt) return
    const items = new Table(this.#expected, table)
    const keys = tree.at(HIGHEST)
    let wanted = 0
    let found = 0
    for (const [place] of recordsOf(items, places)) {
      for (const key of keysAt(items.itemAt(place, HIGHEST), index, place)) {
        wanted++
        const bytes = Buffer.from(key, 'latin1')
        if ((await keys.seek(bytes, ENDLESS)).key?.equals(bytes)) found++
      }
    }
    if (found !== wanted || wanted !== tree.size) this.addDifference(`an entry of the index ${name} of ${quoted}`)
  }

  /** Those that are not complete are built anew by the next start. */
  #naturalKeys(stored: number, { name, table, places }: CollectionFacts, quoted: string): void {
    for (const [number, facts] of storedNaturalKeys(this.#store)) {
      if (facts.collection !== name || !facts.isComplete) continue
      const index = facts.index && this.#indexes.find(stored, facts.index)
      const items = new Table(this.#expected, table)
      let wanted = 0
      let found = 0
      for (const [place] of recordsOf(items, places)) {
        const item = items.itemAt(place, HIGHEST)
        const naturalKey = item && naturalKeyOf(item.value, facts)
        if (naturalKey === undefined || (index && isFoundUnder(naturalKey, item, index))) continue
        wanted++
        if (this.#store.newest(keyedKey(TAG.naturalKey, number, naturalKey))?.toString() === item?.key) found++
      }
      const rows = countRows(this.#store, rangeOf(TAG.naturalKey, number))
      const lacksIndex = facts.index && !index
      if (found !== wanted || rows !== wanted || lacksIndex) this.addDifference(`a natural key of ${quoted}`)
    }
  }

  #facts(facts: CollectionFacts, expected: CollectionFacts, quoted: string): void {
    for (const key of Object.keys(expected) as (keyof CollectionFacts)[]) {
      // Format 7 has no first id.
      if (key === 'table' || (key === 'firstId' && facts[key] === undefined)) continue
      if (facts[key] !== expected[key]) this.addDifference(`${key} of ${quoted}`)
    }
  }
}

type Range = readonly [from: Buffer, to: Buffer]
type Numbered = readonly [number: number, facts: CollectionFacts]

function rangeOf(tag: Tag, table: number): Range {
  const prefix = tableKey(tag, table)
  return [prefix, prefixEnd(prefix)]
}

/** A copy of the record at each place that has one. */
function* recordsOf(table: Table, places: number): Generator<readonly [place: number, record: Buffer]> {
  for (let place = table.next(0); place !== undefined && place < places; place = table.next(place + 1))
    yield [place, table.copyAt(place, HIGHEST)]
}

function countRows(store: Store, range: Range): number {
  let count = 0
  for (const _ of rowBytes(store, range)) count++
  return count
}

/** For each row, its key without the table's prefix, followed by its value. */
function* rowBytes(store: Store, range: Range): Generator<Buffer> {
  for (const { key, value } of rowsIn(store, range)) yield Buffer.concat([key.subarray(PREFIX_BYTES), value])
}

function* rowsIn(store: Store, [start, end]: Range): Generator<Row> {
  for (let from = start; ; ) {
    const rows = store.rows(from, end, { limit: ROWS_AT_ONCE })
    yield* rows
    const last = rows.at(-1)
    if (!last || rows.length < ROWS_AT_ONCE) return
    from = Buffer.concat([last.key, Buffer.alloc(1)])
  }
}

/** Few rows at once, as an item may have 1 MiB. */
const ROWS_AT_ONCE = 32
