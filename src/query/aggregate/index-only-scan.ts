import { MISSING } from '../../json/order.ts'
import { AFTER_INSTANTS, instantKey, type KeyPart, RANK, readPart } from '../../json/order-key.ts'
import { formatPath, type Path } from '../../json/paths.ts'
import type { JsonObject } from '../../json/value.ts'
import { type Turn, visitEach } from '../../runtime/turns.ts'
import type { KeyCursor, OrderedKeys } from '../../store/tree.ts'
import type { CollectionSnapshot } from '../collection-snapshot.ts'
import { ItemMatcher, othersOf } from '../index/candidates.ts'
import { type IndexPlan, keyBuffer } from '../index/plan.ts'
import { END, type Range } from '../index/ranges.ts'
import { KIND } from '../index/tuples.ts'
import type { Query } from '../query.ts'
import { type Accumulator, type Count, KeyedTime, type Scalar } from './accumulator.ts'
import { type Aggregation, type Grouping, isByTime, needsOf } from './aggregation.ts'
import type { Group, NewestItems, Rows } from './rows.ts'

/** Adds an item that was read instead of its key. */
type AddItem = (item: JsonObject, place: number) => void
/** Adds the key that was read last. */
type AddKey = (key: Buffer, place: number) => void

/** How many keys are read between two checks of the turn. */
const STEP = 64

/**
 * Answers a query for groups from the keys of an index. Items are read only if their keys lack a value. A run is a sequence
 * of keys of the same group and window; a part of a key is the order key of one of its values.
 */
export class IndexOnlyScan {
  readonly #plan: IndexPlan
  readonly #snapshot: CollectionSnapshot
  readonly #matcher: ItemMatcher
  readonly #layout: Layout
  readonly #parts: Parts
  #steps = 0

  constructor(snapshot: CollectionSnapshot, query: Query, plan: IndexPlan, grouping: Grouping) {
    this.#plan = plan
    this.#snapshot = snapshot
    this.#matcher = new ItemMatcher(snapshot.items, query)
    this.#layout = layoutOf(plan, grouping)
    this.#parts = new Parts(this.#layout)
  }

  /** Adds the keys to rows. The keys of a run have the same accumulators; if they are only counted, they are not read. */
  async addTo(rows: Rows, aggregation: Aggregation, turn: Turn): Promise<void> {
    const { sharedParts, time, isTimeNext, readParts } = this.#layout
    const { window, aggregates } = aggregation
    const parts = this.#parts
    const isCounted = readParts === sharedParts && aggregates.every(({ path }) => path === undefined)
    const add = (item: JsonObject, place: number): void => rows.add(item, place)
    let group: Group | undefined
    let prefix = ''
    const addRun = async (scan: KeyScan, key: Buffer): Promise<void> => {
      const at = window ? (parts.time(time) as number) : undefined
      // The runs of a group's windows have the same prefix.
      if (scan.prefix !== prefix) group = undefined
      prefix = scan.prefix
      let { runEnd } = scan
      if (window && isTimeNext)
        runEnd = lowerOf(runEnd, instantKey({ ms: Math.floor(window.until(at as number)), micros: 0 }))
      const accumulatorsOfRun = (): readonly Accumulator[] => {
        group ??= rows.groupOf(parts.groups())
        return rows.accumulators(group, at)
      }
      if (isCounted) await this.#countRun(scan, runEnd, accumulatorsOfRun(), turn)
      else await this.#readRun(scan, key, runEnd, this.#addKeyTo(accumulatorsOfRun), add, turn)
    }
    await this.#scan(window !== undefined, addRun, add, turn)
  }

