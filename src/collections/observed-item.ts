import type { Document } from '../json/document.ts'
import type { JsonObject } from '../json/value.ts'
import type { Item } from './item.ts'
import { type NaturalKey, naturalKeyOf } from './natural-key.ts'

/** An item that is parsed once for all observers. */
export class ObservedItem {
  readonly key: string
  readonly text: string
  readonly #document: Document
  #value: JsonObject | undefined

  constructor({ key, text }: Item, document: Document) {
    this.key = key
    this.text = text
    this.#document = document
  }

  get value(): JsonObject {
    this.#value ??= this.#document.value
    return this.#value
  }

  naturalKey(key: NaturalKey): string | undefined {
    return this.#document.derived(key, () => naturalKeyOf(this.value, key))
  }
}

/** Receives changes of the items of some tables, in the transactions that write them. */
export interface TableObserver {
  isObserved(table: number, collection: string): boolean
  /** The item at a place was replaced or removed. */
  changed(
    table: number,
    place: number,
    before: ObservedItem | undefined,
    after: ObservedItem | undefined,
    collection: string,
  ): void
}
