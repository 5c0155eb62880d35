import type { ItemId, Position } from '../events/event.ts'
import type { Document } from '../json/document.ts'
import { parseText } from '../json/parse-text.ts'
import { tagOf } from '../json/tag.ts'
import { isWellFormed, type JsonObject, type JsonValue } from '../json/value.ts'

/** An item at one revision. Never changed: another revision is another object. */
export class Item {
  readonly id: ItemId
  /** The item as JSON. */
  readonly text: string
  readonly revision: number
  /** Of the event that it came from. */
  readonly position: Position
  #tag: string | undefined

  constructor(id: ItemId, { text }: Pick<Document, 'text'>, revision: number, position: Position) {
    this.id = id
    this.text = text
    this.revision = revision
    this.position = position
  }

  /** The id as text, by which it is found. Of a number it is made anew each time. */
  get key(): string {
    return keyOf(this.id)
  }

  /** Parsed anew each time: to be asked for once. */
  get value(): JsonObject {
    return parseText(this.text) as JsonObject
  }

  /** The entity tag (RFC 9110 §8.8.3), quotes included: same data, same tag, also after a restart. */
  get tag(): string {
    this.#tag ??= tagOf(this.text)
    return this.#tag
  }
}

/** What is still known of an item that was deleted. */
export interface Gone {
  readonly revision: number
  readonly position: Position
}

export function keyOf(id: ItemId): string {
  return String(id)
}

/** POST counts on from the highest integer, so that none may lie beyond this one. */
export const HIGHEST_ID = 2 ** 52

/**
 * The integer that a key spells in the one canonical way: `7`, not `07` or `7.0`. Text that spells an integer
 * beyond HIGHEST_ID is text like any other.
 */
export function canonicalInteger(key: string): number | undefined {
  if (!/^(0|[1-9]\d{0,15})$/.test(key)) return undefined
  const integer = Number(key)
  return integer <= HIGHEST_ID ? integer : undefined
}

/** The integer that an id counts as when the next one is looked for; those that POST assigned go on beyond HIGHEST_ID. */
export function integerOf(id: ItemId): number | undefined {
  if (typeof id === 'string') return canonicalInteger(id)
  return Number.isSafeInteger(id) && id >= 0 ? id : undefined
}

/** What is wrong with an identifier; undefined when nothing is. */
export function faultOfId(id: JsonValue, highest = HIGHEST_ID): string | undefined {
  if (typeof id === 'number') {
    return Math.abs(id) > highest ? `an integer id may be at most ${highest}` : undefined
  }
  if (typeof id !== 'string') return 'an id must be text or a number'
  return faultOfName(id, 'an id')
}

/** What is wrong with the text of an id or with a collection's name; undefined when nothing is. */
export function faultOfName(name: string, what: string): string | undefined {
  if (name === '') return `${what} must not be empty`
  return isWellFormed(name) ? undefined : `${what} must not hold a lone surrogate`
}
