import type { FileContents, FileItem } from '../collections/file-items.ts'
import { FileMistakes, invalid } from '../collections/file-mistakes.ts'
import { OBJECT_ID } from '../events/event.ts'
import { parseSteps } from '../json/parse-steps.ts'
import { pointer } from '../json/pointer.ts'
import type { JsonObject } from '../json/value.ts'
import type { Steps } from '../runtime/time-slices.ts'
import { faultOfTime } from './event-times.ts'
import { withId } from './item-event.ts'
import type { Rules } from './rules.ts'

/** Validates the edited items of a file: their event times, and the schemas of their collections. */
export function* checkEdited(file: FileContents, rules: Rules): Steps<void> {
  const mistakes = new FileMistakes()
  for (const [name, { edited }] of file) {
    for (const { index, item } of edited) {
      yield* mistakes.catching(checkSchema(rules, name, index, item))
      yield
    }
  }
  mistakes.throwAny()
}

export function* checkSchema(rules: Rules, name: string, index: number, item: FileItem): Steps<void> {
  const time = rules.times.get(name)
  if (!rules.hasSchema(name) && !time?.isTimeRequired) return
  const value = yield* parsedItem(item)
  const place = pointer(item.id === OBJECT_ID ? [name] : [name, index])
  const untimed = time?.isTimeRequired ? faultOfTime(value, time, rules.nowMs()) : undefined
  if (untimed) throw invalid(place + untimed.pointer, `the event time ${untimed.message}`)
  // The id that it will get is an integer.
  const [fault] = rules.faultsOf(name, item.id === undefined ? yield* withId(value, 0, rules) : value)
  if (!fault) return
  throw invalid(place + fault.pointer, `does not satisfy the collection's schema: ${fault.message}`)
}

export function* parsedItem({ text }: FileItem): Steps<JsonObject> {
  return (yield* parseSteps(text)) as JsonObject
}
