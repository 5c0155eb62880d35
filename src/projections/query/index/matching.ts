import type { CollectionItems } from '../../../collections/collection.ts'
import type { Item } from '../../../collections/item.ts'
import { parseSteps } from '../../../json/parse-steps.ts'
import type { JsonObject } from '../../../json/value.ts'
import type { Steps } from '../../../slices.ts'
import { type Conditions, passing } from '../filter.ts'

/** Where the items of a page stand, in its order. */
export interface Places {
  readonly places: readonly number[]
  readonly total: number
}

/** Characters of items that are parsed in a step, */
const STEP_CHARACTERS = 4096
/** as many of them as an item costs beside its text. */
const ITEM_CHARACTERS = 100

/** Looks at items, one after the other, for those that meet some conditions. */
export class Matching {
  readonly #items: CollectionItems
  readonly #conditions: Conditions
  /** Since the last step. */
  #characters = 0

  constructor(items: CollectionItems, conditions: Conditions) {
    this.#items = items
    this.#conditions = conditions
  }

  /** The value of the item at a place, if it meets the conditions, or is known to. */
  *valueAt(place: number, isKnownTo = false): Steps<JsonObject | undefined> {
    const { text } = this.#items.uncachedAt(place) as Item
    this.#characters += ITEM_CHARACTERS + text.length
    if (this.#characters >= STEP_CHARACTERS) {
      this.#characters = 0
      yield
    }
    const value = (yield* parseSteps(text)) as JsonObject
    return isKnownTo || (yield* passing(value, this.#conditions)) ? value : undefined
  }
}
