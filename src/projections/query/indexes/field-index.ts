import type { Path } from '../../../json/paths.ts'
import type { Steps } from '../../../slices.ts'
import { Column } from './column.ts'
import { type Entry, type ItemEntries, SECTION, SECTIONS } from './entries.ts'
import { Ranking } from './ranking.ts'
import { sorted } from './sorting.ts'

/** When items have more values than this on average, those of an item that has more are left out. */
const MANY_VALUES = 8
/** Texts that are looked up while an index is filled, so that each is held once. */
const NOTED_TEXTS = 50_000
/** A longer one is not: V8 hashes a very long text by its length alone. */
const NOTED_LENGTH = 1000

/** The entries of one kind in order: of each section the ranks of those that are in it. */
export interface Ranks {
  readonly column: Column
  readonly rankings: readonly (Ranking | undefined)[]
}

class Entries implements Ranks {
  readonly column = new Column()
  readonly rankings = new Array<Ranking | undefined>(SECTIONS).fill(undefined)
  textBytes = 0
  /** While it is filled: each text once. */
  #texts: Map<string, Entry> | undefined = new Map()

  /** Only takes note, until all are sorted. */
  note(place: number, entry: Entry): void {
    this.column.set(place, entry.section === SECTION.text ? this.#once(entry) : entry)
  }

  ranking(section: number): Ranking {
    const known = this.rankings[section]
    if (known) return known
    const { column } = this
    const made = new Ranking((a, b) => column.compareAt(section, a, b) || a - b)
    this.rankings[section] = made
    return made
  }

  insert(place: number, entry: Entry): void {
    this.column.set(place, entry)
    const ranking = this.ranking(entry.section)
    const rank = ranking.insert(place)
    if (typeof entry.key !== 'string') return
    const same = this.#neighbour(ranking, rank, entry.key)
    if (same === undefined) this.textBytes += bytesOf(entry.key)
    else this.column.set(place, { section: entry.section, key: same })
  }

  remove(place: number): void {
    const section = this.column.section(place)
    if (section === 0) return
    const key = this.column.key(place)
    const ranking = this.ranking(section)
    const rank = ranking.remove(place)
    if (typeof key === 'string' && this.#neighbour(ranking, rank, key, 0) === undefined) {
      this.textBytes -= bytesOf(key)
    }
    this.column.remove(place)
  }

  *sort(): Steps<void> {
    this.#texts = undefined
    for (const [section, count] of this.column.counts.entries()) {
      if (section === 0 || count === 0) continue
      const places = yield* sorted(this.column, section)
      yield* this.ranking(section).fill(places)
      if (section < SECTION.text || section === SECTION.missing) continue
      let before: string | undefined
      for (const [index, place] of places.entries()) {
        if (index % (this.column.hasLongKeys ? 64 : 4096) === 0) yield
        const text = this.column.key(place) as string
        if (text === before) this.column.set(place, { section, key: before })
        else this.textBytes += bytesOf(text)
        before = this.column.key(place) as string
      }
    }
  }

  get bytes(): number {
    return this.column.bytes + this.textBytes + this.rankings.reduce((sum, ranking) => sum + (ranking?.bytes ?? 0), 0)
  }

  get size(): number {
    return this.rankings.reduce((sum, ranking) => sum + (ranking?.size ?? 0), 0)
  }

  #once(entry: Entry): Entry {
    if ((entry.key as string).length > NOTED_LENGTH) return entry
    const known = this.#texts?.get(entry.key as string)
    if (!known && this.#texts && this.#texts.size < NOTED_TEXTS) this.#texts.set(entry.key as string, entry)
    return known ?? entry
  }

  /** The same text, of a place beside this rank: to be held once. */
  #neighbour(ranking: Ranking, rank: number, text: string, after = 1): string | undefined {
    for (const near of [rank - 1, rank + after]) {
      const other = near >= 0 && near < ranking.size ? this.column.key(ranking.at(near)) : undefined
      if (other === text) return other
    }
    return undefined
  }
}

