import type { Item } from '../collections/item.ts'
import type { DomainEvent, ItemId } from '../events/event.ts'
import { ChunkedList, IndexedList, type List } from '../runtime/chunked-list.ts'
import { stamp } from './item-event.ts'

export class JoinedLists<Thing> extends IndexedList<Thing> {
  readonly #lists: readonly List<Thing>[]
  readonly length: number

  constructor(lists: readonly List<Thing>[]) {
    super()
    this.#lists = lists
    this.length = lists.reduce((length, list) => length + list.length, 0)
  }

  at(index: number): Thing | undefined {
    let place = index < 0 ? this.length + index : index
    for (const list of this.#lists) {
      if (place < list.length) return list.at(place)
      place -= list.length
    }
    return undefined
  }
}

/**
 * The deletions of many items, optionally followed by the removal of their collection. Events are created on access, so
 * that an item with an integer id takes 20 to 30 bytes.
 */
export class Deletions extends IndexedList<DomainEvent> {
  readonly #collection: string
  readonly #ids = new ChunkedList<ItemId>()
  readonly #revisions = new ChunkedList<number>()
  readonly #positions = new ChunkedList<number>()
  #isRemoval = false

  constructor(collection: string) {
    super()
    this.#collection = collection
  }

  get length(): number {
    return this.#ids.length + (this.#isRemoval ? 1 : 0)
  }

  add({ id, revision, position }: Item): void {
    this.#ids.push(id)
    this.#revisions.push(revision)
    this.#positions.push(position)
  }

  removeCollection(): void {
    this.#isRemoval = true
  }

  at(index: number): DomainEvent | undefined {
    const place = index < 0 ? this.length + index : index
    if (this.#isRemoval && place === this.#ids.length)
      return { type: 'CollectionRemoved', collection: this.#collection }
    const id = this.#ids.at(place)
    if (id === undefined) return undefined
    const before = { revision: this.#revisions.at(place) as number, position: this.#positions.at(place) as number }
    return { type: 'ItemDeleted', ...stamp(this.#collection, id as ItemId, before) }
  }
}
