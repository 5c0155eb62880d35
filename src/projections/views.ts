import { Collection, evolve } from '../collections/collection.ts'
import { keyOf } from '../collections/item.ts'
import type { Picture, Snapshot } from '../collections/snapshot.ts'
import type { ItemId, Position } from '../events/event.ts'
import { type Journal, lastPosition, type Recorded } from '../events/journal.ts'
import { Slices, type Steps } from '../slices.ts'

/** What a large write makes of the collections that it concerns. */
interface Prepared {
  readonly recorded: Recorded
  readonly collections: ReadonlyMap<string, Collection>
  /** Of its last event that creates or removes a collection, 0 for none. */
  readonly namesPosition: Position
}

/** The collections as GET reads them: the fold of every durable event. */
export class Views {
  readonly #collections = new Map<string, Collection>()
  readonly #slices = new Slices()
  #prepared: Prepared | undefined
  #position: Position = 0
  /** Of the last event that created or removed a collection. */
  #namesPosition: Position = 0

  /** Of the last event that the views hold. */
  get position(): Position {
    return this.#position
  }

  get namesPosition(): Position {
    return this.#namesPosition
  }

  /** Folds a large write into copies of its collections, in slices; `apply` then puts them in place. */
  async prepare(recorded: Recorded): Promise<void> {
    this.#prepared = await this.#slices.run(() => this.#folding(recorded))
  }

  *#folding(recorded: Recorded): Steps<Prepared> {
    const copies = new Map<string, Collection>()
    let namesPosition = 0
    let position = recorded.position
    for (const event of recorded.events) {
      let copy = copies.get(event.collection)
      if (!copy) {
        const now = this.#collections.get(event.collection)
        copy = now?.copy() ?? new Collection(event.collection)
        copies.set(event.collection, copy)
      }
      if (event.type === 'CollectionCreated' || event.type === 'CollectionRemoved') namesPosition = position
      if (event.type === 'CollectionOrdered') {
        copy.position = position++
        yield* copy.ordering(keysOf(event.ids))
      } else evolve(copy, event, position++)
      yield
    }
    return { recorded, collections: copies, namesPosition }
  }

  apply(recorded: Recorded): void {
    const prepared = this.#prepared
    this.#prepared = undefined
    if (prepared?.recorded === recorded) {
      for (const [name, copy] of prepared.collections) this.made(name).become(copy)
      this.#namesPosition = Math.max(this.#namesPosition, prepared.namesPosition)
      this.#position = lastPosition(recorded)
      return
    }
    let position = recorded.position
    for (const event of recorded.events) {
      const collection = this.made(event.collection)
      if (event.type === 'CollectionCreated' || event.type === 'CollectionRemoved') this.#namesPosition = position
      evolve(collection, event, position++)
    }
    this.#position = lastPosition(recorded)
  }

  /** The collection, which is made when there never was one. */
  made(name: string): Collection {
    let collection = this.#collections.get(name)
    if (!collection) {
      collection = new Collection(name)
      this.#collections.set(name, collection)
    }
    return collection
  }

  /** What was put into the collections is the state right after an event; `names` is the names' position. */
  goOnFrom(position: Position, names: Position): void {
    this.#position = position
    this.#namesPosition = names
  }

  clear(): void {
    this.#collections.clear()
    this.goOnFrom(0, 0)
  }

  /** The collections in the order of their first creation, with those that are no more. */
  ever(): Iterable<Collection> {
    return this.#collections.values()
  }

  /** The collection, also when it was removed: its ids are remembered. */
  readonly any = (name: string): Collection | undefined => this.#collections.get(name)

  /** The collection, unless there is none or no longer. */
  find(name: string): Collection | undefined {
    const collection = this.#collections.get(name)
    return collection?.exists ? collection : undefined
  }

  /** In the order of their first creation. */
  names(): string[] {
    return Array.from(this.#existing(), (collection) => collection.name)
  }

  /** The same, with those that are no more. */
  namesEver(): string[] {
    return [...this.#collections.keys()]
  }

  /** How many collections there are, and items in all of them. */
  counts(): { readonly collections: number; readonly items: number } {
    let collections = 0
    let items = 0
    for (const { size } of this.#existing()) {
      collections++
      items += size
    }
    return { collections, items }
  }

  /** The items of now, to be gone through; later events leave it as it is. */
  picture(): Picture {
    return new Map(Array.from(this.#existing(), (collection) => [collection.name, collection.snapshot()]))
  }

  /** The collections of now, by name; later events leave them as they are. */
  copies(): ReadonlyMap<string, Collection> {
    return new Map(Array.from(this.#existing(), (collection) => [collection.name, collection.copy()]))
  }

  /** The items of now; later events leave it as it is. */
  snapshot(): Snapshot {
    return new Map(
      Array.from(this.#existing(), (collection) => [
        collection.name,
        Array.from(collection.items(), (item) => item.value),
      ]),
    )
  }

  *#existing(): Generator<Collection> {
    for (const collection of this.#collections.values()) if (collection.exists) yield collection
  }
}

function* keysOf(ids: readonly ItemId[]): Generator<string> {
  for (const id of ids) yield keyOf(id)
}

/** The collections as they were right after an event, and of what came later, up to another, only what `later` says. */
export async function collectionsAt(
  journal: Pick<Journal, 'read'>,
  position: Position,
  until: Position,
  later: (recorded: Recorded) => boolean,
): Promise<ReadonlyMap<string, Collection>> {
  const past = new Views()
  for await (const recorded of journal.read(1, position)) past.apply(recorded)
  if (position >= until) return past.copies()
  for await (const recorded of journal.read(position + 1, until)) if (later(recorded)) past.apply(recorded)
  return past.copies()
}
