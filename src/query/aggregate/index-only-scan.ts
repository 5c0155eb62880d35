import { AFTER_INSTANTS, instantKey } from '../../json/order-key.ts'
import type { JsonObject } from '../../json/value.ts'
import type { Turn } from '../../runtime/turns.ts'
import type { CollectionSnapshot } from '../collection-snapshot.ts'
import { othersOf } from '../index/finder.ts'
import { KeyScan } from '../index/key-scan.ts'
import { Matching } from '../index/matcher.ts'
import { bytesOf, type IndexPlan } from '../index/plan.ts'
import { END } from '../index/ranges.ts'
import type { Query } from '../query.ts'
import type { Accumulator, Count, Scalar } from './accumulator.ts'
import type { Aggregation, Grouping } from './aggregation.ts'
import { COUNT, type Layout, layoutOf, Parts, READ, UNKNOWN } from './key-layout.ts'
import type { NewestItems } from './newest.ts'
import type { Group, Rows } from './rows.ts'

/** How many keys are read between two looks at the turn. */
const STEP = 64
/** How many runs are begun between two looks at the turn. */
const RUNS = 8
/** The keys of longer runs are counted by rank. */
const MANY = 64

/** Adds an item that was read instead of its key. */
type AddItem = (item: JsonObject, place: number) => void
/** Adds the key that was read last. */
type AddKey = (key: Buffer, place: number) => void

/** Answers a question about groups from the keys of an index. Items are read only if their keys lack a value. */
export class IndexOnlyScan {
  readonly #plan: IndexPlan
  readonly #snapshot: CollectionSnapshot
  readonly #matching: Matching
  readonly #layout: Layout
  readonly #parts: Parts
  #steps = 0

  constructor(snapshot: CollectionSnapshot, query: Query, plan: IndexPlan, grouping: Grouping) {
    this.#plan = plan
    this.#snapshot = snapshot
    this.#matching = new Matching(snapshot.items, query)
    this.#layout = layoutOf(plan, grouping)
    this.#parts = new Parts(this.#layout)
  }

  async addTo(rows: Rows, aggregation: Aggregation, turn: Turn): Promise<void> {
    const { shared, time, isTimed, last } = this.#layout
    const { window, aggregates } = aggregation
    const parts = this.#parts
    const isCount = last === shared && aggregates.every(({ path }) => path === undefined)
    const add = (item: JsonObject, place: number): void => rows.add(item, place)
    const scan = await this.#scan(turn)
    let group: Group | undefined
    let prefix = ''
    for (let key = await scan.next(turn); key; key = await scan.next(turn)) {
      if (this.#isStep(RUNS) && turn.isOver) await turn.next()
      if (!scan.isKnown || !parts.readRun(key, scan.starts)) {
        await this.#item(scan, add, turn)
        continue
      }
      const at = window ? parts.time(time) : undefined
      if (window && at === undefined) {
        await scan.jump(scan.prefix + END, turn)
        continue
      }
      let { to } = scan
      if (window && isTimed) to = lower(to, instantKey({ ms: Math.floor(window.until(at as number)), micros: 0 }))
      if (scan.prefix !== prefix) group = undefined
      prefix = scan.prefix
      const cell = (): readonly Accumulator[] => {
        group ??= rows.groupOf(parts.groups())
        return rows.accumulators(group, at)
      }
      if (isCount) await this.#countRun(scan, to, cell(), turn)
      else await this.#readRun(scan, key, to, this.#adding(cell), add, turn)
    }
    await this.#others(add, turn)
  }

  /** Adds a key to accumulators, which are created by the first. */
  #adding(cell: () => readonly Accumulator[]): AddKey {
    const { time, columns, isOrdered } = this.#layout
    const parts = this.#parts
    let accumulators: readonly Accumulator[] | undefined
    return (key, place) => {
      accumulators ??= cell()
      const at = isOrdered ? parts.time(time) : 0
      for (let index = 0; index < columns.length; index++) {
        const column = columns[index] as number
        const value = column === COUNT ? null : parts.value(column, key, place)
        if (value !== undefined) accumulators[index]?.add(value, at, place)
      }
    }
  }

