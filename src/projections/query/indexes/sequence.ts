import type { Collection } from '../../../collections/collection.ts'
import type { Item } from '../../../collections/item.ts'
import type { Sort } from '../../../json/order.ts'
import { parseSteps } from '../../../json/parse-steps.ts'
import type { JsonObject } from '../../../json/value.ts'
import type { Steps } from '../../../slices.ts'
import { isStill } from './build.ts'
import type { Column } from './column.ts'
import { compareKeys, type Entry, firstEntry, SECTION, SECTIONS } from './entries.ts'
import type { FieldIndex } from './field-index.ts'
import type { Span } from './intervals.ts'
import { PlaceSet } from './place-set.ts'
import type { Ranking } from './ranking.ts'

/** One of the fields that are sorted by; without an index the values are read from the items. */
export interface Level extends Sort {
  readonly index: FieldIndex | undefined
}

/** To compare with one another so many, or a part so small of all, costs less than to look for them among all. */
const FEW = 32
const SMALL_PART = 1 / 128
const MANY = 8192

/**
 * Places in the order of a sort: by its fields, an item without one last, ties in the collection's order. A page
 * costs what it takes to find its first place, not what comes before it.
 */
export class Sequence {
  readonly #collection: Collection
  readonly #all: readonly Level[]
  /** Those that order anything. */
  #levels: readonly Level[] = []
  readonly #read = new Map<number, ReadItem>()

  constructor(collection: Collection, levels: readonly Level[]) {
    this.#collection = collection
    this.#all = levels
  }

  get usesIndexes(): boolean {
    return this.#all.some(({ index }) => index)
  }

  /** Whether some of the fields have no index. */
  get readsItems(): boolean {
    return this.#all.some(({ index }) => !index)
  }

  /** The places of a set that are to be read before it can be put in order: none when there is an index for each level. */
  unreadOf(set: PlaceSet): readonly number[] {
    if (!this.readsItems) return []
    return set.slice(0, set.size).filter((place) => !isStill(this.#collection, place, this.#read.get(place)?.item))
  }

  *reading(place: number): Steps<void> {
    const item = this.#collection.itemAt(place)
    if (!item) return
    const value = (yield* parseSteps(item.text)) as JsonObject
    const entries = new Map<Level, Entry>()
    for (const level of this.#all) if (!level.index) entries.set(level, yield* firstEntry(value, level.path))
    this.#read.set(place, { item, entries })
  }

  /** Of all that there are, or of those in some spans of the first field's index. */
  ofAll(offset: number, size: number, spans?: readonly Span[]): number[] {
    this.#levels = this.#all.filter(ordersAny)
    return this.#walk(0, undefined, offset, size, spans)
  }

  /** The page of a set whose items have all been read. */
  of(set: PlaceSet, offset: number, size: number): number[] {
    this.#levels = this.#all.filter(ordersAny)
    return this.#of(0, set, offset, size)
  }

  #of(level: number, set: PlaceSet, offset: number, size: number): number[] {
    const few = Math.max(FEW, Math.min(MANY, this.#collection.size * SMALL_PART))
    if (set.size <= few || !this.#levels[level]?.index) {
      return this.#compared(level, set.slice(0, set.size), offset, size)
    }
    return this.#walk(level, set, offset, size)
  }

  #compared(level: number, places: number[], offset: number, size: number): number[] {
    return places.sort((a, b) => this.#compare(level, a, b)).slice(offset, offset + size)
  }

  /** Passes over what comes before the page in the order of the level's index. */
  #walk(level: number, set: PlaceSet | undefined, offset: number, size: number, spans?: readonly Span[]): number[] {
    const { index, descending } = this.#levels[level] as Level & { readonly index: FieldIndex }
    const found: number[] = []
    let toPass = offset
    for (const { section, from, to } of inOrder(spans ?? allSpans(index), descending)) {
      if (found.length === size) break
      if (!set && toPass >= to - from) {
        toPass -= to - from
        continue
      }
      const ranking = index.firsts.rankings[section] as Ranking
      const isBackward = descending && section !== SECTION.missing
      const run: Run = { level, column: index.firsts.column, section, ranking, from, to, isBackward, set }
      const { rank, passed } = seek(run, toPass)
      toPass -= passed
      if (rank !== undefined) this.#take(run, rank, size, found)
    }
    return found
  }

  /** Takes from a rank on, group for group of equal keys; what of the first group comes before the rank is passed. */
  #take(run: Run, start: number, size: number, found: number[]): void {
    const { level, ranking, from, to, isBackward, set } = run
    const isLast = level === this.#levels.length - 1
    if (isLast && !set && !isBackward) {
      ranking.list(start, Math.min(to, start + size - found.length), found)
      return
    }
    if (!set && isBackward) {
      const apart = untied(run, start, size - found.length)
      if (apart) {
        for (const place of apart) found.push(place)
        return
      }
    }
    let low = this.#groupStart(run, start)
    let high = this.#groupEnd(run, start)
    let toPass = isBackward ? count(ranking, start + 1, high, set) : count(ranking, low, start, set)
    while (found.length < size) {
      const wanted = size - found.length
      if (isLast && !set) ranking.list(low + toPass, Math.min(high, low + toPass + wanted), found)
      else {
        const group = members(ranking, low, high, set)
        const page =
          isLast || group.length === 1
            ? group.slice(toPass, toPass + wanted)
            : this.#tied(level + 1, group, toPass, wanted)
        for (const place of page) found.push(place)
      }
      toPass = 0
      const next = isBackward ? low - 1 : high
      if (next < from || next >= to) break
      low = isBackward ? this.#groupStart(run, next) : next
      high = isBackward ? next + 1 : this.#groupEnd(run, next)
    }
  }

  #tied(level: number, places: Uint32Array | number[], offset: number, size: number): number[] {
    if (places.length <= MANY || !this.#levels[level]?.index) {
      return this.#compared(level, Array.from(places), offset, size)
    }
    const set = new PlaceSet(this.#collection.places)
    for (const place of places) set.add(place)
    return this.#of(level, set, offset, size)
  }

  #groupStart({ column, ranking, section, from }: Run, rank: number): number {
    const place = ranking.at(rank)
    if (rank === from || column.compareAt(section, ranking.at(rank - 1), place) !== 0) return rank
    return Math.max(
      from,
      ranking.rankBy((other) => column.compareAt(section, other, place) < 0),
    )
  }

  #groupEnd({ column, ranking, section, to }: Run, rank: number): number {
    const place = ranking.at(rank)
    if (rank + 1 === to || column.compareAt(section, ranking.at(rank + 1), place) !== 0) return rank + 1
    return Math.min(
      to,
      ranking.rankBy((other) => column.compareAt(section, other, place) <= 0),
    )
  }

