import type { CollectionState } from '../collections/collection.ts'
import { type FileItem, FileItems } from '../collections/file-items.ts'
import { type Item, isItem, keyOf } from '../collections/item.ts'
import type { AcceptedState } from '../collections/overlay.ts'
import { type DomainEvent, OBJECT_ID } from '../events/event.ts'
import { ChunkedList, type List } from '../runtime/chunked-list.ts'
import { Refusal } from '../runtime/errors.ts'
import type { Steps } from '../runtime/time-slices.ts'
import type { BaseCollection, IsSame } from './collection-merge.ts'
import { type Edit, Merge } from './merge.ts'
import { checkKeys } from './natural-keys.ts'
import type { Rules } from './rules.ts'

/** The items that a collection is to have. They do not change. Items without an id get one. */
export interface RestoredCollection {
  items(): Iterable<FileItem>
}

/** The state to restore: whole collections, or one item. Undefined: it did not exist. */
export type Restoration =
  | { readonly type: 'collections'; readonly collections: ReadonlyMap<string, RestoredCollection | undefined> }
  | {
      readonly type: 'item'
      readonly collection: string
      readonly key: string
      readonly item: Item | undefined
    }

/** Restored items are equal byte for byte. */
// biome-ignore lint/correctness/useYield: nothing is left to compare
const onlyByText: IsSame = function* () {
  return false
}

/** Memory of an event besides its item's text, in characters. */
const EVENT_CHARACTERS = 100

/** Throws when the events of a restore would have more characters than one write may hold in memory. */
class CharacterLimit {
  #left: number

  constructor(characters: number) {
    this.#left = characters
  }

  take(characters: number): void {
    this.#left -= characters
    if (this.#left < 0) throw tooMany()
  }
}

class HeldEvents extends ChunkedList<DomainEvent> {
  readonly #limit: CharacterLimit

  constructor(limit: CharacterLimit) {
    super()
    this.#limit = limit
  }

  override push(event: DomainEvent): void {
    this.#limit.take(EVENT_CHARACTERS)
    super.push(event)
  }
}

function tooMany(): Refusal {
  const why = 'More items would change in one write than fit into memory.'
  const instead =
    'An edit of the data file is merged in parts: put the wanted state in its place, and POST /admin/reload.'
  const past = '"recollect replay --to <position> --out <file>" writes a past state, of all collections.'
  return new Refusal('Unprocessable', `${why} ${instead} ${past}`)
}

/** A restore is merged like an edit of the data file, made from the accepted state: only differences become events. */
export function* decideRestore(
  restoration: Restoration,
  accepted: AcceptedState,
  rules: Rules,
): Steps<List<DomainEvent>> {
  const limit = new CharacterLimit(rules.heldCharacters)
  const edit = yield* editOf(restoration, accepted, limit)
  const events = new HeldEvents(limit)
  yield* new Merge(edit, rules, onlyByText).rest(accepted, events)
  yield* checkKeys(events, accepted, rules, 'Conflict')
  return events
}

/** The edit concerns a single item only, whatever else exists; a restored item becomes the last. */
function* editOf(restoration: Restoration, accepted: AcceptedState, limit: CharacterLimit): Steps<Edit> {
  const base = new Map<string, BaseCollection>()
  const file = new Map<string, FileItems>()
  if (restoration.type === 'item') {
    const { collection: name, key, item } = restoration
    const collection = accepted.collection(name)
    const now = itemOf(collection, key)
    if (collection.exists && collection.isObject !== (key === OBJECT_ID)) throw otherKind(collection)
    if (!now && !item) return { base, file }
    const before: BaseCollection = {
      item: (asked) => (asked === key ? now : undefined),
      items: () => (now ? [now] : []),
    }
    if (collection.exists) base.set(name, before)
    if (item || key !== OBJECT_ID) file.set(name, yield* fileItems(item ? [item] : [], before, limit))
    return { base, file }
  }
  for (const [name, former] of restoration.collections) {
    const collection = accepted.collection(name)
    const before: BaseCollection = { item: (key) => itemOf(collection, key), items: () => collection.items() }
    if (collection.exists) base.set(name, before)
    if (former) file.set(name, yield* fileItems(former.items(), before, limit))
  }
  return { base, file }
}

function otherKind({ name, isObject }: CollectionState): Refusal {
  const kind = isObject ? 'a single object, which has no items' : 'a list of items'
  return new Refusal('Conflict', `${JSON.stringify(name)} is ${kind}: restore all of it, without an id.`)
}

function itemOf(collection: CollectionState, key: string): Item | undefined {
  const found = collection.get(key)
  return isItem(found) ? found : undefined
}

function* fileItems(all: Iterable<FileItem>, before: BaseCollection, limit: CharacterLimit): Steps<FileItems> {
  const items = new FileItems()
  for (const item of all) {
    const now = item.id === undefined ? undefined : before.item(keyOf(item.id))
    if (now?.text !== item.text) {
      limit.take(item.text.length)
      items.edit(items.length, item)
    }
    items.add(item.id)
    yield
  }
  return items
}
