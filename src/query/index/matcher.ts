import type { Item } from '../../collections/item.ts'
import type { CollectionItems } from '../../collections/stored-items.ts'
import { parseSteps } from '../../json/parse-steps.ts'
import type { JsonObject } from '../../json/value.ts'
import type { Steps } from '../../runtime/time-slices.ts'
import { type Conditions, type Filter, meetsConditions } from '../filter.ts'
import type { Query } from '../query.ts'
import { withReceived } from '../virtual-field.ts'

/** The places of a page's items, in order. */
export interface Places {
  readonly places: readonly number[]
  readonly total: number
}

/** How many characters are parsed between two yields. */
const STEP_CHARACTERS = 4096
/** The overhead of reading one item, expressed in characters. */
const ITEM_CHARACTERS = 100

/** Searching a longer text takes as long as parsing it in steps. */
const MOST_SEARCHED = 4096
/** Filters whose traces are searched in a text. */
const TRACED_FILTERS = 8

/** Whether the text of an item proves that it does not match, so that it need not be parsed. */
function isWithoutTrace(text: string, { filters }: Conditions): boolean {
  if (text.length > MOST_SEARCHED) return false
  for (let index = 0; index < filters.length && index < TRACED_FILTERS; index++) {
    const trace = (filters[index] as Filter).trace
    if (trace && !trace.test(text)) return true
  }
  return false
}

/** Reads items and checks them against conditions, time-sliced. */
export class Matching {
  readonly #items: CollectionItems
  readonly #conditions: Conditions & Pick<Query, 'namesReceived'>
  /** Characters read since the last yield. */
  #characters = 0

  constructor(items: CollectionItems, conditions: Conditions & Pick<Query, 'namesReceived'>) {
    this.#items = items
    this.#conditions = conditions
  }

  /** The value of the item at a place; undefined if it does not match. With `isKnownTo` nothing is checked. */
  *valueAt(place: number, isKnownTo = false): Steps<JsonObject | undefined> {
    const item = this.#items.uncachedAt(place) as Item
    const { text } = item
    this.#characters += ITEM_CHARACTERS + text.length
    if (this.#characters >= STEP_CHARACTERS) {
      this.#characters = 0
      yield
    }
    if (!isKnownTo && isWithoutTrace(text, this.#conditions)) return undefined
    const value = (yield* parseSteps(
      this.#conditions.namesReceived ? withReceived(text, item.timeMs) : text,
    )) as JsonObject
    return isKnownTo || (yield* meetsConditions(value, this.#conditions)) ? value : undefined
  }
}
