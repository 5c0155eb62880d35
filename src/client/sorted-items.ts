import { comparingKeys, type Sort, sortKeys } from '../json/order.ts'
import { orderKey } from '../json/order-key.ts'
import { formatPath } from '../json/paths.ts'
import { equal, type JsonObject, type JsonValue } from '../json/value.ts'

type ItemId = string | number

export interface Entry<T> {
  readonly key: string
  /** The item with the selected fields. */
  readonly item: T
  /** Its sort keys, then those of the id, as items that compare as equal are ordered by id. */
  readonly keys: readonly string[]
}

/** Items by key and in the order of a query. */
export class SortedItems<T> {
  #sort: readonly Sort[]
  #compareKeys: ReturnType<typeof comparingKeys>
  readonly #idOf: (item: JsonObject) => ItemId
  readonly #shown: (item: JsonObject) => T
  readonly #byKey = new Map<string, Entry<T>>()
  #entries: Entry<T>[] = []

  constructor(sort: readonly Sort[], idOf: (item: JsonObject) => ItemId, shown: (item: JsonObject) => T) {
    this.#sort = sort
    this.#compareKeys = comparingKeys(sort)
    this.#idOf = idOf
    this.#shown = shown
  }

  get size(): number {
    return this.#entries.length
  }

  get(key: string): T | undefined {
    return this.#byKey.get(key)?.item
  }

  slice(from?: number, to?: number): readonly Entry<T>[] {
    return this.#entries.slice(from, to)
  }

  /** The field of the event time, whose values are compared as instants. To be set before the items are replaced. */
  set eventTime(field: string | undefined) {
    this.#sort = this.#sort.map((sort) => ({ ...sort, isTime: formatPath(sort.path) === field }))
    this.#compareKeys = comparingKeys(this.#sort)
  }

  /** Replaces all items. An item with equal content stays the same object. */
  replace(items: readonly JsonObject[]): void {
    const before = new Map(this.#byKey)
    this.#byKey.clear()
    for (const one of items) {
      const entry = this.#entryOf(this.#idOf(one), one)
      const item = before.get(entry.key)?.item
      const isSame = equal(item as JsonValue | undefined, entry.item as JsonValue)
      this.#byKey.set(entry.key, isSame ? { ...entry, item: item as T } : entry)
    }
    this.#entries = [...this.#byKey.values()].sort(this.#compare)
  }

  put(id: ItemId, item: JsonObject): void {
    const entry = this.#entryOf(id, item)
    this.remove(entry.key)
    this.#byKey.set(entry.key, entry)
    this.#entries.splice(this.#indexOf(entry), 0, entry)
  }

  remove(key: string): void {
    const entry = this.#byKey.get(key)
    if (!entry) return
    this.#byKey.delete(key)
    this.#entries.splice(this.#indexOf(entry), 1)
  }

  #entryOf(id: ItemId, item: JsonObject): Entry<T> {
    const key = String(id)
    return { key, item: this.#shown(item), keys: [...sortKeys(item, this.#sort), orderKey(id), key] }
  }

  /** The index of an entry, or the one to insert it at. */
  #indexOf(entry: Entry<T>): number {
    let low = 0
    let high = this.#entries.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.#compare(this.#entries[middle] as Entry<T>, entry) < 0) low = middle + 1
      else high = middle
    }
    return low
  }

  readonly #compare = (a: Entry<T>, b: Entry<T>): number => this.#compareKeys(a.keys, b.keys)
}
