import type { TestContext } from 'node:test'
import type { Collection } from '../../src/collections/collection.ts'
import { type Item, keyOf } from '../../src/collections/item.ts'
import { runsOf } from '../../src/commands/expiry.ts'
import type { DomainEvent, ItemId, Position } from '../../src/events/event.ts'
import type { Journal, Recorded } from '../../src/events/journal.ts'
import { Document } from '../../src/json/document.ts'
import type { JsonObject } from '../../src/json/value.ts'
import { History } from '../../src/projections/history.ts'
import { Views, type ViewsOptions } from '../../src/projections/views.ts'
import type { Store } from '../../src/store/store.ts'
import { eachAt } from './journal.ts'

export type WithId = JsonObject & { readonly id: ItemId }

/** A journal that is only read, by this function. */
export function readBy(read: Journal['read'], head = (): Position => 0): Pick<Journal, 'head' | 'read' | 'at'> {
  return {
    get head() {
      return head()
    },
    read,
    at: eachAt(read),
  }
}

function readFrom(records: readonly Recorded[]) {
  return readBy(
    async function* (from, to = records.length) {
      yield* records.slice(from - 1, to)
    },
    () => records.length,
  )
}

/** A write of these events, as a journal records it. */
export function recordOf(position: Position, events: readonly DomainEvent[], timeMs = 0): Recorded {
  return { position, time: new Date(timeMs).toISOString(), actor: 'ada', requestId: 'r', events }
}

/** Makes views of what a journal recorded; readers see it when this returns, however large it is. */
export function project(views: Views, ...writes: readonly Recorded[]): void {
  for (const recorded of writes) views.replay(recorded)
  views.replayed()
}

/** The collections that events make, the first having position 1. */
export function viewsOf(events: readonly DomainEvent[], options?: ViewsOptions): Views {
  const views = Views.temporary(undefined, options)
  project(views, ...events.map((event, index) => recordOf(index + 1, [event])))
  return views
}

/** A collection whose items a test writes one by one; each write is an event with the revision and position that it has to have. */
export class CollectionWriter {
  readonly collection: Collection
  readonly views: Views
  /** The records written so far. */
  readonly records: Recorded[] = []
  readonly journal = readFrom(this.records)
  readonly #entries = new Map<
    string,
    { readonly revision: number; readonly position: Position; readonly isThere: boolean }
  >()
  #head: Position = 0

  constructor(name = 'things', views = Views.temporary()) {
    this.views = views
    project(this.views, this.#write({ type: 'CollectionCreated', collection: name }))
    this.collection = this.views.any(name) as Collection
  }

  /** Creates or replaces items. */
  put(...items: readonly WithId[]): void {
    this.putAll(items)
  }

  putAll(items: Iterable<WithId>): void {
    for (const item of items) {
      const type = this.#entries.get(keyOf(item.id))?.isThere ? 'ItemReplaced' : 'ItemCreated'
      this.views.replay(this.#write({ type, ...this.#stamp(item.id, true), item: Document.of(item) }))
    }
    this.views.replayed()
  }

  remove(id: ItemId): void {
    project(this.views, this.#write({ type: 'ItemDeleted', ...this.#stamp(id, false) }))
  }

  /** Lets those of the items expire that exist. */
  expire(...ids: readonly ItemId[]): void {
    const expired = new Map(
      ids.flatMap((id) => {
        const item = this.collection.item(keyOf(id))
        const place = item && (this.collection.placeOf(item.id) as number)
        if (!item || place === undefined) return []
        return [[place, { id: item.id, place, revision: item.revision, position: item.position }] as const]
      }),
    )
    const items = [...expired.values()].sort((a, b) => a.place - b.place)
    for (const { id } of items) this.#stamp(id, false)
    const { name } = this.collection
    project(this.views, this.#write({ type: 'ItemsExpired', collection: name, rule: '90d', runs: runsOf(items) }))
  }

  order(...ids: readonly ItemId[]): void {
    project(this.views, this.#write({ type: 'CollectionOrdered', collection: this.collection.name, ids }))
  }

  resetIds(nextId: number): void {
    project(this.views, this.#write({ type: 'IdsReset', collection: this.collection.name, nextId }))
  }

  #stamp(id: ItemId, isThere: boolean) {
    const before = this.#entries.get(keyOf(id))
    const stamp = {
      collection: this.collection.name,
      id,
      revision: (before?.revision ?? 0) + 1,
      prior: before?.position ?? 0,
    }
    this.#entries.set(keyOf(id), { revision: stamp.revision, position: this.#head + 1, isThere })
    return stamp
  }

  #write(event: DomainEvent): Recorded {
    const recorded = recordOf(++this.#head, [event])
    this.records.push(recorded)
    return recorded
  }
}

/** The items from the nth on, the first being 0. */
export function sliceOf(collection: Collection, offset: number, size: number): Item[] {
  const held = collection.held()
  const found: Item[] = []
  for (let place = held.nth(offset); found.length < size && place < held.places; place = held.seek(place + 1)) {
    found.push(held.itemAt(place) as Item)
  }
  held.release()
  return found
}

/** A collection of these items, their ids being 0, 1, 2… where they name none. */
export function collectionOf(bodies: readonly JsonObject[], options?: ViewsOptions): CollectionWriter {
  const writer = new CollectionWriter('things', Views.temporary(undefined, options))
  writer.putAll(bodies.map((body, id) => ({ id, ...body })))
  return writer
}

/** A disk that is full for the next `transactions` of a store. The count continues below 0. */
export function fullDisk(t: TestContext, store: Store): { transactions: number } {
  const transaction = store.transaction.bind(store)
  const full = { transactions: 0 }
  t.mock.method(
    store,
    'transaction',
    <Result>(work: () => Result): Result =>
      transaction(() => {
        const result = work()
        if (full.transactions-- > 0) throw Object.assign(new Error('no room'), { code: 'ENOSPC' })
        return result
      }),
  )
  return full
}

/** A history that is stored with the views, as that of an engine. */
export function storedHistory(views: Views): History {
  const history = new History(views)
  views.storeWith(history)
  return history
}

/** The items of every collection, in order, parsed. */
export type Snapshot = ReadonlyMap<string, readonly JsonObject[]>

export function snapshotOf(views: Pick<Views, 'names' | 'find'>): Snapshot {
  return new Map(views.names().map((name) => [name, Array.from(views.find(name)?.items() ?? [], (item) => item.value)]))
}
