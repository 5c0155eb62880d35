import type { Steps } from '../steps.ts'
import { quoted } from './quoted.ts'
import { equal, isArray, isObject, type JsonObject, type JsonValue } from './value.ts'

/** Values that are handled at once: that takes at most 5 ms. */
const STEP_VALUES = 2048
/** Characters of a text that count as one value. `JSON.stringify` takes 70 ns for a lone surrogate, 1 ns for a letter. */
const CHARACTERS = 16
/** Characters of a text that are written in one step. */
const STEP_CHARACTERS = 32 * 1024

/** The same text as `JSON.stringify` makes, in steps. A value of up to STEP_VALUES takes no step. */
export function* stringifySteps(value: JsonValue, stepValues = STEP_VALUES): Steps<string> {
  const sizes = new Sizes(stepValues)
  if (!sizes.isLong(value)) return JSON.stringify(value)
  yield
  const pieces: string[] = []
  yield* stringifyLong(value, sizes, pieces)
  return pieces.join('')
}

function* stringifyLong(value: JsonValue, sizes: Sizes, pieces: string[]): Steps<void> {
  if (isArray(value)) yield* stringifyArray(value, sizes, pieces)
  else if (isObject(value)) yield* stringifyObject(value, sizes, pieces)
  else yield* stringifyText(value as string, pieces)
}

function* stringifyText(text: string, pieces: string[]): Steps<void> {
  pieces.push('"')
  for (let from = 0; from < text.length; ) {
    let to = from + STEP_CHARACTERS
    // The two halves of a surrogate pair are written together.
    if (isLowSurrogate(text.charCodeAt(to))) to++
    pieces.push(JSON.stringify(text.slice(from, to)).slice(1, -1))
    from = to
    yield
  }
  pieces.push('"')
}

function isLowSurrogate(code: number): boolean {
  return code >= 0xdc00 && code < 0xe000
}

function* stringifyArray(array: readonly JsonValue[], sizes: Sizes, pieces: string[]): Steps<void> {
  let separator = '['
  let from = 0
  const write = (to: number): void => {
    if (from < to) {
      pieces.push(separator, JSON.stringify(array.slice(from, to)).slice(1, -1))
      separator = ','
    }
    from = to
  }
  for (let index = 0; index < array.length; index++) {
    const element = array[index] as JsonValue
    if (sizes.isLong(element)) {
      write(index)
      pieces.push(separator)
      yield
      yield* stringifyLong(element, sizes, pieces)
      separator = ','
      from = index + 1
    } else if (sizes.isStepFull()) {
      write(index + 1)
      yield
    }
  }
  write(array.length)
  pieces.push(separator === '[' ? '[]' : ']')
}

function* stringifyObject(object: JsonObject, sizes: Sizes, pieces: string[]): Steps<void> {
  let separator = '{'
  for (const name of sizes.namesOf(object)) {
    const member = object[name] as JsonValue
    const isLong = sizes.isLong(member)
    pieces.push(`${separator}${quoted(name)}:${isLong ? '' : JSON.stringify(member)}`)
    separator = ','
    if (isLong || sizes.isStepFull()) yield
    if (isLong) yield* stringifyLong(member, sizes, pieces)
  }
  pieces.push(separator === '{' ? '{}' : '}')
}

/** The same as `equal`, in steps. */
export function* equalSteps(
  a: JsonValue | undefined,
  b: JsonValue | undefined,
  stepValues = STEP_VALUES,
): Steps<boolean> {
  return yield* equalLong(a, b, new Sizes(stepValues))
}

function* equalLong(a: JsonValue | undefined, b: JsonValue | undefined, sizes: Sizes): Steps<boolean> {
  if (a === undefined || !sizes.isLong(a)) {
    if (sizes.isStepFull()) yield
    return equal(a, b)
  }
  yield
  if (typeof a === 'string') return a === b
  if (isArray(a)) {
    if (!isArray(b) || a.length !== b.length) return false
    for (let index = 0; index < a.length; index++) {
      if (!(yield* equalLong(a[index], b[index], sizes))) return false
    }
    return true
  }
  if (!isObject(a) || !isObject(b)) return false
  const names = sizes.namesOf(a)
  const isOfLength = names.length === Object.keys(b).length
  yield
  if (!isOfLength) return false
  for (const name of names) {
    if (!Object.hasOwn(b, name) || !(yield* equalLong(a[name], b[name], sizes))) return false
  }
  return true
}

/** Finds out what is too long to be handled at once, and when enough was. */
class Sizes {
  readonly #stepValues: number
  /** Containers that are known to be long, so that none is counted again for each container around it. */
  #long: Set<JsonValue> | undefined
  /** Names of objects with very many members, listed once: listing 100,000 takes 15 ms. */
  #names: Map<JsonObject, readonly string[]> | undefined
  #left = 0
  #handled = 0

  constructor(stepValues: number) {
    this.#stepValues = stepValues
  }

  /** Whether it has more values, or is a text with more characters, than a step takes. What is not long is taken for handled. */
  isLong(value: JsonValue): boolean {
    if (this.#long?.has(value)) return true
    this.#left = this.#stepValues
    this.#count(value)
    const isLong = this.#left < 0
    if (!isLong) this.#handled += this.#stepValues - this.#left
    return isLong
  }

  /** Whether enough was handled for a step. */
  isStepFull(): boolean {
    if (this.#handled < this.#stepValues) return false
    this.#handled = 0
    return true
  }

  /** The names of an object's members. */
  namesOf(object: JsonObject): readonly string[] {
    const known = this.#names?.get(object)
    if (known) return known
    const names = Object.keys(object)
    if (names.length > this.#stepValues) {
      this.#names ??= new Map()
      this.#names.set(object, names)
    }
    return names
  }

  #count(value: JsonValue): void {
    const before = this.#left--
    if (typeof value === 'string') this.#left -= Math.floor(value.length / CHARACTERS)
    else if (isArray(value)) {
      for (const element of value) {
        this.#count(element)
        if (this.#left < 0) break
      }
      this.#note(value, before)
    } else if (isObject(value)) {
      for (const name of this.namesOf(value)) {
        this.#left -= Math.floor(name.length / CHARACTERS)
        this.#count(value[name] as JsonValue)
        if (this.#left < 0) break
      }
      this.#note(value, before)
    }
  }

  /** What was counted up to the end, though there was `room` for so many values, is long enough. */
  #note(value: JsonValue, room: number): void {
    if (this.#left >= 0 || room < this.#stepValues / 2) return
    this.#long ??= new Set()
    this.#long.add(value)
  }
}
