import { orderKey } from '../json/order-key.ts'
import { formatPath, type Path, valuesAt } from '../json/paths.ts'
import type { JsonObject } from '../json/value.ts'
import type { Filter } from '../query/filter.ts'
import type { Turn } from '../runtime/turns.ts'
import type { SubscriptionFilter } from './subscribe-request.ts'

interface OfPath<Subscriber> {
  readonly path: Path
  /** By order key. */
  readonly subscribers: SetsByKey<Subscriber>
  /** Length of the longest key added so far. */
  longest: number
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

  add(subscriber: Subscriber, { filters }: SubscriptionFilter): void {
    const filter = mostSelective(filters)
    if (!filter) {
      this.#others.add(subscriber)
      return
    }
    const name = formatPath(filter.path)
    const found = this.#byPath.get(name) ?? { path: filter.path, subscribers: new SetsByKey(), longest: 0 }
    this.#byPath.set(name, found)
    found.longest = Math.max(found.longest, filter.keys.most)
    for (const key of filter.keys.all) found.subscribers.add(key, subscriber)
  }

  remove(subscriber: Subscriber, { filters }: SubscriptionFilter): void {
    this.#others.delete(subscriber)
    const filter = mostSelective(filters)
    const name = filter ? formatPath(filter.path) : ''
    const subscribers = this.#byPath.get(name)?.subscribers
    if (!filter || !subscribers) return
    for (const key of filter.keys.all) subscribers.remove(key, subscriber)
    if (subscribers.isEmpty) this.#byPath.delete(name)
  }

  /** The subscriptions that existed when the call began. */
  async concernedBy(item: JsonObject, turn: Turn): Promise<Set<Subscriber>> {
    const found = new Set(this.#others)
    for (const { path, subscribers, longest } of [...this.#byPath.values()]) {
      if (turn.isOver) await turn.next()
      for (const value of valuesAt(item, path)) {
        for (const one of subscribers.get(orderKey(value, longest))) found.add(one)
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
  readonly #sets = new Map<string, Set<Value>>()

  get isEmpty(): boolean {
    return this.#sets.size === 0
  }

  get(key: string): Iterable<Value> {
    return this.#sets.get(key) ?? []
  }

  add(key: string, value: Value): void {
    const set = this.#sets.get(key)
    if (set) set.add(value)
    else this.#sets.set(key, new Set([value]))
  }

  remove(key: string, value: Value): void {
    const set = this.#sets.get(key)
    set?.delete(value)
    if (set?.size === 0) this.#sets.delete(key)
  }
}
