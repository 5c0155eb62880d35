import type { Item } from '../../collections/item.ts'
import type { CollectionItems } from '../../collections/stored-items.ts'
import { parseText } from '../../json/parse-text.ts'
import type { JsonObject } from '../../json/value.ts'
import { type Conditions, type Filter, meetsConditions } from '../filter.ts'
import { withReceived } from '../parameter.ts'
import type { Query } from '../query.ts'

/** The places of a page's items, in order. */
export interface Places {
  readonly places: readonly number[]
  readonly total: number
}

/** Searching a longer text takes as long as parsing it. */
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

/** Reads items and checks them against conditions. */
export class Matching {
  readonly #items: CollectionItems
  readonly #conditions: Conditions & Pick<Query, 'namesReceived'>

  constructor(items: CollectionItems, conditions: Conditions & Pick<Query, 'namesReceived'>) {
    this.#items = items
    this.#conditions = conditions
  }

  /** The value of the item at a place; undefined if it does not match. With `isKnownTo` nothing is checked. */
  valueAt(place: number, isKnownTo = false): JsonObject | undefined {
    const item = this.#items.itemAt(place) as Item
    const { text } = item
    if (!isKnownTo && isWithoutTrace(text, this.#conditions)) return undefined
    const value = parseText(this.#conditions.namesReceived ? withReceived(text, item.timeMs) : text) as JsonObject
    return isKnownTo || meetsConditions(value, this.#conditions) ? value : undefined
  }
}
