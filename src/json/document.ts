import { parseText } from './parse.ts'
import type { JsonObject } from './value.ts'

/**
 * A JSON object as text. Without a known value the text is parsed on each access, and the result is not cached: a million
 * parsed objects take more memory than their texts, and slow down garbage collection.
 */
export class Document {
  readonly text: string
  readonly #value: JsonObject | undefined
  #derived: { readonly by: object; readonly value: unknown } | undefined

  /** `value` saves the parsing of events that are processed soon after they were decided. It must not change. */
  constructor(text: string, value?: JsonObject) {
    this.text = text
    this.#value = value
  }

  static of(value: JsonObject): Document {
    return new Document(JSON.stringify(value))
  }

  get value(): JsonObject {
    return this.#value ?? (parseText(this.text) as JsonObject)
  }

  /** The result of `derive`, which is called once for the same `by`: several parts of the program need the natural key. */
  derived<Result>(by: object, derive: () => Result): Result {
    if (this.#derived?.by !== by) this.#derived = { by, value: derive() }
    return this.#derived.value as Result
  }

  toJSON(): JsonObject {
    return this.value
  }
}
