import type { Ranked } from '../../../json/order.ts'
import { compareText, isWellFormed } from '../../../json/value.ts'
import type { Filter } from '../filter.ts'
import type { Column } from './column.ts'
import { compareKeys, entryOf, type Key, SECTION, SECTIONS_OF_RANK } from './entries.ts'
import type { FieldIndex, Ranks } from './field-index.ts'
import type { Ranking } from './ranking.ts'

/** Keys of one section that follow one another. */
interface Interval {
  /** Undefined: from the first on. */
  readonly from: Bound | undefined
  /** Undefined: up to the last. */
  readonly to: Bound | undefined
}

interface Bound {
  readonly key: Key
  readonly isIncluded: boolean
  /** Of a text as the upper bound: all that begin with it are included. */
  readonly isPrefix?: true
}

const ALL: Interval = { from: undefined, to: undefined }

/** What an index has to say to a filter. */
export interface Intervals {
  /** By section; in order, none reaching into another. */
  readonly bySection: ReadonlyMap<number, readonly Interval[]>
  /** False when items with a value in them may still fail. */
  readonly isExact: boolean
}

/** A stretch of ranks of one section. */
export interface Span {
  readonly section: number
  readonly from: number
  readonly to: number
}

/** The intervals of the values that meet a filter; undefined when no order helps to find them. */
export function intervalsOf(filter: Filter): Intervals | undefined {
  switch (filter.operator) {
    case 'contains':
    case 'endswith':
      return undefined
    case 'startswith':
      return withPrefix(filter)
    case 'exists':
      return existing(filter)
    case 'eq':
      return equalTo(filter)
    case 'ne':
      return exact(SECTIONS_OF_RANK.flatMap((_, rank) => differing(filter, rank)))
    default: {
      const { operator } = filter
      return exact(
        filter.wanted.flatMap(({ readings }) => readings.flatMap((one) => (one ? beside(one, operator) : []))),
      )
    }
  }
}

type Placed = readonly [section: number, interval: Interval]

function exact(placed: readonly Placed[]): Intervals {
  return { bySection: united(placed), isExact: true }
}

function whole(sections: readonly number[]): Placed[] {
  return sections.map((section) => [section, ALL])
}

function equalTo({ wanted }: Filter): Intervals {
  const placed: Placed[] = []
  for (const { readings } of wanted) {
    for (const reading of readings) {
      if (!reading) continue
      const { section, key } = entryOf(reading)
      const bound: Bound = { key, isIncluded: true }
      placed.push([section, { from: bound, to: bound }])
    }
  }
  return exact(placed)
}

function beside(reading: Ranked, operator: 'gt' | 'gte' | 'lt' | 'lte'): Placed[] {
  const { section, key } = entryOf(reading)
  const bound: Bound = { key, isIncluded: operator === 'gte' || operator === 'lte' }
  const sections = SECTIONS_OF_RANK[reading.rank] as readonly number[]
  const at = sections.indexOf(section)
  return operator === 'gt' || operator === 'gte'
    ? [[section, { from: bound, to: undefined }], ...whole(sections.slice(at + 1))]
    : [...whole(sections.slice(0, at)), [section, { from: undefined, to: bound }]]
}

/** All of a rank but what is wanted; nothing where none of the wanted is a value of the rank. */
function differing({ wanted }: Filter, rank: number): Placed[] {
  const entries = wanted.flatMap(({ readings }) => {
    const reading = readings[rank]
    return reading ? [entryOf(reading)] : []
  })
  if (entries.length === 0) return []
  return (SECTIONS_OF_RANK[rank] as readonly number[]).flatMap((section) => {
    const keys = entries.filter((entry) => entry.section === section).map(({ key }) => key)
    keys.sort((a, b) => compareKeys(section, a, b))
    const bounds = [undefined, ...keys.map((key): Bound => ({ key, isIncluded: false })), undefined]
    return bounds.slice(1).map((to, index): Placed => [section, { from: bounds[index], to }])
  })
}

function existing({ wanted }: Filter): Intervals {
  const texts = wanted.map(({ text }) => text)
  return exact([
    ...(texts.includes('true') ? whole(SECTIONS_OF_RANK.flat()) : []),
    ...(texts.includes('false') ? whole([SECTION.missing]) : []),
  ])
}

/** Of a text that is an instant its spelling is not known to an index; half of a surrogate pair begins nothing in order. */
function withPrefix({ wanted }: Filter): Intervals | undefined {
  if (!wanted.every(({ text }) => isWellFormed(text))) return undefined
  const texts = wanted.map(({ text }): Placed => {
    const from: Bound = { key: text, isIncluded: true }
    return [SECTION.text, { from, to: { ...from, isPrefix: true } }]
  })
  const instants = whole([SECTION.early, SECTION.instant, SECTION.late])
  return { bySection: united([...texts, ...instants]), isExact: false }
}

