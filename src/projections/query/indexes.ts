import type { Collection } from '../../collections/collection.ts'
import { type Asker, Slices, type Steps } from '../../slices.ts'
import { type Answer, textOf } from './answer.ts'
import { CollectionIndexes } from './indexes/collection-indexes.ts'
import { type Found, finding } from './indexes/finding.ts'
import { planOf } from './indexes/plan.ts'
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
  /** Items of which it has the first value alone, as they have too many. */
  readonly partial: number
  readonly entries: number
  /** Estimated. */
  readonly bytes: number
  readonly uses: number
}

export interface Answered<Seen> extends Answer {
  readonly seen: Seen
}

/** Undefined: it must be begun anew, what is missing being built first. */
type Begun<Result> = { readonly result: Result } | undefined

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

  /** The page that a query asks for, as text. `look` is called in the moment that the answer is of. */
  answer<Seen>(
    collection: Collection,
    query: Query,
    look: () => Seen,
    asker?: Asker,
  ): Answered<Seen> | Promise<Answered<Seen>> {
    const found = this.find(collection, query, ({ items, total }) => ({ items, total, seen: look() }), asker)
    return found instanceof Promise
      ? found.then((one) => this.#told(one, query, asker))
      : this.#told(found, query, asker)
  }

  /** Calls with what a query finds, in the moment in which it is so. Refuses when nobody waits for it any more. */
  find<Result>(
    collection: Collection,
    query: Query,
    use: (found: Found) => Result,
    asker?: Asker,
  ): Result | Promise<Result> {
    const indexes = this.#of(collection)
    const attempt = () => this.#slices.run(() => this.#attempt(indexes, query, use), asker)
    const found = attempt()
    if (found instanceof Promise || !found) return this.#findLater(indexes, query, attempt, found)
    return found.result
  }

  list(): readonly IndexStatus[] {
    return [...this.#living()].flatMap((indexes) =>
      Array.from(indexes.kept(), ({ collection, name, index, uses }) => ({
        collection,
        path: name,
        partial: index.partial.size,
        entries: index.size,
        bytes: index.bytes,
        uses,
      })),
    )
  }

  #told<Seen>({ items, total, seen }: Found & { readonly seen: Seen }, query: Query, asker?: Asker) {
    const text = this.#slices.run(() => textOf(items, query.fields), asker)
    return text instanceof Promise ? text.then((made) => ({ text: made, total, seen })) : { text, total, seen }
  }

  *#attempt<Result>(indexes: CollectionIndexes, query: Query, use: (found: Found) => Result): Steps<Begun<Result>> {
    if (query.filters.length + query.sort.length > 0) {
      for (; indexes.areLate; yield) indexes.catchUp()
    }
    const plan = planOf(indexes, query)
    if (plan.missing.length > 0) return undefined
    for (const kept of plan.uses) {
      kept.uses++
      kept.usedAt = ++this.#uses
    }
    return yield* finding(indexes, query, plan, use)
  }

  /** After what is to be built first, and as often as it must be begun anew. */
  async #findLater<Result>(
    indexes: CollectionIndexes,
    query: Query,
    attempt: () => Begun<Result> | Promise<Begun<Result>>,
    begun?: Begun<Result> | Promise<Begun<Result>>,
  ): Promise<Result> {
    const done = indexes.need([...query.filters, ...query.sort].map(({ path }) => path))
    try {
      let found = await begun
      while (!found) {
        const { missing } = planOf(indexes, query)
        if (missing.length > 0) await indexes.build(missing)
        found = await attempt()
      }
      return found.result
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
