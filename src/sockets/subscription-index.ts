import { orderKey } from '../json/order-key.ts'
import { formatPath, type Path, valuesAt } from '../json/paths.ts'
import type { JsonObject } from '../json/value.ts'
import type { Filter } from '../query/filter.ts'
import type { Turn } from '../runtime/turns.ts'
import type { SubscriptionFilter } from './subscription-filter.ts'

interface OfPath<Subscriber> {
  readonly path: Path
  /** By order key. */
  readonly values: Map<string, Set<Subscriber>>
  /** Length of the longest key added so far. */
  most: number
}

/**
 * Finds the subscriptions that a changed item may concern: by the value of one equality filter of theirs, or, without
 * such a filter, by collection only.
 */
export class SubscriptionIndex<Subscriber> {
  readonly #byPath = new Map<string, OfPath<Subscriber>>()
  readonly #others = new Set<Subscriber>()

  get isEmpty(): boolean {
    return this.#others.size === 0 && this.#byPath.size === 0
  }

  add(subscriber: Subscriber, watch: SubscriptionFilter): void {
    const filter = mostTelling(watch)
    if (!filter) {
      this.#others.add(subscriber)
      return
    }
    const name = formatPath(filter.path)
    const of = this.#byPath.get(name) ?? { path: filter.path, values: new Map<string, Set<Subscriber>>(), most: 0 }
    this.#byPath.set(name, of)
    of.most = Math.max(of.most, filter.keys.most)
    for (const key of filter.keys.all) {
      const subscribers = of.values.get(key)
      if (subscribers) subscribers.add(subscriber)
      else of.values.set(key, new Set([subscriber]))
    }
  }

  remove(subscriber: Subscriber, watch: SubscriptionFilter): void {
    this.#others.delete(subscriber)
    const filter = mostTelling(watch)
    const name = filter ? formatPath(filter.path) : ''
    const values = this.#byPath.get(name)?.values
    if (!filter || !values) return
    for (const key of filter.keys.all) {
      const subscribers = values.get(key)
      subscribers?.delete(subscriber)
      if (subscribers?.size === 0) values.delete(key)
    }
    if (values.size === 0) this.#byPath.delete(name)
  }

  /** The subscriptions that existed when the call began. */
  async concernedBy(item: JsonObject, turn: Turn): Promise<Set<Subscriber>> {
    const found = new Set(this.#others)
    for (const { path, values, most } of [...this.#byPath.values()]) {
      if (turn.isOver) await turn.next()
      for (const value of valuesAt(item, path)) {
        const subscribers = values.get(orderKey(value, most))
        if (subscribers) for (const one of subscribers) found.add(one)
      }
    }
    return found
  }
}

/** The equality filter with the fewest values; undefined if there is none. Event times have keys of their own. */
function mostTelling({ filters }: SubscriptionFilter): Filter | undefined {
  let found: Filter | undefined
  for (const filter of filters) {
    if (
      filter.operator === 'eq' &&
      !filter.isTime &&
      filter.keys.all.size < (found?.keys.all.size ?? Number.POSITIVE_INFINITY)
    )
      found = filter
  }
  return found
}
