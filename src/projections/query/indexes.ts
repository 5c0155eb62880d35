import type { Collection } from '../../collections/collection.ts'
import type { Path } from '../../json/paths.ts'
import { type Answer, textOf } from './answer.ts'
import { CollectionIndexes } from './indexes/collection-indexes.ts'
import { type Found, finding, missingPaths } from './indexes/finding.ts'
import { Slices } from './indexes/slices.ts'
import type { Query } from './query.ts'

export interface IndexesOptions {
  /** That all indexes together may take. */
  readonly bytes: number
  readonly slices?: Slices
}

/** An index as others may see it. */
export interface IndexStatus {
  readonly collection: string
  /** Dotted. */
  readonly path: string
  /** `all`: every value that the path leads to; `first`: the first alone, as the items have too many. */
  readonly kind: 'all' | 'first'
  readonly entries: number
  /** Estimated. */
  readonly bytes: number
  readonly uses: number
}

/** Each costs every write something. */
const MOST_INDEXES = 64

/**
 * Answers queries by indexes that build themselves when a field is first asked for, and that follow every change
 * from then on. An answer shows one state of the collection, however long it takes; nothing that it does holds the
 * event loop for long. What is used least is dropped when there is no room.
 */
export class Indexes {
  readonly #options: IndexesOptions
  readonly #slices: Slices
  readonly #byCollection = new WeakMap<Collection, CollectionIndexes>()
  /** Past states come and go, and their indexes with them. */
  readonly #all = new Set<WeakRef<CollectionIndexes>>()
  #uses = 0

  constructor(options: IndexesOptions) {
    this.#options = options
    this.#slices = options.slices ?? new Slices()
  }

  /**
   * The page that a query asks for, as text. `look` is called in the moment that the answer is of.
   */
  async answer<Seen>(
    collection: Collection,
    query: Query,
    look: () => Seen,
  ): Promise<Answer & { readonly seen: Seen }> {
    const { items, total, seen } = await this.find(collection, query, (found) => ({ ...found, seen: look() }))
    return { text: await this.#slices.run(textOf(items, query.fields)), total, seen }
  }

  /** Calls with what a query finds, in the moment in which it is so. */
  find<Result>(collection: Collection, query: Query, use: (found: Found) => Result): Result | Promise<Result> {
    const indexes = this.#of(collection)
    if (missingPaths(indexes, query).length > 0) return this.#findLater(indexes, query, use)
    this.#note(indexes, query)
    const found = this.#slices.run(finding(indexes, query, use))
    if (found instanceof Promise) return this.#findLater(indexes, query, use, found)
    return found ? found.result : this.find(collection, query, use)
  }

  list(): readonly IndexStatus[] {
    return [...this.#living()].flatMap((indexes) =>
      Array.from(indexes.kept(), ({ collection, name, index, uses }) => ({
        collection,
        path: name,
        kind: index.isWhole ? ('all' as const) : ('first' as const),
        entries: index.size,
        bytes: index.bytes,
        uses,
      })),
    )
  }

  async #findLater<Result>(
    indexes: CollectionIndexes,
    query: Query,
    use: (found: Found) => Result,
    begun?: Promise<{ readonly result: Result } | undefined>,
  ): Promise<Result> {
    const done = indexes.need([...query.filters, ...query.sort].map(({ path }) => path))
    try {
      const first = await begun
      if (first) return first.result
      for (;;) {
        for (let missing = missingPaths(indexes, query); missing.length > 0; missing = missingPaths(indexes, query)) {
          await indexes.build(missing)
        }
        this.#note(indexes, query)
        const found = await this.#slices.run(finding(indexes, query, use))
        if (found) return found.result
      }
    } finally {
      done()
      this.#dropLeastUseful()
    }
  }

  #of(collection: Collection): CollectionIndexes {
    const known = this.#byCollection.get(collection)
    if (known) return known
    const made = new CollectionIndexes(collection, this.#slices)
    this.#byCollection.set(collection, made)
    this.#all.add(new WeakRef(made))
    return made
  }

  #note(indexes: CollectionIndexes, { filters, sort }: Query): void {
    for (const { path } of filters) this.#use(indexes, path)
    for (const { path } of sort) this.#use(indexes, path)
  }

  #use(indexes: CollectionIndexes, path: Path): void {
    const kept = indexes.get(path)
    if (!kept) return
    kept.uses++
    kept.usedAt = ++this.#uses
  }

  #dropLeastUseful(): void {
    const all = [...this.#living()].flatMap((indexes) => Array.from(indexes.kept(), (kept) => ({ indexes, kept })))
    all.sort((a, b) => a.kept.usedAt - b.kept.usedAt)
    let bytes = all.reduce((sum, { kept }) => sum + kept.index.bytes, 0)
    let count = all.length
    for (const { indexes, kept } of all) {
      if (bytes <= this.#options.bytes && count <= MOST_INDEXES) return
      if (!indexes.canDrop(kept)) continue
      bytes -= kept.index.bytes
      count--
      indexes.drop(kept)
    }
  }

  *#living(): Generator<CollectionIndexes> {
    for (const reference of this.#all) {
      const indexes = reference.deref()
      if (indexes) yield indexes
      else this.#all.delete(reference)
    }
  }
}

export type { Found }