  /**
   * Calls `addRun` with the first key of each run, which leaves the cursor after the run, and `add` with the items whose keys
   * lack a value. With `needsTime`, runs without an event time are left out.
   */
  async #scan(
    needsTime: boolean,
    addRun: (scan: KeyScan, key: Buffer) => Promise<void>,
    add: AddItem,
    turn: Turn,
  ): Promise<void> {
    const { tree } = this.#plan
    const scan = new KeyScan(tree, this.#layout, this.#parts, await tree.seek(Buffer.from([KIND.single]), turn))
    for (let key = await scan.next(turn); key; key = await scan.next(turn)) {
      if (turn.isOver) await turn.next()
      if (!scan.isReadable || !this.#parts.holdGroups) await this.#addItem(scan, add, turn)
      else if (needsTime && this.#parts.time(this.#layout.time) === undefined) await scan.jump(scan.prefix + END, turn)
      else await addRun(scan, key)
    }
    await visitEach(await othersOf(this.#snapshot.items, this.#plan, turn), turn, (candidate) => {
      const item = candidate && this.#matcher.matchAt(candidate.place)
      if (item) add(item, candidate.place)
    })
  }

  /** Adds a key to accumulators, which are created by the first. */
  #addKeyTo(accumulatorsOfRun: () => readonly Accumulator[]): AddKey {
    const { time, columns, isOrdered } = this.#layout
    const parts = this.#parts
    let accumulators: readonly Accumulator[] | undefined
    return (key, place) => {
      accumulators ??= accumulatorsOfRun()
      const at = isOrdered ? parts.time(time) : 0
      for (let index = 0; index < columns.length; index++) {
        const column = columns[index] as number
        const value = column === COUNT ? null : parts.value(column, key, place)
        if (value !== undefined) accumulators[index]?.add(value, at, place)
      }
    }
  }

  /** Reads the keys of a run from `first` on, and adds those that match. */
  async #readRun(
    scan: KeyScan,
    first: Buffer,
    runEnd: string,
    addKey: AddKey,
    add: AddItem,
    turn: Turn,
  ): Promise<void> {
    const bound = keyBuffer(scan.prefix + runEnd)
    for (let key: Buffer | undefined = first; key && (key === first || key.compare(bound) < 0); key = scan.cursor.key) {
      if (this.#countStep() && turn.isOver) await turn.next()
      const read = this.#parts.readOthers(key)
      if (read === 'unknown') {
        await this.#addItem(scan, add, turn)
        continue
      }
      if (read === 'matches') addKey(key, scan.cursor.place)
      scan.cursor.next()
    }
  }

  /**
   * Counts the keys of a run, at whose first key the cursor is, and moves the cursor behind it. All accumulators are counts;
   * there are none if only the groups are listed.
   */
  async #countRun(scan: KeyScan, runEnd: string, counts: readonly Accumulator[], turn: Turn): Promise<void> {
    if (counts.length === 0) {
      await scan.jump(scan.prefix + runEnd, turn)
      return
    }
    const bound = keyBuffer(scan.prefix + runEnd)
    let count = 0
    do {
      count++
      scan.cursor.next()
    } while (count < MANY_KEYS && isBelow(scan.cursor.key, bound))
    if (isBelow(scan.cursor.key, bound)) {
      const { tree } = this.#plan
      count += await tree.count(scan.cursor.key as Buffer, bound, turn)
      scan.cursor = await tree.seek(bound, turn)
    }
    for (const one of counts) (one as Count).addItems(count)
  }

  /** Adds the newest key of each group. If the event time is the last part that is read, it is the last key of a run. */
  async addNewestTo(newest: NewestItems, turn: Turn): Promise<void> {
    const { sharedParts, time, isTimeNext } = this.#layout
    const parts = this.#parts
    const add = (item: JsonObject, place: number): void => newest.add(item, place)
    const addRun = async (scan: KeyScan, key: Buffer): Promise<void> => {
      const group = parts.groups()[0] as Scalar
      if (isTimeNext && this.#layout.readParts === sharedParts + 1) {
        await scan.jump(scan.prefix + lowerOf(scan.runEnd, AFTER_INSTANTS), turn)
        await this.#lastOf(key, group, scan, newest, turn)
        return
      }
      const runEnd = isTimeNext ? lowerOf(scan.runEnd, parts.text(sharedParts, key) + END) : scan.runEnd
      const addKey: AddKey = (_, place) => {
        const at = parts.time(time)
        if (at !== undefined) newest.addValues(group, at, place)
      }
      await this.#readRun(scan, key, runEnd, addKey, add, turn)
    }
    await this.#scan(true, addRun, add, turn)
  }

  /** Adds the last key before the cursor, and others of the same time, down to `first`, in the order of times. */
  async #lastOf(first: Buffer, group: Scalar, scan: KeyScan, newest: NewestItems, turn: Turn): Promise<void> {
    const { time } = this.#layout
    const { cursor } = scan
    let latest: number | undefined
    // The cursor is `back` keys before the next run, to which it returns.
    let back = 0
    for (let isFirst = false; !isFirst; ) {
      if (this.#countStep() && turn.isOver) await turn.next()
      cursor.previous()
      back++
      const key = cursor.key as Buffer
      isFirst = key.compare(first) <= 0
      this.#parts.readOthers(key)
      const at = this.#parts.time(time)
      if (at === undefined) continue
      if (latest !== undefined && at < latest) break
      latest = at
      newest.addValues(group, at, cursor.place)
    }
    for (; back > 0; back--) {
      if (this.#countStep() && turn.isOver) await turn.next()
      cursor.next()
    }
  }

  /** True once in STEP calls: keys are read faster than the turn is checked. */
  #countStep(): boolean {
    return ++this.#steps % STEP === 0
  }

  /** Reads the item of the key at the cursor. */
  async #addItem(scan: KeyScan, add: AddItem, turn: Turn): Promise<void> {
    if (turn.isOver) await turn.next()
    const { place } = scan.cursor
    scan.cursor.next()
    const item = this.#matcher.matchAt(place)
    if (item) add(item, place)
  }
}

