import { pointer } from './paths.ts'
import { isArray, isObject, type JsonObject, type JsonValue, own } from './value.ts'

/** A value that differs between two versions of an item. */
export interface Change {
  /** JSON Pointer (RFC 6901). */
  readonly path: string
  /** Undefined: the value is new. */
  readonly before?: JsonValue
  /** Undefined: the value was removed. */
  readonly after?: JsonValue
}

/** Most changes that are named one by one, and most characters of their paths, as long names may repeat in each path. */
const MOST_CHANGES = 1000
const MOST_CHARACTERS = 2 ** 16

/**
 * The values that differ between two versions of an item: objects are compared by their members, arrays of the same length by their
 * elements, and other values as a whole. If there are too many changes, there is one of the whole item. Takes linear time.
 */
export function changesBetween(before: JsonObject, after: JsonObject): readonly Change[] {
  const found = new FoundChanges()
  return compare(before, after, [], found) ? found.list : [{ path: '', before, after }]
}

class FoundChanges {
  readonly list: Change[] = []
  #characters = 0

  /** Returns false if that is one too many. */
  add(tokens: readonly (string | number)[], change: Omit<Change, 'path'>): boolean {
    const path = pointer(tokens)
    this.#characters += path.length
    if (this.list.length === MOST_CHANGES || this.#characters > MOST_CHARACTERS) return false
    this.list.push({ path, ...change })
    return true
  }
}

/** Returns false as soon as there are too many changes. `tokens` lead to the values, and are the same afterwards. */
function compare(
  before: JsonValue | undefined,
  after: JsonValue | undefined,
  tokens: (string | number)[],
  found: FoundChanges,
): boolean {
  if (before === after) return true
  if (before === undefined) return found.add(tokens, { after: after as JsonValue })
  if (after === undefined) return found.add(tokens, { before })
  const below = (token: string | number, one: JsonValue | undefined, other: JsonValue | undefined): boolean => {
    tokens.push(token)
    const isComplete = compare(one, other, tokens, found)
    tokens.pop()
    return isComplete
  }
  if (isArray(before) && isArray(after) && before.length === after.length) {
    return before.every((element, index) => below(index, element, after[index]))
  }
  if (isObject(before) && isObject(after)) {
    const isComplete = Object.keys(before).every((name) => below(name, before[name], own(after, name)))
    return (
      isComplete &&
      Object.keys(after).every((name) => Object.hasOwn(before, name) || below(name, undefined, after[name]))
    )
  }
  return found.add(tokens, { before, after })
}
