import { orderKey } from '../json/order-key.ts'
import { formatPath, type Path, valuesAt } from '../json/paths.ts'
import type { JsonObject } from '../json/value.ts'
import type { Filter } from '../query/filter.ts'
import type { Turn } from '../runtime/turns.ts'
import type { SubscriptionFilter } from './subscribe-request.ts'

interface PathIndex<Subscription> {
  readonly path: Path
  /** By order key. */
  readonly subscriptions: SetsByKey<Subscription>
  /** Length of the longest key added so far. */
  longest: number
}

/**
 * Finds the subscriptions that a changed item may concern: by the value of one equality filter of theirs, or, without
 * such a filter, by collection only.
 */
export class SubscriptionIndex<Subscription> {
  readonly #byPath = new Map<string, PathIndex<Subscription>>()
  readonly #others = new Set<Subscription>()

  get isEmpty(): boolean {
    return this.#others.size === 0 && this.#byPath.size === 0
  }

  add(subscription: Subscription, { filters }: SubscriptionFilter): void {
    const filter = mostSelective(filters)
    if (!filter) {
      this.#others.add(subscription)
      return
    }
    const name = formatPath(filter.path)
    const found = this.#byPath.get(name) ?? { path: filter.path, subscriptions: new SetsByKey(), longest: 0 }
    this.#byPath.set(name, found)
    found.longest = Math.max(found.longest, filter.keys.most)
    for (const key of filter.keys.all) found.subscriptions.add(key, subscription)
  }

  remove(subscription: Subscription, { filters }: SubscriptionFilter): void {
    this.#others.delete(subscription)
    const filter = mostSelective(filters)
    const name = filter ? formatPath(filter.path) : ''
    const subscriptions = this.#byPath.get(name)?.subscriptions
    if (!filter || !subscriptions) return
    for (const key of filter.keys.all) subscriptions.remove(key, subscription)
    if (subscriptions.isEmpty) this.#byPath.delete(name)
  }

  /** The subscriptions that existed when the call began. */
  async concernedBy(item: JsonObject, turn: Turn): Promise<Set<Subscription>> {
    const found = new Set(this.#others)
    for (const { path, subscriptions, longest } of [...this.#byPath.values()]) {
      if (turn.isOver) await turn.next()
      for (const value of valuesAt(item, path)) {
        for (const one of subscriptions.get(orderKey(value, longest))) found.add(one)
      }
    }
    return found
  }
}

/** The equality filter with the fewest values; undefined if there is none. Event times have keys of their own. */
function mostSelective(filters: readonly Filter[]): Filter | undefined {
  const usable = filters.filter(({ operator, isTime }) => operator === 'eq' && !isTime)
  return usable.sort((a, b) => a.keys.all.size - b.keys.all.size)[0]
}

export class SetsByKey<Value> {
  /** Most keys have one value, without a set: a hundred thousand sets take 30 ms. */
  readonly #values = new Map<string, Value | Set<Value>>()

  get isEmpty(): boolean {
    return this.#values.size === 0
  }

  get(key: string): Iterable<Value> {
    const found = this.#values.get(key)
    return found instanceof Set ? found : found === undefined ? [] : [found]
  }

  add(key: string, value: Value): void {
    const found = this.#values.get(key)
    if (found instanceof Set) found.add(value)
    else this.#values.set(key, found === undefined || found === value ? value : new Set([found, value]))
  }

  remove(key: string, value: Value): void {
    const found = this.#values.get(key)
    if (found instanceof Set) found.delete(value)
    if (found === value || (found instanceof Set && found.size === 0)) this.#values.delete(key)
  }
}
