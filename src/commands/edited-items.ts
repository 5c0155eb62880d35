import { checkItemValues } from '../collections/file-items.ts'
import { invalid } from '../collections/file-mistakes.ts'
import { OBJECT_ID } from '../events/event.ts'
import { parseText } from '../json/parse-text.ts'
import { pointer } from '../json/pointer.ts'
import type { JsonObject } from '../json/value.ts'
import type { EditedItem, EditKind } from './edit.ts'
import { faultOfTime } from './event-times.ts'
import { withId } from './item-event.ts'
import type { Rules } from './rules.ts'

/**
 * Validates an item of a data file: its size, its event time, and the schema of its collection.
 * @throws {Refusal} `Invalid` with the place.
 */
export function checkItem(rules: Rules, collection: string, { id, index, text }: EditedItem, kind: EditKind): void {
  const tokens = id === OBJECT_ID ? [collection] : [collection, index]
  if (kind === 'edit') checkItemValues(text, rules.itemValues, tokens)
  const time = rules.times.get(collection)
  if (!rules.hasSchema(collection) && !time?.isTimeRequired) return
  const value = parseText(text) as JsonObject
  const place = pointer(tokens)
  const untimed = time?.isTimeRequired ? faultOfTime(value, time, rules.nowMs()) : undefined
  if (untimed) throw invalid(place + untimed.pointer, `the event time ${untimed.message}`)
  // The id that it will get is an integer.
  const [fault] = rules.faultsOf(collection, id === undefined ? withId(value, 0, rules) : value)
  if (fault) throw invalid(place + fault.pointer, `does not satisfy the collection's schema: ${fault.message}`)
}
