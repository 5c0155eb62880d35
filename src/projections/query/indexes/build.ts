import type { Collection } from '../../../collections/collection.ts'
import type { Item } from '../../../collections/item.ts'
import { parseSteps } from '../../../json/parse-steps.ts'
import type { Path } from '../../../json/paths.ts'
import type { JsonObject } from '../../../json/value.ts'
import type { Steps } from '../../../slices.ts'
import { entriesOf } from './entries.ts'
import { FieldIndex } from './field-index.ts'

/**
 * Puts what some indexes are to hold of the item at a place into them, in steps; of no item, nothing. False when the item
 * was replaced meanwhile: then it is to be done again.
 */
export function* putting(indexes: Iterable<FieldIndex>, collection: Collection, place: number): Steps<boolean> {
  const item = collection.itemAt(place)
  const value = item && ((yield* parseSteps(item.text)) as JsonObject)
  for (const index of indexes) {
    const entries = value && (yield* entriesOf(value, index.path))
    if (!isStill(collection, place, item)) return false
    if (entries) index.put(place, entries)
    else index.remove(place)
    if (entries && (entries.others?.length ?? MANY) >= MANY) yield
  }
  return isStill(collection, place, item)
}

/** Whether the item that was read at a place is there yet. */
export function isStill(collection: Collection, place: number, item: Item | undefined): boolean {
  return collection.positionAt(place) === item?.position
}

export function firstOf(places: ReadonlySet<number>): number | undefined {
  for (const place of places) return place
  return undefined
}

/** Characters of changed items that are read in a step, each item counted with so many more. */
const STEP = 65_536
const COST = 4096
/** To put so many entries into an index is a step of its own. */
const MANY = 100

/**
 * Indexes being built in one pass over the items, each of which is read once. Items that change meanwhile, once they
 * were passed, are read again at the end.
 */
export class Build {
  readonly paths: readonly Path[]
  #indexes: readonly FieldIndex[] = []
  #cursor = -1
  readonly #changed = new Set<number>()
  #isOutdated = false

  constructor(paths: readonly Path[]) {
    this.paths = paths
  }

  /** What it returns holds all changes up to now. */
  *steps(collection: Collection): Steps<readonly FieldIndex[]> {
    do {
      this.#isOutdated = false
      this.#changed.clear()
      this.#indexes = this.paths.map((path) => new FieldIndex(path))
      yield* this.#fill(collection)
      for (const index of this.#indexes) if (!this.#isOutdated) yield* index.sort()
      // Several in a step, so that it comes to an end though more come.
      for (let done = 0, place = firstOf(this.#changed); place !== undefined; place = firstOf(this.#changed)) {
        if (this.#isOutdated) break
        done += COST + (collection.itemAt(place)?.text.length ?? 0)
        if (yield* putting(this.#indexes, collection, place)) this.#changed.delete(place)
        if (done < STEP) continue
        done = 0
        yield
      }
    } while (this.#isOutdated)
    return this.#indexes
  }

  /** There is another item at the place, or none. */
  changed(place: number): void {
    if (place <= this.#cursor) this.#changed.add(place)
  }

  /** All places are others now: it begins anew. */
  reordered(): void {
    this.#isOutdated = true
  }

  *#fill(collection: Collection): Steps<void> {
    this.#cursor = collection.seek(0)
    while (this.#cursor < collection.places) {
      yield* putting(this.#indexes, collection, this.#cursor)
      yield
      if (this.#isOutdated) return
      this.#cursor = collection.seek(this.#cursor + 1)
    }
    this.#cursor = Number.POSITIVE_INFINITY
  }
}
