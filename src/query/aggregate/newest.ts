import { eventTime } from '../../json/instant.ts'
import { orderKey } from '../../json/order-key.ts'
import type { Path } from '../../json/paths.ts'
import type { JsonObject } from '../../json/value.ts'
import { Refusal } from '../../runtime/errors.ts'
import { Budget, firstScalar, type Scalar } from './accumulator.ts'

interface Newest {
  time: number
  place: number
}

/** Finds the newest item of each group by event time; of two with the same time, the last one in the collection. */
export class NewestItems {
  readonly #path: Path
  readonly #time: Path
  readonly #most: number
  readonly #budget = new Budget()
  readonly #groups = new Map<string, Newest>()

  constructor(path: Path, time: Path, most: number) {
    this.#path = path
    this.#time = time
    this.#most = most
  }

  add(item: JsonObject, place: number): void {
    const time = eventTime(item, this.#time)
    if (time !== undefined) this.put(firstScalar(item, this.#path), time, place)
  }

  /** Adds an item by its values from an index. */
  put(group: Scalar, time: number, place: number): void {
    const key = orderKey(group)
    const known = this.#groups.get(key)
    if (known && (known.time - time || known.place - place) > 0) return
    if (!known) this.#budget.takeCharacters(key.length)
    this.#groups.set(key, { time, place })
    if (this.#groups.size > this.#most) {
      throw new Refusal('Invalid', `There are more than ${this.#most} groups: ask with more filters.`)
    }
  }

  /** In the order of the groups. */
  places(): number[] {
    return [...this.#groups].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, { place }]) => place)
  }
}