function bytesOf(text: string): number {
  return 24 + text.length
}

/**
 * The values of one field of all items of a collection, in the order of all values, ties in the collection's order.
 * What an item is sorted by, its first value, has its rank among all items. Where a path leads through arrays, the
 * other values stand apart, each at a slot of its own.
 */
export class FieldIndex {
  readonly path: Path
  readonly firsts = new Entries()
  others: Entries | undefined
  /** The slots of a place. */
  readonly #slots = new Map<number, readonly number[]>()
  /** The places of the slots. */
  readonly #placeOf: number[] = []
  readonly #free: number[] = []
  readonly #partial = new Set<number>()
  #isSorted = false

  constructor(path: Path) {
    this.path = path
  }

  /** Places of items of which it has the first value alone, as they have too many: it orders them, and cannot find them. */
  get partial(): ReadonlySet<number> {
    return this.#partial
  }

  get size(): number {
    return this.firsts.size + (this.others?.size ?? 0)
  }

  get bytes(): number {
    return (
      this.firsts.bytes +
      (this.others ? this.others.bytes + this.others.column.places * 8 : 0) +
      this.#slots.size * 100 +
      this.#partial.size * 40
    )
  }

  /** All items are equal by it, so that it orders none. */
  get isOfOneValue(): boolean {
    const { column, rankings } = this.firsts
    const section = column.counts.findIndex((count) => count > 0)
    const ranking = rankings[section]
    if (!ranking || column.counts.some((count, other) => count > 0 && other !== section)) return false
    return column.compareAt(section, ranking.at(0), ranking.at(ranking.size - 1)) === 0
  }

  /** Before it is sorted this only takes note. */
  put(place: number, { first, others }: ItemEntries): void {
    this.#removeOthers(place)
    if (!this.#isSorted) this.firsts.note(place, first)
    else if (!this.#isSame(place, first)) {
      this.firsts.remove(place)
      this.firsts.insert(place, first)
    }
    if (!others || (others.length > MANY_VALUES && this.#hasManyOthers)) this.#partial.add(place)
    else if (others.length > 0) this.#putOthers(place, others)
  }

  remove(place: number): void {
    this.#removeOthers(place)
    if (this.#isSorted) this.firsts.remove(place)
    else this.firsts.column.remove(place)
  }

  /** From now on ranks are known. No change may come while it sorts. */
  *sort(): Steps<void> {
    yield* this.firsts.sort()
    if (this.others) yield* this.others.sort()
    this.#isSorted = true
  }

  /** The place of a slot among the others. */
  placeOf(slot: number): number {
    return this.#placeOf[slot] as number
  }

  slotsOf(place: number): readonly number[] | undefined {
    return this.#slots.get(place)
  }

  #isSame(place: number, { section, key }: Entry): boolean {
    const { column } = this.firsts
    return column.section(place) === section && column.compare(place, section, key) === 0
  }

  get #hasManyOthers(): boolean {
    const items = this.firsts.column.counts.reduce((sum, count) => sum + count, 0)
    return this.#placeOf.length - this.#free.length > 10_000 + items * MANY_VALUES
  }

  #putOthers(place: number, entries: readonly Entry[]): void {
    this.others ??= new Entries()
    const { others } = this
    const slots = entries.map((entry) => {
      const slot = this.#free.pop() ?? this.#placeOf.length
      this.#placeOf[slot] = place
      if (this.#isSorted) others.insert(slot, entry)
      else others.note(slot, entry)
      return slot
    })
    this.#slots.set(place, slots)
  }

  #removeOthers(place: number): void {
    this.#partial.delete(place)
    const slots = this.#slots.get(place)
    if (!slots) return
    this.#slots.delete(place)
    for (const slot of slots) {
      if (this.#isSorted) this.others?.remove(slot)
      else this.others?.column.remove(slot)
      this.#free.push(slot)
    }
  }
}
