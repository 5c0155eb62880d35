import pluralize from 'pluralize'
import type { Item } from '../collections/item.ts'
import { parseText } from '../json/parse.ts'
import { type Path, type Selection, select, valuesAt } from '../json/paths.ts'
import { isArray, isObject, type JsonObject, type JsonValue, own } from '../json/value.ts'
import { Refusal } from '../runtime/errors.ts'
import { textBytes } from '../runtime/memory.ts'
import { CHARACTERS_AT_ONCE, type Turn } from '../runtime/turns.ts'
import type { CollectionSnapshot } from './collection-snapshot.ts'
import { filterOf } from './filter.ts'
import type { Relation } from './json-server.ts'
import type { ItemText } from './page.ts'
import { RECEIVED, withReceived } from './parameter.ts'
import type { UnpagedQuery } from './result-cursor.ts'

export type { Item }

/** How items of one collection are shown inside those of another. */
interface Related {
  /** The member that shows them. */
  readonly member: string
  readonly collection: string
  /** The member of the item that refers to the other one by its id. */
  readonly field: string
  /** Whether an item shows the many items that refer to it; false: it shows the one to which it refers. */
  readonly isMany: boolean
}

/** A related collection, read at the position of the page. */
export interface RelatedSnapshot extends Related {
  readonly snapshot: CollectionSnapshot
}

type Each = (item: JsonObject, place: number) => void

/** Calls `each` with every wanted item, in any order. */
export type Match = (related: RelatedSnapshot, wanted: UnpagedQuery, each: Each, turn: Turn) => Promise<void>

/** Highest number of characters of a page with its embedded items, which are joined at once. */
const MOST_CHARACTERS = 2 ** 25
/** How often the text of an embedded item is held: by itself, in the list that shows it, and in the item around that. */
const COPIES = 3
/** Items whose children are found at once by their keys. */
const FOUND_AT_ONCE = 64

/** The member by which items refer to one of a collection: `postId` for `posts`, with the suffix `Id`. */
export function foreignKeyOf(collection: string, suffix: string): string {
  return `${pluralize.singular(collection)}${suffix}`
}

/** The relations to show in the items of a collection. Rejects names that are neither a collection nor the singular of one. */
export function relatedOf(
  collection: string,
  relations: readonly Relation[],
  suffix: string,
  isList: (name: string) => boolean,
): readonly Related[] {
  return relations.map(({ parameter, name }) => {
    if (parameter === '_embed' && isList(name)) {
      return { member: name, collection: name, field: foreignKeyOf(collection, suffix), isMany: true }
    }
    const plural = pluralize.plural(name)
    if (isList(plural)) return { member: name, collection: plural, field: `${name}${suffix}`, isMany: false }
    throw new Refusal(
      'Invalid',
      `The parameter ${parameter} names ${JSON.stringify(name)}, but there is no collection ${JSON.stringify(parameter === '_embed' ? name : plural)}.`,
    )
  })
}

/** The items as texts, with their related ones in them. `most` items are embedded in all. */
export async function embed(
  items: readonly Item[],
  fields: Selection | undefined,
  related: readonly RelatedSnapshot[],
  most: number,
  match: Match,
  turn: Turn,
): Promise<readonly ItemText[]> {
  const embedded = new Embedded(items.length, most, turn)
  for (const one of related) {
    if (one.isMany) await embedMany(items, one, embedded, match, turn)
    else await embedOne(items, one, embedded, turn)
  }
  const texts: ItemText[] = []
  for (const [index, item] of items.entries()) {
    if (turn.isOver) await turn.next()
    embedded.count(item.text, 1)
    const text = fields?.has(RECEIVED) ? withReceived(item.text, item.timeMs) : item.text
    texts.push({ text: withMembers(text, fields, embedded.membersOf(index)) })
  }
  return texts
}

/** The members to add to each item of a page, as JSON texts, in bounded number and length. */
class Embedded {
  readonly #most: number
  readonly #members: readonly Map<string, string>[]
  readonly #turn: Turn
  #items = 0
  #characters = 0

  constructor(size: number, most: number, turn: Turn) {
    this.#most = most
    this.#turn = turn
    this.#members = Array.from({ length: size }, () => new Map())
  }

  membersOf(index: number): ReadonlyMap<string, string> {
    return this.#members[index] as Map<string, string>
  }

