import type { ItemId, Position } from '../events/event.ts'
import type { Document } from '../json/document.ts'
import { parseText } from '../json/parse-text.ts'
import { tagOf } from '../json/tag.ts'
import { isWellFormed, type JsonObject, type JsonValue } from '../json/value.ts'

/** An item at one revision. Immutable. */
export class Item {
  readonly id: ItemId
  /** The item as JSON. */
  readonly text: string
  readonly revision: number
  /** Position of its last event. */
  readonly position: Position
  /** When its last event happened, in milliseconds since 1970; 0 unless it was read from the store or the journal. */
  readonly timeMs: number
  #tag: string | undefined

  constructor(id: ItemId, { text }: Pick<Document, 'text'>, revision: number, position: Position, timeMs = 0) {
    this.id = id
    this.text = text
    this.revision = revision
    this.position = position
    this.timeMs = timeMs
  }

  /** The id as text. Computed on each access for a number. */
  get key(): string {
    return keyOf(this.id)
  }

  /** Parsed on each access. */
  get value(): JsonObject {
    return parseText(this.text) as JsonObject
  }

  /** The entity tag (RFC 9110 §8.8.3), with quotes: equal data has an equal tag, also after a restart. */
  get tag(): string {
    this.#tag ??= tagOf(this.text)
    return this.#tag
  }
}

/** The remains of a deleted item. */
export interface Tombstone {
  readonly revision: number
  readonly position: Position
}

export function isItem(entry: Item | Tombstone | undefined): entry is Item {
  return entry instanceof Item
}

export function keyOf(id: ItemId): string {
  return String(id)
}

/** The highest id that clients may choose, since POST counts on from the highest integer. */
export const HIGHEST_ID = 2 ** 52

/** The integer that a key spells canonically: `7`, not `07` or `7.0`. Undefined beyond HIGHEST_ID. */
export function canonicalInteger(key: string): number | undefined {
  const integer = /^(0|[1-9]\d{0,15})$/.test(key) ? Number(key) : undefined
  return integer !== undefined && integer <= HIGHEST_ID ? integer : undefined
}

export function isKeyOf(key: string, id: ItemId): boolean {
  return typeof id === 'string' ? id === key : id === canonicalInteger(key) || key === keyOf(id)
}

/** The integer for which an id counts when the next one is assigned. POST may assign integers beyond HIGHEST_ID. */
export function integerOf(id: ItemId): number | undefined {
  if (typeof id === 'string') return canonicalInteger(id)
  return Number.isSafeInteger(id) && id >= 0 ? id : undefined
}

/** The integer above an id that counts when the next one is assigned, otherwise 0. */
export function integerAfter(id: ItemId): number {
  return (integerOf(id) ?? -1) + 1
}

/** The error of an id; undefined if it is valid. */
export function faultOfId(id: JsonValue, highest = HIGHEST_ID): string | undefined {
  if (typeof id === 'number') {
    return Math.abs(id) > highest ? `an integer id may be at most ${highest}` : undefined
  }
  if (typeof id !== 'string') return 'an id must be text or a number'
  return faultOfName(id, 'an id')
}

/** The error of a text id or a collection's name; undefined if it is valid. */
export function faultOfName(name: string, what: string): string | undefined {
  if (name === '') return `${what} must not be empty`
  return isWellFormed(name) ? undefined : `${what} must not hold a lone surrogate`
}
