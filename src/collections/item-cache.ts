import type { Position } from '../events/event.ts'
import type { Item } from './item.ts'

/** Characters in one generation. */
const GENERATION_CHARACTERS = 24 * 1024 * 1024
/** Memory of an item besides its text, in characters. */
const OVERHEAD = 120

/**
 * An LRU cache of decoded items in two generations, by table and place. When the young generation is full, the old one
 * is dropped. Changed items are replaced.
 */
export class ItemCache {
  /** The position that readers see; only items read at it are cached. */
  position: Position = 0
  #young = new Map<number, Map<number, Item>>()
  #old = new Map<number, Map<number, Item>>()
  #characters = 0

  get(table: number, place: number): Item | undefined {
    const young = this.#young.get(table)?.get(place)
    if (young) return young
    const old = this.#old.get(table)?.get(place)
    if (old) this.set(table, place, old)
    return old
  }

  set(table: number, place: number, item: Item): void {
    this.#characters += OVERHEAD + item.text.length
    if (this.#characters > GENERATION_CHARACTERS) {
      this.#old = this.#young
      this.#young = new Map()
      this.#characters = OVERHEAD + item.text.length
    }
    const items = this.#young.get(table)
    if (items) items.set(place, item)
    else this.#young.set(table, new Map([[place, item]]))
  }

  /** Another item is at a place, or none: it takes the place of one that is cached. */
  replace(table: number, place: number, item: Item | undefined): void {
    const [young, old] = [this.#young.get(table), this.#old.get(table)]
    if (!item) {
      young?.delete(place)
      old?.delete(place)
    } else if (young?.has(place) || old?.has(place)) this.set(table, place, item)
  }

  deleteTable(table: number): void {
    this.#young.delete(table)
    this.#old.delete(table)
  }
}
