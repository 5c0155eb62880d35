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

/** The item's value, if it meets the conditions. */
export function* matching(
  items: CollectionItems,
  place: number,
  conditions: Conditions,
  isKnownTo = false,
): Steps<JsonObject | undefined> {
  const { text } = items.uncachedAt(place) as Item
  const value = (yield* parseSteps(text)) as JsonObject
  return isKnownTo || (yield* passing(value, conditions)) ? value : undefined
}
