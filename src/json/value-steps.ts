import type { Steps } from '../runtime/steps.ts'
import { quoted } from './quoted.ts'
import { equal, isArray, isObject, type JsonObject, type JsonValue } from './value.ts'

/** Values processed in one step, which takes at most 5 ms. */
const STEP_VALUES = 2048
/** Characters of a string that count as one value: a lone surrogate takes 70 ns in `JSON.stringify`, a letter 1 ns. */
const CHARACTERS = 16
/** Characters of a string written in one step. */
const STEP_CHARACTERS = 32 * 1024

/** The result of `JSON.stringify`, in steps. A value of up to STEP_VALUES values takes no step. */
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
    // A surrogate pair must not be split.
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

/** Stringifies consecutive short elements at once, and each long one in steps of its own. */
function* stringifyArray(array: readonly JsonValue[], sizes: Sizes, pieces: string[]): Steps<void> {
  let separator = '['
  let unwritten = 0
  const writeShortUpTo = (end: number): void => {
    if (unwritten < end) {
      pieces.push(separator, JSON.stringify(array.slice(unwritten, end)).slice(1, -1))
      separator = ','
    }
    unwritten = end
  }
  for (let index = 0; index < array.length; index++) {
    const element = array[index] as JsonValue
    if (sizes.isLong(element)) {
      writeShortUpTo(index)
      pieces.push(separator)
      yield
      yield* stringifyLong(element, sizes, pieces)
      separator = ','
      unwritten = index + 1
    } else if (sizes.isStepFull()) {
      writeShortUpTo(index + 1)
      yield
    }
  }
  writeShortUpTo(array.length)
  pieces.push(separator === '[' ? '[]' : ']')
}

function* stringifyObject(object: JsonObject, sizes: Sizes, pieces: string[]): Steps<void> {
  let separator = '{'
  for (const name of sizes.namesOf(object)) {
    const member = object[name]
    if (member === undefined) continue
    const isLong = sizes.isLong(member)
    pieces.push(`${separator}${quoted(name)}:${isLong ? '' : JSON.stringify(member)}`)
    separator = ','
    if (isLong || sizes.isStepFull()) yield
    if (isLong) yield* stringifyLong(member, sizes, pieces)
  }
  pieces.push(separator === '{' ? '{}' : '}')
}

/** `equal`, in steps. */
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

/** Estimates sizes, to tell which values take a step of their own and when a step is full. */
class Sizes {
  readonly #stepValues: number
  /** Containers known to be long, so that none is counted again for each container around it. */
  #long: Set<JsonValue> | undefined
  /** Cached names of objects with very many members: listing 100,000 takes 15 ms. */
  #names: Map<JsonObject, readonly string[]> | undefined
  #left = 0
  #handled = 0

  constructor(stepValues: number) {
    this.#stepValues = stepValues
  }

  /** Whether the value is larger than a step. A value that is not long counts as processed. */
  isLong(value: JsonValue): boolean {
    if (this.#long?.has(value)) return true
    this.#left = this.#stepValues
    this.#count(value)
    const isLong = this.#left < 0
    if (!isLong) this.#handled += this.#stepValues - this.#left
    return isLong
  }

  /** Whether the values processed since the last call fill a step. */
  isStepFull(): boolean {
    if (this.#handled < this.#stepValues) return false
    this.#handled = 0
    return true
  }

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

  /** Remembers a container that was counted completely although half a step was left: it is long. */
  #note(value: JsonValue, room: number): void {
    if (this.#left >= 0 || room < this.#stepValues / 2) return
    this.#long ??= new Set()
    this.#long.add(value)
  }
}