  /** Adds a list of items, or an item, to one of the page. */
  set(index: number, member: string, texts: readonly string[], isList: boolean): void {
    const members = this.#members[index] as Map<string, string>
    let characters = 0
    for (const { length } of [...members.values(), ...texts]) characters += length
    if (characters > CHARACTERS_AT_ONCE) {
      const why = `An item with more than ${CHARACTERS_AT_ONCE} characters embedded is not sent`
      throw new Refusal('Invalid', `${why}; ask for those items by themselves.`)
    }
    members.set(member, isList ? `[${texts.join(',')}]` : (texts[0] as string))
  }

  countItem(text: string): void {
    if (++this.#items > this.#most) throw tooMuch(`more than ${this.#most} items`)
    this.count(text, COPIES)
  }

  /** Counts the characters of a text, and holds memory for its copies. */
  count(text: string, copies: number): void {
    this.#characters += text.length
    if (this.#characters > MOST_CHARACTERS) throw tooMuch(`more than ${MOST_CHARACTERS} characters`)
    this.#turn.hold(copies * textBytes(text))
  }
}

function tooMuch(what: string): Refusal {
  return new Refusal('Invalid', `A page with ${what} embedded is not sent; ask for a smaller page.`)
}

async function embedMany(
  items: readonly Item[],
  related: RelatedSnapshot,
  embedded: Embedded,
  match: Match,
  turn: Turn,
): Promise<void> {
  const { snapshot, field, member } = related
  const path: Path = [field]
  const isIndexed = snapshot.indexes.some(({ paths }) => paths[0]?.length === 1 && paths[0][0] === field)
  const atOnce = isIndexed ? FOUND_AT_ONCE : Math.max(1, items.length)
  for (let from = 0; from < items.length; from += atOnce) {
    const children = new Map<string, { readonly place: number; readonly text: string }[]>()
    for (const { key } of items.slice(from, from + atOnce)) children.set(key, [])
    // A scan looks a foreign key up in the map. A filter of thousands of keys cannot be created with pauses.
    const isFew = children.size <= FOUND_AT_ONCE
    const filter = isFew ? filterOf(path, 'eq', [...children.keys()]) : filterOf(path, 'exists', ['true'])
    const wanted = { filters: [filter], others: [], sort: [] }
    const each: Each = (item, place) => {
      for (const value of valuesAt(item, path)) {
        const found = children.get(scalarText(value) ?? '')
        if (!found || found.at(-1)?.place === place) continue
        const { text } = snapshot.items.itemAt(place) as Item
        embedded.countItem(text)
        found.push({ place, text })
      }
    }
    await match(related, wanted, each, turn)
    for (let index = from; index < Math.min(from + atOnce, items.length); index++) {
      const found = children.get((items[index] as Item).key) ?? []
      found.sort((a, b) => a.place - b.place)
      const texts = found.map(({ text }) => text)
      embedded.set(index, member, texts, true)
      if (turn.isOver) await turn.next()
    }
  }
}

async function embedOne(
  items: readonly Item[],
  { snapshot, field, member }: RelatedSnapshot,
  embedded: Embedded,
  turn: Turn,
): Promise<void> {
  for (const [index, { text }] of items.entries()) {
    if (turn.isOver) await turn.next()
    const key = scalarText(own(parseText(text) as JsonObject, field))
    const found = key === undefined || key === '' ? undefined : snapshot.items.item(key)
    if (!found) continue
    embedded.countItem(found.text)
    embedded.set(index, member, [found.text], false)
  }
}

function scalarText(value: JsonValue | undefined): string | undefined {
  return value === undefined || value === null || isArray(value) || isObject(value) ? undefined : String(value)
}

/** An item of which only `fields` are shown, with members that replace its own. */
function withMembers(text: string, fields: Selection | undefined, members: ReadonlyMap<string, string>): string {
  const names = [...members.keys()]
  const isReplaced = names.some((name) => text.includes(`${JSON.stringify(name)}:`))
  const own = fields || isReplaced ? withoutMembers(parseText(text) as JsonObject, fields, members) : text
  const added = names.map((name) => `${JSON.stringify(name)}:${members.get(name)}`).join(',')
  if (added === '') return own
  return own === '{}' ? `{${added}}` : `${own.slice(0, -1)},${added}}`
}

function withoutMembers(item: JsonObject, fields: Selection | undefined, members: ReadonlyMap<string, string>): string {
  const shown = fields ? select(item, fields) : item
  const kept = Object.keys(shown).filter((name) => !members.has(name))
  return JSON.stringify(Object.fromEntries(kept.map((name) => [name, shown[name] as JsonValue])))
}
