import { Collection, evolve } from '../collections/collection.ts'
import type { Picture, Snapshot } from '../collections/snapshot.ts'
import type { Position } from '../events/event.ts'
import { type Journal, lastPosition, type Recorded } from '../events/journal.ts'

/** The collections as GET reads them: the fold of every durable event. */
export class Views {
  readonly #collections = new Map<string, Collection>()
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

  apply(recorded: Recorded): void {
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

/** The items as they were right after an event, and of what came later only what `later` says. */
export async function snapshotAt(
  journal: Pick<Journal, 'read'>,
  position: Position,
  later: (recorded: Recorded) => boolean,
): Promise<Snapshot> {
  const past = new Views()
  for await (const recorded of journal.read(1, position)) past.apply(recorded)
  for await (const recorded of journal.read(position + 1)) if (later(recorded)) past.apply(recorded)
  return past.snapshot()
}
