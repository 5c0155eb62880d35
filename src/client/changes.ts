import type { Entry } from './sorted-items.ts'

/** A change of a live list. */
export interface ListChange<T> {
  /** The list reflects all events up to this position. */
  readonly position: number
  readonly entered: readonly T[]
  readonly updated: readonly { readonly item: T; readonly before: T }[]
  /** The items as they were last. */
  readonly left: readonly T[]
  /** The list was loaded anew, since the missed changes were no longer available. */
  readonly wasReset: boolean
}

/** Net changes of items between two moments, by key. An item that came and went in between does not appear. */
export class Changes<T> {
  readonly #byKey = new Map<string, { readonly before: T | undefined; readonly after: T | undefined }>()
  #wasReset: boolean

  constructor(wasReset = false) {
    this.#wasReset = wasReset
  }

  /** The changes from the items before to those after. An unchanged item is the same object. */
  static between<T>(before: readonly Entry<T>[], after: readonly Entry<T>[], wasReset = false): Changes<T> {
    const changes = new Changes<T>(wasReset)
    const gone = new Map(before.map(({ key, item }) => [key, item]))
    for (const { key, item } of after) {
      const was = gone.get(key)
      gone.delete(key)
      if (was !== item) changes.add(key, was, item)
    }
    for (const [key, item] of gone) changes.add(key, item, undefined)
    return changes
  }

  get size(): number {
    return this.#byKey.size
  }

  add(key: string, before: T | undefined, after: T | undefined): void {
    const earlier = this.#byKey.get(key)
    const first = earlier ? earlier.before : before
    if (first === undefined && after === undefined) this.#byKey.delete(key)
    else this.#byKey.set(key, { before: first, after })
  }

  /** Merges later changes. */
  addAll(later: Changes<T>): this {
    this.#wasReset ||= later.#wasReset
    for (const [key, { before, after }] of later.#byKey) this.add(key, before, after)
    return this
  }

  at(position: number): ListChange<T> {
    const entered: T[] = []
    const updated: { item: T; before: T }[] = []
    const left: T[] = []
    for (const { before, after } of this.#byKey.values()) {
      if (after === undefined) left.push(before as T)
      else if (before === undefined) entered.push(after)
      else updated.push({ item: after, before })
    }
    return { position, entered, updated, left, wasReset: this.#wasReset }
  }
}
