import type { ItemId } from '../events/event.ts'
import { canonicalInteger } from './item.ts'
import { PartitionedMap } from './partitioned-map.ts'

/** Large pages, so that the directory of many keys stays in the processor's caches. */
const BITS = 13
const PAGE = 1 << BITS
const MASK = PAGE - 1
const SMALLEST_PAGE = 64

/** Integers use pages up to SPREAD times as many as the keys, plus SPARSE, as pages have a fixed size. */
const SPREAD = 4
const SPARSE = 1024

/** For each integer, its place plus one; 0 if there is none. Or the constant difference between places and integers. */
type Page = Uint32Array | { readonly ahead: number }

/** A map from keys to places. Integers take four bytes, and none if they and their places are consecutive. */
export class PlaceMap {
  readonly #pages = new Map<number, Page>()
  readonly #others = new PartitionedMap<number>()
  #inPages = 0

  get(key: string): number | undefined {
    const integer = integerOfKey(key)
    return (integer < 0 ? undefined : this.#paged(integer)) ?? this.#others.get(key)
  }

  /** `get` by id instead of key. */
  of(id: ItemId): number | undefined {
    return isIndex(id) ? (this.#paged(id) ?? this.#other(id)) : this.get(String(id))
  }

  set(id: ItemId, place: number): void {
    const integer = isIndex(id) ? id : integerOfKey(String(id))
    const isElsewhere = this.#others.size > 0 && this.#others.get(String(id)) !== undefined
    if (integer < 0 || isElsewhere || integer >= SPREAD * (this.#inPages + SPARSE)) {
      this.#others.set(String(id), place)
      return
    }
    const page = this.#pageWith(integer)
    const index = integer & MASK
    if (page[index] === 0) this.#inPages++
    page[index] = place + 1
    if (index === MASK) this.#pages.set(integer >>> BITS, runOf(page, integer - MASK))
  }

  /** A page with room for the integer. */
  #pageWith(integer: number): Uint32Array {
    const at = integer >>> BITS
    const index = integer & MASK
    const page = this.#pages.get(at)
    if (page instanceof Uint32Array && index < page.length) return page
    let size = SMALLEST_PAGE
    while (size <= index) size *= 2
    const larger = new Uint32Array(page && 'ahead' in page ? PAGE : size)
    if (page instanceof Uint32Array) larger.set(page)
    else if (page) for (let other = 0; other < PAGE; other++) larger[other] = integer - index + other + page.ahead
    this.#pages.set(at, larger)
    return larger
  }

  #other(id: number): number | undefined {
    return this.#others.size === 0 ? undefined : this.#others.get(String(id))
  }

  #paged(integer: number): number | undefined {
    const page = this.#pages.get(integer >>> BITS)
    if (page && 'ahead' in page) return integer + page.ahead - 1
    const place = page?.[integer & MASK]
    return place ? place - 1 : undefined
  }
}

/** Compresses a full page if its places are consecutive. */
function runOf(page: Uint32Array, first: number): Page {
  const ahead = (page[0] as number) - first
  return page[0] !== 0 && page.every((place, index) => place === first + index + ahead) ? { ahead } : page
}

/** Whether the id is an integer that fits in 31 bits. -0 is one, as its text is that of 0. */
export function isIndex(id: ItemId): id is number {
  return typeof id === 'number' && id >= 0 && (id | 0) === id
}

/** The integer of up to 31 bits that a key spells canonically; -1 for other keys. */
function integerOfKey(key: string): number {
  const integer = canonicalInteger(key)
  return integer !== undefined && isIndex(integer) ? integer : -1
}
