import type { Item } from '../collections/item.ts'
import type { DomainEvent, ItemId } from '../events/event.ts'
import { ChunkedList, IndexedList } from '../runtime/chunked-list.ts'
import { deletionOf } from './item-event.ts'

/**
 * The deletions of many items, and the events after them. Deletions are created on access, so that an item with an integer
 * id takes 20 to 30 bytes.
 */
export class Deletions extends IndexedList<DomainEvent> {
  /** The collections, each with the index of its first deletion. */
  readonly #collections: { readonly name: string; readonly first: number }[] = []
  readonly #ids = new ChunkedList<ItemId>()
  readonly #revisions = new ChunkedList<number>()
  readonly #positions = new ChunkedList<number>()
  readonly #last: DomainEvent[] = []

  get length(): number {
    return this.#ids.length + this.#last.length
  }

  add(collection: string, { id, revision, position }: Item): void {
    if (this.#collections.at(-1)?.name !== collection) this.#collections.push({ name: collection, first: this.length })
    this.#ids.push(id)
    this.#revisions.push(revision)
    this.#positions.push(position)
  }

  /** Adds an event after all deletions. */
  push(event: DomainEvent): void {
    this.#last.push(event)
  }

  at(index: number): DomainEvent | undefined {
    const place = index < 0 ? this.length + index : index
    const id = this.#ids.at(place)
    if (id === undefined) return this.#last[place - this.#ids.length]
    const before = { revision: this.#revisions.at(place) as number, position: this.#positions.at(place) as number }
    const collection = this.#collections.findLast(({ first }) => first <= place)
    return deletionOf(collection?.name as string, { id, ...before })
  }
}
