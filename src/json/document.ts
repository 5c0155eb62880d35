import { parseText } from './parse-text.ts'
import type { JsonObject } from './value.ts'

/**
 * A JSON object as it is kept: its text, encoded once. The value is parsed whenever it is asked for and not
 * kept, as a million parsed objects would cost more than their texts and give the garbage collector far more to walk.
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
