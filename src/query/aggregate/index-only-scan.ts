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
import type { Accumulator, Count } from './accumulator.ts'
import type { Aggregation, Grouping } from './aggregation.ts'
import { COUNT, type Layout, layoutOf, Parts, READ, UNKNOWN } from './key-layout.ts'
import type { NewestItems } from './newest.ts'
import type { Group, Rows } from './rows.ts'
import type { Scalar } from './scalars.ts'

/** How many keys are read between two looks at the turn. */
const STEP = 64
/** How many runs are begun between two looks at the turn. */
const RUNS = 8
/** The keys of longer runs are counted by rank. */
const MANY = 64

/** Adds an item that was read instead of its key. */
type AddItem = (item: JsonObject, place: number) => void

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
      else await this.#addRun(scan, key, to, cell, add, turn)
    }
    await this.#others(add, turn)
  }

  /** Adds the keys of a run up to the bytes `to` after its prefix. The first match creates the accumulators. */
  async #addRun(
    scan: KeyScan,
    first: Buffer,
    to: string,
    cell: () => readonly Accumulator[],
    add: AddItem,
    turn: Turn,
  ): Promise<void> {
    const { shared, time, columns, isOrdered } = this.#layout
    const parts = this.#parts
    const bound = bytesOf(scan.prefix + to)
    let accumulators: readonly Accumulator[] | undefined
    for (let key: Buffer | undefined = first; key && (key === first || key.compare(bound) < 0); key = scan.cursor.key) {
      if (this.#isStep(STEP) && turn.isOver) await turn.next()
      const read = parts.read(key, scan.starts[shared] as number)
      if (read === UNKNOWN) {
        await this.#item(scan, add, turn)
        continue
      }
      if (read === READ) {
        accumulators ??= cell()
        const { place } = scan.cursor
        const at = isOrdered ? parts.time(time) : 0
        for (let index = 0; index < columns.length; index++) {
          const column = columns[index] as number
          const value = column === COUNT ? null : parts.value(column, key, place)
          if (value !== undefined) accumulators[index]?.add(value, at, place)
        }
      }
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
    if (isBelow(scan.cursor.key, bound)) count += await this.#countTo(bound, scan, turn)
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
      const bound = bytesOf(scan.prefix + (isTimed ? lower(scan.to, this.#partEnd(key, scan)) : scan.to))
      for (
        let next: Buffer | undefined = key;
        next && (next === key || next.compare(bound) < 0);
        next = scan.cursor.key
      ) {
        if (this.#isStep(STEP) && turn.isOver) await turn.next()
        const read = parts.read(next, scan.starts[shared] as number)
        const at = parts.time(time)
        if (read === UNKNOWN) {
          await this.#item(scan, add, turn)
          continue
        }
        if (read === READ && at !== undefined) newest.put(group, at, scan.cursor.place)
        scan.cursor.next()
      }
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

  async #countTo(bound: Buffer, scan: KeyScan, turn: Turn): Promise<number> {
    const { tree } = this.#plan
    const count = await tree.count(scan.cursor.key as Buffer, bound, turn)
    scan.cursor = await tree.seek(bound, turn)
    return count
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