function isBelow(key: Buffer | undefined, bound: Buffer): boolean {
  return key !== undefined && key.compare(bound) < 0
}

function lowerOf(a: string, b: string): string {
  return a < b ? a : b
}

/** Keys of a run that are counted one by one; those of a longer run are counted by rank. */
const MANY_KEYS = 64

/** How many keys are skipped one by one before the tree is searched. */
const NEAR_KEYS = 8

/** A skip scan: finds the runs of `single` keys whose leading parts match the filters. All keys of a run share the first parts. */
class KeyScan {
  readonly #tree: OrderedKeys
  readonly #layout: Layout
  /** Those of the first key of a run after `next`. */
  readonly #parts: Parts
  /** At the first key of a run after `next`; the caller then advances it to the end of the run. */
  cursor: KeyCursor
  /** The kind and the shared parts, as latin1. */
  prefix = ''
  /** The run ends before the prefix followed by these bytes. */
  runEnd = END
  /** False if a part to be checked is an array or an object, which are not read. */
  isReadable = true

  constructor(tree: OrderedKeys, layout: Layout, parts: Parts, cursor: KeyCursor) {
    this.#tree = tree
    this.#layout = layout
    this.#parts = parts
    this.cursor = cursor
  }

  /** The first key of the next run, at the cursor or after it; undefined after the last run. */
  async next(turn: Turn): Promise<Buffer | undefined> {
    for (;;) {
      const { key } = this.cursor
      if (!key) return undefined
      const beyond = this.#beyondMismatch(key)
      if (beyond === undefined) return key
      await this.jump(beyond, turn)
      if (turn.isOver) await turn.next()
    }
  }

  /** Moves the cursor forward to the first key that is not below these bytes. */
  async jump(bytes: string, turn: Turn): Promise<void> {
    const to = keyBuffer(bytes)
    for (let passed = 0; passed < NEAR_KEYS; passed++) {
      this.cursor.next()
      const { key } = this.cursor
      if (!key || key.compare(to) >= 0) return
    }
    this.cursor = await this.#tree.seek(to, turn)
  }

  /** Undefined if the leading parts of a key match the filters, else the bytes up to which those of no key do. */
  #beyondMismatch(key: Buffer): string | undefined {
    const { filters, sharedParts, checkedParts } = this.#layout
    const parts = this.#parts
    this.isReadable = true
    this.runEnd = END
    for (let part = 0; part < checkedParts; part++) {
      if (!parts.read(part, key)) {
        this.isReadable = false
        return undefined
      }
      const wanted = filters[part]
      if (!wanted) continue
      const text = parts.text(part, key)
      const range = wanted.find(({ to }) => text < to)
      if (!range || text < range.from) return parts.textBefore(part, key) + (range?.from ?? END)
      if (part === sharedParts) this.runEnd = range.to
    }
    this.prefix = parts.textBefore(sharedParts, key)
    return undefined
  }
}

const NONE = -1
/** Stands for the part of a column that counts. */
const COUNT = NONE

/** Which parts of the keys of an index a query for groups needs, counted from 0. */
interface Layout {
  readonly groups: readonly number[]
  /** NONE if no event time is needed. */
  readonly time: number
  /** The event time, needed or not; NONE if the index does not have it. */
  readonly timePart: number
  /** By column of a row, or COUNT. */
  readonly columns: readonly number[]
  /** Whether a column depends on the order of event times. */
  readonly isOrdered: boolean
  /** The number of leading parts that are the same in all keys of a run. */
  readonly sharedParts: number
  /** Whether the event time follows them, so that a run ends with its window. */
  readonly isTimeNext: boolean
  /** The number of leading parts whose filters are checked once for a run. */
  readonly checkedParts: number
  /** The number of leading parts that are read of each key. */
  readonly readParts: number
  /** By part, the ranges of its filters. */
  readonly filters: readonly (readonly Range[] | undefined)[]
}