  /** Reads the keys of a run up to the bytes `to` after its prefix, and adds those that match. */
  async #readRun(scan: KeyScan, first: Buffer, to: string, addKey: AddKey, add: AddItem, turn: Turn): Promise<void> {
    const start = scan.starts[this.#layout.shared] as number
    const bound = bytesOf(scan.prefix + to)
    for (let key: Buffer | undefined = first; key && (key === first || key.compare(bound) < 0); key = scan.cursor.key) {
      if (this.#isStep(STEP) && turn.isOver) await turn.next()
      const read = this.#parts.read(key, start)
      if (read === UNKNOWN) {
        await this.#item(scan, add, turn)
        continue
      }
      if (read === READ) addKey(key, scan.cursor.place)
      scan.cursor.next()
    }
  }

  /** Counts the keys of a run up to the bytes `to` after its prefix. */
  async #countRun(scan: KeyScan, to: string, counts: readonly Accumulator[], turn: Turn): Promise<void> {
    if (counts.length === 0) {
      await scan.jump(scan.prefix + to, turn)
      return
    }
    const bound = bytesOf(scan.prefix + to)
    let count = 0
    do {
      count++
      scan.cursor.next()
    } while (count < MANY && isBelow(scan.cursor.key, bound))
    if (isBelow(scan.cursor.key, bound)) {
      const { tree } = this.#plan
      count += await tree.count(scan.cursor.key as Buffer, bound, turn)
      scan.cursor = await tree.seek(bound, turn)
    }
    for (const one of counts) (one as Count).addItems(count)
  }

  async addNewestTo(newest: NewestItems, turn: Turn): Promise<void> {
    const { shared, time, isTimed } = this.#layout
    const parts = this.#parts
    const add = (item: JsonObject, place: number): void => newest.add(item, place)
    const scan = await this.#scan(turn)
    for (let key = await scan.next(turn); key; key = await scan.next(turn)) {
      if (this.#isStep(RUNS) && turn.isOver) await turn.next()
      if (!scan.isKnown || !parts.readRun(key, scan.starts)) {
        await this.#item(scan, add, turn)
        continue
      }
      if (parts.time(time) === undefined) {
        await scan.jump(scan.prefix + END, turn)
        continue
      }
      const group = parts.groups()[0] as Scalar
      if (isTimed && this.#layout.last === shared + 1) {
        await scan.jump(scan.prefix + lower(scan.to, AFTER_INSTANTS), turn)
        await this.#lastOf(key, group, scan, newest, turn)
        continue
      }
      const to = isTimed ? lower(scan.to, this.#partEnd(key, scan)) : scan.to
      const addKey: AddKey = (_, place) => {
        const at = parts.time(time)
        if (at !== undefined) newest.put(group, at, place)
      }
      await this.#readRun(scan, key, to, addKey, add, turn)
    }
    await this.#others(add, turn)
  }

  /** Adds the last key before the cursor, and others of the same time, down to `first`, in the order of times. */
  async #lastOf(first: Buffer, group: Scalar, scan: KeyScan, newest: NewestItems, turn: Turn): Promise<void> {
    const { shared, time } = this.#layout
    const { cursor } = scan
    let latest: number | undefined
    let back = 0
    for (let isFirst = false; !isFirst; ) {
      if (this.#isStep(STEP) && turn.isOver) await turn.next()
      cursor.previous()
      back++
      const key = cursor.key as Buffer
      isFirst = key.compare(first) <= 0
      this.#parts.read(key, scan.starts[shared] as number)
      const at = this.#parts.time(time)
      if (at === undefined) continue
      if (latest !== undefined && at < latest) break
      latest = at
      newest.put(group, at, cursor.place)
    }
    for (; back > 0; back--) {
      if (this.#isStep(STEP) && turn.isOver) await turn.next()
      cursor.next()
    }
  }

  #scan(turn: Turn): Promise<KeyScan> {
    const { tree, access } = this.#plan
    const { shared, checked } = this.#layout
    return KeyScan.of({ tree, ranges: access.covered ?? [], shared, checked }, turn)
  }

  #isStep(every: number): boolean {
    this.#steps += STEP / every
    if (this.#steps < STEP) return false
    this.#steps = 0
    return true
  }

  /** Reads the item of the key at the cursor. */
  async #item(scan: KeyScan, add: AddItem, turn: Turn): Promise<void> {
    if (turn.isOver) await turn.next()
    const { place } = scan.cursor
    scan.cursor.next()
    const item = this.#matching.valueAt(place)
    if (item) add(item, place)
  }

  async #others(add: AddItem, turn: Turn): Promise<void> {
    for (const candidate of await othersOf(this.#snapshot.items, this.#plan, turn)) {
      if ((candidate || this.#isStep(STEP)) && turn.isOver) await turn.next()
      const item = candidate && this.#matching.valueAt(candidate.place)
      if (item) add(item, candidate.place)
    }
  }

  /** The bytes after the prefix that are above all keys with the same part as this key. */
  #partEnd(key: Buffer, { starts }: KeyScan): string {
    const { shared } = this.#layout
    return key.toString('latin1', starts[shared], starts[shared + 1]) + END
  }
}

function isBelow(key: Buffer | undefined, bound: Buffer): boolean {
  return key !== undefined && key.compare(bound) < 0
}

function lower(a: string, b: string): string {
  return a < b ? a : b
}
