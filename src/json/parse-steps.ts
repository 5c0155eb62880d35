import type { Steps } from '../runtime/steps.ts'
import * as CODE from './char-codes.ts'
import { parseText } from './parse-text.ts'
import { afterBlanks, endOfString } from './quoted.ts'
import { isArray, isObject, type JsonValue, put } from './value.ts'

/** Highest nesting depth; the outermost container counts as 1. */
export const MAX_NESTING = 100

/** Characters parsed by one call: `JSON.parse` takes at most 5 ms for any text of this length. */
const STEP_CHARACTERS = 32 * 1024

/** The result of one call of `JSON.parse`. */
export interface Parsed {
  /** The whole value, or a container with some of its children. */
  readonly value: JsonValue
  /** The source text of the value. */
  readonly text: string
  /** Nesting depth of the value; 1 is outermost. */
  readonly depth: number
  /** Tokens of a JSON Pointer to the value. */
  readonly path: () => readonly (string | number)[]
  /** Number of elements that come before those in `value`. */
  readonly skipped: number
}

/** Text that is not JSON. `whereMalformed` finds the place. */
export class Malformed extends Error {
  constructor() {
    super('malformed JSON')
  }
}

/** Thrown when the nesting exceeds the limit. */
export class TooDeep extends Error {
  /** Tokens of a JSON Pointer to the value. */
  readonly path: readonly (string | number)[]

  constructor(path: readonly (string | number)[]) {
    super('JSON that is nested too deeply')
    this.path = path
  }
}

/**
 * Parses JSON as `JSON.parse` does, in steps. `inspect` gets each value that a call of `JSON.parse` returns. Text of up
 * to STEP_CHARACTERS takes one call and no step.
 * @throws {Malformed}
 * @throws {TooDeep} Only for longer text: short text is parsed at any depth.
 */
export function* parseSteps(
  text: string,
  inspect: (parsed: Parsed) => void = () => {},
  stepCharacters = STEP_CHARACTERS,
  mostNesting = MAX_NESTING,
): Steps<JsonValue> {
  if (text.length > stepCharacters && CONTAINER.test(text)) {
    return yield* new LongParse(text, inspect, stepCharacters, mostNesting).steps()
  }
  const value = parse(text)
  inspect({ value, text, depth: 1, path: NO_PATH, skipped: 0 })
  return value
}

