import { parseText } from './parse-text.ts'
import type { JsonObject } from './value.ts'

/**
 * A JSON object, stored as text. The value is parsed on each access and not cached: a million parsed objects take more
 * memory than their texts, and slow down garbage collection.
 */
export class Document {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }

  static of(value: JsonObject): Document {
    return new Document(JSON.stringify(value))
  }

  get value(): JsonObject {
    return parseText(this.text) as JsonObject
  }

  toJSON(): JsonObject {
    return this.value
  }
}
