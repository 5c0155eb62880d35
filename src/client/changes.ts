/** What happened to a live list, as it shows it. */
export interface ListChange<T> {
  /** Up to here everything is in the list. */
  readonly position: number
  readonly entered: readonly T[]
  readonly updated: readonly { readonly item: T; readonly before: T }[]
  /** As they were last. */
  readonly left: readonly T[]
  /** The list was read anew, as what it had missed was not known any more. */
  readonly wasReset: boolean
}

interface BeforeAndAfter<T> {
  readonly before: T | undefined
  readonly after: T | undefined
}

/** What became of items between two moments, by their keys; what came and went in between is not mentioned. */
export class Changes<T> {
  readonly #byKey = new Map<string, BeforeAndAfter<T>>()
  #wasReset: boolean

  constructor(wasReset = false) {
    this.#wasReset = wasReset
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

  /** Those that came later, too. */
  addAll(later: Changes<T>): void {
    this.#wasReset ||= later.#wasReset
    for (const [key, { before, after }] of later.#byKey) this.add(key, before, after)
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