const NO_PATH = (): readonly [] => []
const CONTAINER = /^[ \t\n\r]*[[{]/

function parse(json: string): JsonValue {
  try {
    return parseText(json)
  } catch {
    throw new Malformed()
  }
}

/** A container that the scan has entered and not left. */
interface Container {
  readonly isArray: boolean
  /** Offset of the opening bracket. */
  readonly begin: number
  /** Offset of the last string before it, which is its name if it is a member. */
  readonly name: number
  /** Offset of the text not parsed yet: after the bracket, at a comma, or after a parsed container. */
  rest: number
  /** The container with its parsed children; undefined while none is parsed. */
  value: JsonValue[] | Record<string, JsonValue> | undefined
}

/** Placeholder for a container that is parsed separately. */
const STUB = '[]'

/** Scans the text once. After each STEP_CHARACTERS, parses the pending text of every open container. */
class LongParse {
  readonly #text: string
  readonly #inspect: (parsed: Parsed) => void
  readonly #stepCharacters: number
  readonly #mostNesting: number
  /** The outermost comes first. */
  readonly #containers: Container[] = []
  /** Offset of the last string. */
  #string = 0
  /** Everything before this offset is parsed. */
  #parsed = 0

  constructor(text: string, inspect: (parsed: Parsed) => void, stepCharacters: number, mostNesting: number) {
    this.#text = text
    this.#inspect = inspect
    this.#stepCharacters = stepCharacters
    this.#mostNesting = mostNesting
  }

  *steps(): Steps<JsonValue> {
    const text = this.#text
    for (let at = 0; at < text.length; at++) {
      switch (text.charCodeAt(at)) {
        case CODE.QUOTE:
          this.#string = at
          at = endOfString(text, at)
          if (at < 0) throw new Malformed()
          break
        case CODE.OPEN_BRACKET:
          this.#enter(at, true)
          break
        case CODE.OPEN_BRACE:
          this.#enter(at, false)
          break
        case CODE.COMMA:
          if (at - this.#parsed < this.#stepCharacters) break
          this.#parseUpTo(at)
          yield
          break
        case CODE.CLOSE_BRACKET:
        case CODE.CLOSE_BRACE: {
          const whole = this.#leave(at)
          if (whole !== undefined) return whole
        }
      }
    }
    throw new Malformed()
  }

  get #innermost(): Container {
    return this.#containers.at(-1) as Container
  }

  #enter(begin: number, isArray: boolean): void {
    this.#containers.push({ isArray, begin, name: this.#string, rest: begin + 1, value: undefined })
    if (this.#containers.length <= this.#mostNesting) return
    this.#open()
    throw new TooDeep(this.#pathOf(this.#containers.length - 1))
  }

  /** Returns the value of the outermost container when it ends here. */
  #leave(at: number): JsonValue | undefined {
    const container = this.#innermost
    const isWhole = this.#containers.length === 1
    if (container.isArray !== (this.#text.charCodeAt(at) === CODE.CLOSE_BRACKET)) throw new Malformed()
    if (isWhole || container.value) this.#parseUpTo(at)
    if (isWhole && afterBlanks(this.#text, at + 1) < this.#text.length) throw new Malformed()
    this.#containers.pop()
    if (container.value && !isWhole) this.#innermost.rest = at + 1
    return isWhole ? container.value : undefined
  }

  /** `at` is the offset of a comma or of the innermost container's closing bracket. */
  #parseUpTo(at: number): void {
    this.#open()
    this.#parseChildren(this.#containers.length - 1, at)
    this.#innermost.rest = at
    this.#parsed = at
  }

  /** Gives every open container a value, after parsing what precedes it in the container around it. */
  #open(): void {
    for (const [index, container] of this.#containers.entries()) {
      if (container.value) continue
      container.value = container.isArray ? [] : {}
      const around = this.#containers[index - 1]
      if (!around?.value) continue
      this.#parseChildren(index - 1, container.begin, STUB)
      if (isArray(around.value)) around.value[around.value.length - 1] = container.value
      else put(around.value, this.#nameOf(container), container.value)
    }
  }

  /** `end` is the offset of a comma, of the closing bracket, or of a nested container that `stub` replaces. */
  #parseChildren(index: number, end: number, stub = ''): void {
    const text = this.#text
    const { isArray: isList, begin, rest, value } = this.#containers[index] as Container
    const isFirst = rest === begin + 1
    let from = rest
    if (!isFirst) {
      from = afterBlanks(text, rest)
      if (from === end && stub === '') return
      if (text.charCodeAt(from++) !== CODE.COMMA) throw new Malformed()
    }
    const inner = text.slice(from, end) + stub
    const json = isList ? `[${inner}]` : `{${inner}}`
    const children = parse(json)
    const skipped = isArray(value) ? value.length : 0
    this.#inspect({ value: children, text: json, depth: index + 1, path: () => this.#pathOf(index), skipped })
    let isEmpty = true
    if (isArray(children)) {
      for (const child of children) (value as JsonValue[]).push(child)
      isEmpty = children.length === 0
    } else if (isObject(children)) {
      for (const name of Object.keys(children)) {
        put(value as Record<string, JsonValue>, name, children[name] as JsonValue)
        isEmpty = false
      }
    }
    if (isEmpty && (!isFirst || text.charCodeAt(end) === CODE.COMMA)) throw new Malformed()
  }

  /** The path of a container. All containers around it must have a value. */
  #pathOf(index: number): readonly (string | number)[] {
    return this.#containers.slice(1, index + 1).map((container, around) => {
      const { value } = this.#containers[around] as Container
      return isArray(value) ? value.length - 1 : this.#nameOf(container)
    })
  }

  #nameOf({ name }: Container): string {
    return JSON.parse(this.#text.slice(name, endOfString(this.#text, name) + 1))
  }
}
