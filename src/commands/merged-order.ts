import type { CollectionState } from '../collections/collection.ts'
import { integerOf, keyOf } from '../collections/item.ts'
import type { DomainEvent, ItemId } from '../events/event.ts'
import { ChunkedList, type List } from '../runtime/chunked-list.ts'
import { idBytes } from '../runtime/memory.ts'
import type { Turn } from '../runtime/turns.ts'

/** The memory of an id in the lists and indexes that follow, and in the event, besides that of its text. */
const ORDERED_BYTES = 150

/**
 * The ids of a collection in the order of an edited file, followed by the items that are not in it; undefined if they
 * have that order already. `first` is the index of the collection's first event in this write.
 */
export async function mergedOrder(
  file: Iterable<ItemId>,
  collection: CollectionState,
  events: List<DomainEvent>,
  first: number,
  turn: Turn,
): Promise<readonly ItemId[] | undefined> {
  const present = await idsAfter(collection, events, first, turn)
  const indexes = new IdIndex()
  for (let index = 0; index < present.length; index++) {
    if (turn.isOver) await turn.next()
    indexes.set(present.at(index) as ItemId, index)
  }
  const ordered = new ChunkedList<ItemId>()
  const isInFile = new Uint8Array(present.length)
  for (const id of file) {
    if (turn.isOver) await turn.next()
    const index = indexes.get(id)
    if (index === undefined) continue
    isInFile[index] = 1
    ordered.push(id)
  }
  for (let index = 0; index < present.length; index++) {
    if (turn.isOver) await turn.next()
    if (isInFile[index] === 0) ordered.push(present.at(index) as ItemId)
  }
  for (let at = 0; at < present.length; at++) {
    if (turn.isOver) await turn.next()
    if (keyOf(present.at(at) as ItemId) !== keyOf(ordered.at(at) as ItemId)) return ordered.slice(0)
  }
  return undefined
}

/** The ids of a collection in its own order after the events from `first` on. */
async function idsAfter(
  collection: CollectionState,
  events: List<DomainEvent>,
  first: number,
  turn: Turn,
): Promise<List<ItemId>> {
  const deleted = new IdIndex()
  const created = new ChunkedList<ItemId>()
  for (let at = first; at < events.length; at++) {
    if (turn.isOver) await turn.next()
    const event = events.at(at) as DomainEvent
    if (event.type === 'ItemDeleted' || event.type === 'ObjectDeleted') deleted.set(event.id, at)
    else if (event.type === 'ItemCreated') created.push(event.id)
  }
  const ids = new ChunkedList<ItemId>()
  for (const { id } of collection.items()) {
    if (turn.isOver) await turn.next()
    turn.hold(ORDERED_BYTES + idBytes(id))
    if (!deleted.has(id)) ids.push(id)
  }
  for (const id of created) {
    if (turn.isOver) await turn.next()
    turn.hold(ORDERED_BYTES)
    ids.push(id)
  }
  return ids
}

const PAGE = 1024
/** Integers are in pages while these have at most SPREAD places for each id, and SPARSE. */
const SPREAD = 4
const SPARSE = 1024

/** A power of two. */
const PARTS = 256
/** Characters at the end of a key that are hashed: all of most keys. */
const HASHED_CHARACTERS = 48

/**
 * A map from ids to numbers for any number of ids, where `1` and `"1"` are the same id. An integer takes four bytes. The
 * others are in many maps, because a `Map` of a million keys blocks the event loop for 200 ms when it grows.
 */
export class IdIndex {
  /** The numbers plus one; 0 if there is none. */
  readonly #pages = new Map<number, Uint32Array>()
  readonly #parts: Map<string, number>[] = []
  #inPages = 0

  get(id: ItemId): number | undefined {
    const integer = integerOf(id)
    const paged = integer === undefined ? 0 : (this.#pages.get(Math.floor(integer / PAGE))?.[integer % PAGE] ?? 0)
    if (paged > 0) return paged - 1
    return this.#parts.length > 0 ? this.#parts[partOf(String(id))]?.get(String(id)) : undefined
  }

  has(id: ItemId): boolean {
    return this.get(id) !== undefined
  }

  set(id: ItemId, number: number): void {
    const integer = integerOf(id)
    if (integer !== undefined && integer < SPREAD * (this.#inPages + SPARSE)) {
      const at = Math.floor(integer / PAGE)
      const page = this.#pages.get(at) ?? new Uint32Array(PAGE)
      if (page[integer % PAGE] === 0) this.#inPages++
      page[integer % PAGE] = number + 1
      this.#pages.set(at, page)
      return
    }
    const part = partOf(String(id))
    this.#parts[part] ??= new Map()
    this.#parts[part].set(String(id), number)
  }
}

function partOf(key: string): number {
  let hash = key.length
  for (let at = Math.max(0, key.length - HASHED_CHARACTERS); at < key.length; at++) {
    hash = (hash * 31 + key.charCodeAt(at)) | 0
  }
  return (hash ^ (hash >>> 8)) & (PARTS - 1)
}