function united(placed: readonly Placed[]): Map<number, Interval[]> {
  const bySection = new Map<number, Interval[]>()
  for (const [section, interval] of placed) {
    const known = bySection.get(section)
    if (known) known.push(interval)
    else bySection.set(section, [interval])
  }
  for (const [section, intervals] of bySection) {
    if (intervals.length === 1) continue
    intervals.sort((a, b) => compareStarts(section, a, b))
    const apart: Interval[] = []
    for (const interval of intervals) {
      const last = apart.at(-1)
      if (!last || !reaches(section, last, interval)) apart.push(interval)
      else if (compareEnds(section, last, interval) < 0) apart[apart.length - 1] = { from: last.from, to: interval.to }
    }
    bySection.set(section, apart)
  }
  return bySection
}

function compareStarts(section: number, { from: a }: Interval, { from: b }: Interval): number {
  if (!a || !b) return Number(!b) - Number(!a)
  return compareKeys(section, a.key, b.key) || Number(b.isIncluded) - Number(a.isIncluded)
}

/** Prefixes are only compared with one another: one that lies within another ends no later. */
function compareEnds(section: number, { to: a }: Interval, { to: b }: Interval): number {
  if (!a || !b) return Number(!a) - Number(!b)
  if (a.isPrefix && b.isPrefix) return (b.key as string).startsWith(a.key as string) ? 0 : -1
  return compareKeys(section, a.key, b.key) || Number(a.isIncluded) - Number(b.isIncluded)
}

/** Whether the second, which starts no earlier, starts before the first has ended. */
function reaches(section: number, { to }: Interval, { from }: Interval): boolean {
  if (!to || !from) return true
  if (to.isPrefix) return (from.key as string).startsWith(to.key as string)
  const order = compareKeys(section, from.key, to.key)
  return order < 0 || (order === 0 && (from.isIncluded || to.isIncluded))
}

/** Where the intervals are among the entries. */
export function spansOf({ column, rankings }: Ranks, { bySection }: Intervals): readonly Span[] {
  const spans: Span[] = []
  for (const [section, intervals] of bySection) {
    const ranking = rankings[section]
    if (!ranking || ranking.size === 0) continue
    for (const { from, to } of intervals) {
      if (from && to && from.key === to.key && from.isIncluded && to.isIncluded && !to.isPrefix) {
        const span = spanOf(column, ranking, section, from.key)
        if (span) spans.push(span)
        continue
      }
      const first = from ? ranking.rankBy((place) => isBefore(column.compare(place, section, from.key), from)) : 0
      const end = to ? ranking.rankBy((place) => isWithin(section, column.key(place), to)) : ranking.size
      if (first < end) spans.push({ section, from: first, to: end })
    }
  }
  return spans
}

/** Of one key, which most often one place has, or none. */
function spanOf(column: Column, ranking: Ranking, section: number, key: Key): Span | undefined {
  const from = ranking.rankBy((place) => column.compare(place, section, key) < 0)
  const isAt = (rank: number) => rank < ranking.size && column.compare(ranking.at(rank), section, key) === 0
  if (!isAt(from)) return undefined
  const to = isAt(from + 1) ? ranking.rankBy((place) => column.compare(place, section, key) <= 0) : from + 1
  return { section, from, to }
}

function isBefore(order: number, { isIncluded }: Bound): boolean {
  return order < 0 || (order === 0 && !isIncluded)
}

function isWithin(section: number, key: Key, to: Bound): boolean {
  if (to.isPrefix) {
    const text = key as string
    return text.startsWith(to.key as string) || compareText(text, to.key as string) < 0
  }
  const order = compareKeys(section, key, to.key)
  return order < 0 || (order === 0 && to.isIncluded)
}

/** Whether a value of the place's item is in the intervals. */
export function isIn(index: FieldIndex, place: number, intervals: Intervals): boolean {
  if (holds(index.firsts, place, intervals)) return true
  const { others } = index
  return others !== undefined && (index.slotsOf(place)?.some((slot) => holds(others, slot, intervals)) ?? false)
}

function holds({ column }: Ranks, place: number, { bySection }: Intervals): boolean {
  const section = column.section(place)
  const intervals = bySection.get(section)
  if (!intervals) return false
  // The last that starts no later.
  let low = 0
  let high = intervals.length
  while (low < high) {
    const middle = (low + high) >>> 1
    const { from } = intervals[middle] as Interval
    if (from && isBefore(column.compare(place, section, from.key), from)) high = middle
    else low = middle + 1
  }
  const interval = intervals[low - 1]
  return interval !== undefined && (!interval.to || isWithin(section, column.key(place), interval.to))
}
