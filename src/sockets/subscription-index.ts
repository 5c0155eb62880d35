import { valuesAt } from '../json/paths.ts'
import type { JsonObject, JsonValue } from '../json/value.ts'
import type { Watch } from '../projections/query/watch.ts'

/**
 * Finds those whom an item may concern without asking all: by the value of a field that they ask to be equal
 * to one text, the others by nothing but their collection.
 */
export class SubscriptionIndex<Subscriber> {
  readonly #byValue = new Map<string, Map<string, Set<Subscriber>>>()
  readonly #others = new Set<Subscriber>()

  add(subscriber: Subscriber, watch: Watch): void {
    const place = placeOf(watch)
    if (!place) {
      this.#others.add(subscriber)
      return
    }
    const values = this.#byValue.get(place.path) ?? new Map<string, Set<Subscriber>>()
    this.#byValue.set(place.path, values)
    const subscribers = values.get(place.value) ?? new Set()
    values.set(place.value, subscribers.add(subscriber))
  }

  remove(subscriber: Subscriber, watch: Watch): void {
    this.#others.delete(subscriber)
    const place = placeOf(watch)
    const values = place && this.#byValue.get(place.path)
    const subscribers = values?.get(place?.value ?? '')
    if (!place || !values || !subscribers) return
    subscribers.delete(subscriber)
    if (subscribers.size === 0) values.delete(place.value)
    if (values.size === 0) this.#byValue.delete(place.path)
  }

  *concernedBy(item: JsonObject): Generator<Subscriber> {
    yield* this.#others
    for (const [path, values] of this.#byValue) {
      const found = new Set(valuesAt(item, path.split('.')).flatMap((value) => textOf(value) ?? []))
      for (const text of found) yield* values.get(text) ?? []
    }
  }
}

/** Equality with one text is found by that text, unless it may be said in several ways: numbers, date-times, JSON. */
function placeOf({ filters }: Watch): { readonly path: string; readonly value: string } | undefined {
  for (const { path, operator, wanted } of filters) {
    const [one, ...more] = wanted
    if (operator === 'eq' && one && more.length === 0 && isSaidInOneWay(one)) {
      return { path: path.join('.'), value: one.text }
    }
  }
  return undefined
}

function isSaidInOneWay({ readings }: Watch['filters'][number]['wanted'][number]): boolean {
  return [2, 3, 5, 6].every((rank) => readings[rank as 2] === undefined)
}

/** What an equality filter would have to say to be met by the value, where there is but one way to say it. */
function textOf(value: JsonValue): string | undefined {
  return typeof value === 'string' || typeof value === 'boolean' || value === null ? String(value) : undefined
}
