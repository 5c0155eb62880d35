import { MISSING } from '../../json/order.ts'
import { type KeyPart, partEnd, RANK, readPart } from '../../json/order-key.ts'
import { formatPath, type Path } from '../../json/paths.ts'
import type { IndexPlan } from '../index/plan.ts'
import type { Range } from '../index/ranges.ts'
import { type Scalar, Unspelled } from './accumulator.ts'
import { type Grouping, isByTime, needsOf } from './aggregation.ts'

const NONE = -1
/** Stands for the part of a column that counts. */
export const COUNT = NONE

/**
 * Which parts of the keys of an index a question about groups needs. The parts of a key are the order keys of its
 * values, counted from 0. A run is a sequence of keys of the same group and window.
 */
export interface Layout {
  readonly groups: readonly number[]
  /** NONE if no event time is needed. */
  readonly time: number
  /** The event time, needed or not; NONE if the index does not have it. */
  readonly timePart: number
  /** By column of a row, or COUNT. */
  readonly columns: readonly number[]
  /** Whether a column depends on the order of event times. */
  readonly isOrdered: boolean
  /** Whether the event time of each key is read. */
  readonly isTimeRead: boolean
  /** The number of leading parts that are the same in all keys of a run. */
  readonly shared: number
  /** Whether the event time follows them, so that a run ends with its window. */
  readonly isTimed: boolean
  /** The number of leading parts whose filters are checked once for a run. */
  readonly checked: number
  /** The number after the last part that is read of each key. */
  readonly last: number
  /** The filters that are checked for each key. */
  readonly ranges: readonly (readonly Range[] | undefined)[]
}

export function layoutOf({ index, access }: IndexPlan, grouping: Grouping): Layout {
  const names = index.paths.map(formatPath)
  const partOf = (path: Path | undefined): number => (path ? names.indexOf(formatPath(path)) : NONE)
  const needs = needsOf(grouping)
  const { covered = [] } = access
  const groups = needs.groups.map(partOf)
  const time = partOf(needs.time)
  const aggregates = grouping.kind === 'rows' ? grouping.aggregates : []
  const isOrdered = time >= 0 && aggregates.some(isByTime)
  const isTimeRead = isOrdered || grouping.kind === 'newest'
  const columns = aggregates.map(({ path }) => partOf(path))
  const isTimeless = grouping.kind === 'distinct' || (grouping.kind === 'rows' && !grouping.window)
  const fixed = covered.findIndex((ranges) => !ranges?.every(({ isPoint }) => isPoint))
  let shared = Math.max(fixed < 0 ? covered.length : fixed, ...groups.map((part) => part + 1))
  const isTimed = !isTimeless && time >= shared
  if (isTimed) shared = time
  const checked = isTimed || covered[shared] ? shared + 1 : shared
  const ranges = covered.map((one, part) => (part < checked ? undefined : one))
  const read = [...columns, isTimeRead ? time : NONE, ranges.findLastIndex((one) => one)]
  return {
    groups,
    time,
    timePart: index.timePart,
    columns,
    isOrdered,
    isTimeRead,
    shared,
    isTimed,
    checked,
    last: Math.max(shared, ...read.map((part) => part + 1)),
    ranges,
  }
}

export const READ = 1
/** The key does not match the filters. */
export const FAILED = 2
/** The key does not have all values, so the item is read. */
export const UNKNOWN = 3

/** The parts of the current key. */
export class Parts {
  readonly #layout: Layout
  readonly #parts: KeyPart[] = []
  /** Their offsets in the key. */
  readonly #starts: number[] = []
  /** Whether the value of a part is needed. */
  readonly #isRead: boolean[] = []

  constructor(layout: Layout) {
    this.#layout = layout
    for (let part = 0; part < Math.max(layout.last, layout.checked); part++) {
      this.#parts.push({ end: 0, rank: 0, value: null })
      this.#starts.push(0)
      this.#isRead.push(layout.columns.includes(part) || (part === layout.time && layout.isTimeRead))
    }
  }

  /** Reads the parts that are checked for a run; false if its items must be read. */
  readRun(key: Buffer, starts: readonly number[]): boolean {
    for (let part = 0; part < this.#layout.checked; part++) {
      const into = this.#parts[part] as KeyPart
      this.#starts[part] = starts[part] as number
      readPart(key, starts[part] as number, into)
    }
    return this.#layout.groups.every((part) => this.#isSpelled(part))
  }

  /** Reads the other parts of a key, which begin at `start`. */
  read(key: Buffer, start: number): typeof READ | typeof FAILED | typeof UNKNOWN {
    const { shared, last, ranges } = this.#layout
    let at = start
    for (let part = shared; part < last; part++) {
      const into = this.#parts[part] as KeyPart
      if (!this.#isRead[part]) into.end = partEnd(key, at)
      else if (!readPart(key, at, into)) return UNKNOWN
      if (into.end < 0) return UNKNOWN
      this.#starts[part] = at
      const wanted = ranges[part]
      if (wanted) {
        const text = key.toString('latin1', at, into.end)
        if (!wanted.some(({ from, to }) => text >= from && text < to)) return FAILED
      }
      at = into.end
    }
    return READ
  }

  rank(part: number): number {
    return (this.#parts[part] as KeyPart).rank
  }

  /** The value of a part, of an instant its milliseconds; null if it is missing. */
  number(part: number): Scalar {
    return (this.#parts[part] as KeyPart).value
  }

  /** The value of a part of the key that was read last; undefined if it is missing. */
  value(part: number, key: Buffer, place: number): Scalar | Unspelled | undefined {
    const { rank, value, end } = this.#parts[part] as KeyPart
    if (!this.#isSpelled(part)) return new Unspelled(key.toString('latin1', this.#starts[part], end), place)
    return rank === MISSING_RANK ? undefined : value
  }

  /** Whether the key of a part has the value as the item spells it. */
  #isSpelled(part: number): boolean {
    const rank = this.rank(part)
    return rank !== RANK.instant && (part !== this.#layout.timePart || rank === MISSING_RANK)
  }

  /** The values of the groups, all of which are spelled. */
  groups(): readonly Scalar[] {
    return this.#layout.groups.map((part) => this.number(part))
  }

  /** The event time in a part; undefined if it has none. */
  time(part: number): number | undefined {
    const { rank, value } = this.#parts[part] as KeyPart
    if (rank === RANK.instant) return value as number
    return undefined
  }
}

const MISSING_RANK = MISSING.charCodeAt(0)