  #compare(level: number, a: number, b: number): number {
    for (let at = level; at < this.#levels.length; at++) {
      const { index, descending } = this.#levels[at] as Level
      const order = index ? this.#compareIndexed(index, descending, a, b) : this.#compareRead(at, descending, a, b)
      if (order !== 0) return order
    }
    return a - b
  }

  #compareIndexed({ firsts: { column } }: FieldIndex, descending: boolean, a: number, b: number): number {
    const section = column.section(a)
    const apart = compareSections(section, column.section(b), descending)
    if (apart !== 0) return apart
    return descending ? column.compareAt(section, b, a) : column.compareAt(section, a, b)
  }

  #compareRead(level: number, descending: boolean, a: number, b: number): number {
    const left = this.#entry(level, a)
    const right = this.#entry(level, b)
    const apart = compareSections(left.section, right.section, descending)
    if (apart !== 0) return apart
    const order = compareKeys(left.section, left.key, right.key)
    return descending ? -order : order
  }

  #entry(level: number, place: number): Entry {
    return this.#read.get(place)?.entries.get(this.#levels[level] as Level) as Entry
  }
}

/** An item with its sort keys for the levels that have no index. */
interface ReadItem {
  readonly item: Item
  readonly entries: ReadonlyMap<Level, Entry>
}

function ordersAny({ index }: Level, level: number): boolean {
  return level === 0 || !index?.isOfOneValue
}

/** Ranks of one section, of which those in the set count. */
interface Run extends Span {
  readonly level: number
  readonly column: Column
  readonly ranking: Ranking
  readonly isBackward: boolean
  readonly set: PlaceSet | undefined
}

function compareSections(a: number, b: number, descending: boolean): number {
  if (a === b) return 0
  if (a === SECTION.missing || b === SECTION.missing) return a - b
  return descending ? b - a : a - b
}

function allSpans({ firsts: { rankings } }: FieldIndex): Span[] {
  const spans: Span[] = []
  for (let section = 1; section < SECTIONS; section++) {
    const size = rankings[section]?.size ?? 0
    if (size > 0) spans.push({ section, from: 0, to: size })
  }
  return spans
}

function inOrder(spans: readonly Span[], descending: boolean): Span[] {
  return [...spans].sort(
    (a, b) => compareSections(a.section, b.section, descending) || (descending ? b.from - a.from : a.from - b.from),
  )
}

/** The rank of the nth that counts, and how many were passed; no rank when there are not so many. */
function seek(run: Run, toPass: number): { readonly rank: number | undefined; readonly passed: number } {
  const { ranking, from, to, isBackward, set } = run
  if (!set) return { rank: isBackward ? to - 1 - toPass : from + toPass, passed: toPass }
  const places = ranking.slice(from, to)
  let passed = 0
  for (let index = 0; index < places.length; index++) {
    const at = isBackward ? places.length - 1 - index : index
    if (!set.has(places[at] as number)) continue
    if (passed === toPass) return { rank: from + at, passed }
    passed++
  }
  return { rank: undefined, passed }
}

/** The places of the ranks down from one, when no two of them, nor their neighbours, have the same key. */
function untied({ column, ranking, section, from, to }: Run, start: number, size: number): number[] | undefined {
  const first = Math.max(from, start - size + 1)
  const low = Math.max(from, first - 1)
  const places = ranking.list(low, Math.min(to, start + 2))
  for (let index = 1; index < places.length; index++) {
    if (column.compareAt(section, places[index - 1] as number, places[index] as number) === 0) return undefined
  }
  return places.slice(first - low, start + 1 - low).reverse()
}

function members(ranking: Ranking, from: number, to: number, set: PlaceSet | undefined): Uint32Array {
  const places = ranking.slice(from, to)
  return set ? places.filter((place) => set.has(place)) : places
}

function count(ranking: Ranking, from: number, to: number, set: PlaceSet | undefined): number {
  return set ? members(ranking, from, to, set).length : to - from
}
