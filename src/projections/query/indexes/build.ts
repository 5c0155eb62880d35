import type { Collection } from '../../../collections/collection.ts'
import type { Item } from '../../../collections/item.ts'
import type { Path } from '../../../json/paths.ts'
import type { JsonObject } from '../../../json/value.ts'
import type { Steps } from '../../../slices.ts'
import type { Entry } from './entries.ts'
import { FieldIndex } from './field-index.ts'

/**
 * Indexes being built in one pass over the items, each of which is read once. Changes may come between any two
 * steps: an item that was passed already is read again, and while the entries are sorted the changes wait.
 */
export class Build {
  readonly paths: readonly Path[]
  #indexes: readonly FieldIndex[] = []
  #cursor = -1
  #isFilling = false
  readonly #waiting = new Map<number, readonly (readonly Entry[])[] | undefined>()
  #isOutdated = false

  constructor(paths: readonly Path[]) {
    this.paths = paths
  }

  /** What it returns holds all changes up to now. */
  *steps(collection: Collection): Steps<readonly FieldIndex[]> {
    do {
      this.#isOutdated = false
      this.#waiting.clear()
      this.#indexes = this.paths.map((path) => new FieldIndex(path))
      this.#isFilling = true
      yield* this.#fill(collection)
      this.#isFilling = false
      for (const index of this.#indexes) if (!this.#isOutdated) yield* index.sort()
      for (const [place, entries] of this.#waiting) {
        if (this.#isOutdated) break
        this.#waiting.delete(place)
        for (const [at, index] of this.#indexes.entries()) {
          const these = entries?.[at]
          if (these) index.put(place, these)
          else index.remove(place)
        }
        yield
      }
    } while (this.#isOutdated)
    return this.#indexes
  }

  put(place: number, value: JsonObject): void {
    if (this.#isFilling && place > this.#cursor) return
    const entries = this.#indexes.map((index) => index.entriesOf(value))
    if (!this.#isFilling) this.#waiting.set(place, entries)
    else for (const [at, index] of this.#indexes.entries()) index.put(place, entries[at] as readonly Entry[])
  }

  removed(place: number): void {
    if (this.#isFilling && place > this.#cursor) return
    if (!this.#isFilling) this.#waiting.set(place, undefined)
    else for (const index of this.#indexes) index.remove(place)
  }

  /** All places are others now: it begins anew. */
  reordered(): void {
    this.#isOutdated = true
  }

  *#fill(collection: Collection): Steps<void> {
    for (
      this.#cursor = collection.seek(0);
      this.#cursor < collection.places;
      this.#cursor = collection.seek(this.#cursor + 1)
    ) {
      const { value } = collection.itemAt(this.#cursor) as Item
      for (const index of this.#indexes) index.put(this.#cursor, index.entriesOf(value))
      yield
      if (this.#isOutdated) return
    }
  }
}
