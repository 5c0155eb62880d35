import { isItemEvent, type Position } from '../events/event.ts'
import type { Recorded } from '../events/journal.ts'
import type { Views } from './views.ts'

/** Where in the journal each item's events are, and when each collection existed. */
export class History {
  readonly #views: Views
  /** Of the items with more than one event; the others' only one is that of the item. */
  readonly #events = new Map<string, Map<string, Position[]>>()
  /** Creations and removals by turns. */
  readonly #lives = new Map<string, Position[]>()

  /** To be fed after the views. */
  constructor(views: Views) {
    this.#views = views
  }

  apply(recorded: Recorded): void {
    for (const [index, event] of recorded.events.entries()) {
      const position = recorded.position + index
      if (isItemEvent(event)) {
        if (event.prior > 0) this.#note(event.collection, String(event.id), event.prior, position)
      } else if (event.type !== 'CollectionOrdered') {
        const lives = this.#lives.get(event.collection)
        if (lives) lives.push(position)
        else this.#lives.set(event.collection, [position])
      }
    }
  }

  /** The positions of all events of an item, ascending. */
  eventsOf(collection: string, key: string): readonly Position[] {
    const several = this.#events.get(collection)?.get(key)
    if (several) return several
    const only = this.#views.any(collection)?.get(key)
    return only ? [only.position] : []
  }

  existed(collection: string, at: Position): boolean {
    return (countUpTo(this.#lives.get(collection) ?? [], at) & 1) === 1
  }

  /** The position of the item's last event that is not beyond another. */
  lastOf(collection: string, key: string, at: Position): Position | undefined {
    const positions = this.eventsOf(collection, key)
    return positions[countUpTo(positions, at) - 1]
  }

  #note(collection: string, key: string, prior: Position, position: Position): void {
    let items = this.#events.get(collection)
    if (!items) {
      items = new Map()
      this.#events.set(collection, items)
    }
    const positions = items.get(key)
    if (positions) positions.push(position)
    else items.set(key, [prior, position])
  }
}

/** How many of the ascending positions are not beyond another. */
function countUpTo(ascending: readonly Position[], last: Position): number {
  let low = 0
  let high = ascending.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((ascending[middle] as Position) <= last) low = middle + 1
    else high = middle
  }
  return low
}