function layoutOf({ index, access }: IndexPlan, grouping: Grouping): Layout {
  const names = index.paths.map(formatPath)
  const partOf = (path: Path | undefined): number => (path ? names.indexOf(formatPath(path)) : NONE)
  const needs = needsOf(grouping)
  const { covered = [] } = access
  const groups = needs.groups.map(partOf)
  const time = partOf(needs.time)
  const aggregates = grouping.kind === 'newest' ? [] : grouping.aggregates
  const isOrdered = time >= 0 && aggregates.some(isByTime)
  const isTimeRead = isOrdered || grouping.kind === 'newest'
  const columns = aggregates.map(({ path }) => partOf(path))
  const isTimeless = grouping.kind !== 'newest' && !grouping.window
  // Keys of one run have the same values at the leading parts whose filters fix them, and at those up to the last group.
  const ranged = covered.findIndex((ranges) => !ranges?.every(({ isPoint }) => isPoint))
  let sharedParts = Math.max(ranged < 0 ? covered.length : ranged, ...groups.map((part) => part + 1))
  const isTimeNext = !isTimeless && time >= sharedParts
  if (isTimeNext) sharedParts = time
  const checkedParts = isTimeNext || covered[sharedParts] ? sharedParts + 1 : sharedParts
  const lastFilter = covered.findLastIndex((ranges, part) => ranges && part >= checkedParts)
  const read = [...columns, isTimeRead ? time : NONE, lastFilter]
  return {
    groups,
    time,
    timePart: index.timePart,
    columns,
    isOrdered,
    sharedParts,
    isTimeNext,
    checkedParts,
    readParts: Math.max(sharedParts, ...read.map((part) => part + 1)),
    filters: covered,
  }
}

/** The parts of the current key. Its text, like that of its parts, is in latin1. */
class Parts {
  readonly #layout: Layout
  readonly #parts: KeyPart[] = []
  /** Their offsets in the key, which begins with its kind. */
  readonly #starts: number[] = [1]

  constructor(layout: Layout) {
    this.#layout = layout
    for (let part = 0; part < Math.max(layout.readParts, layout.checkedParts); part++) {
      this.#parts.push({ end: 0, rank: 0, value: null })
    }
  }

  /** Reads a part behind others that were read; false for an array or an object, which cannot be read. */
  read(part: number, key: Buffer): boolean {
    const into = this.#parts[part] as KeyPart
    if (!readPart(key, this.#starts[part] as number, into)) return false
    this.#starts[part + 1] = into.end
    return true
  }

  /** Reads the parts behind those that a run shares. `unknown`: the key lacks a value, so the item must be read. */
  readOthers(key: Buffer): 'matches' | 'fails' | 'unknown' {
    const { sharedParts, checkedParts, readParts, filters } = this.#layout
    for (let part = sharedParts; part < readParts; part++) {
      if (!this.read(part, key)) return 'unknown'
      const wanted = part < checkedParts ? undefined : filters[part]
      if (wanted) {
        const text = this.text(part, key)
        if (!wanted.some(({ from, to }) => text >= from && text < to)) return 'fails'
      }
    }
    return 'matches'
  }

  text(part: number, key: Buffer): string {
    return key.toString('latin1', this.#starts[part], this.#starts[part + 1])
  }

  textBefore(part: number, key: Buffer): string {
    return key.toString('latin1', 0, this.#starts[part])
  }

  /** Whether the key holds the values of all groups. */
  get holdGroups(): boolean {
    return this.#layout.groups.every((part) => this.#holdsValue(part))
  }

  /** The value of a part of the key that was read last; undefined if it is missing. */
  value(part: number, key: Buffer, place: number): Scalar | KeyedTime | undefined {
    const { rank, value } = this.#parts[part] as KeyPart
    if (!this.#holdsValue(part)) return new KeyedTime(this.text(part, key), place)
    return rank === MISSING_RANK ? undefined : value
  }

  /** Whether the key of a part has the value as the item spells it. */
  #holdsValue(part: number): boolean {
    const { rank } = this.#parts[part] as KeyPart
    return rank !== RANK.instant && (part !== this.#layout.timePart || rank === MISSING_RANK)
  }

  /** The values of the groups, whose keys hold them. */
  groups(): readonly Scalar[] {
    return this.#layout.groups.map((part) => (this.#parts[part] as KeyPart).value)
  }

  /** The event time in a part; undefined if it has none. */
  time(part: number): number | undefined {
    const { rank, value } = this.#parts[part] as KeyPart
    return rank === RANK.instant ? (value as number) : undefined
  }
}

const MISSING_RANK = MISSING.charCodeAt(0)
