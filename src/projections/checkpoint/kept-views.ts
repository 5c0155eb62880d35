import type { Collection } from '../../collections/collection.ts'
import { type Gone, Item } from '../../collections/item.ts'
import type { ItemId, Position } from '../../events/event.ts'
import { Document } from '../../json/document.ts'
import type { Views } from '../views.ts'
import { gathered, type Kept, type Piece } from './kept.ts'

/** About what an item's fields take beside its text. */
const FIELD_CHARACTERS = 32

interface Fields {
  readonly names?: { readonly position: Position; readonly changed: Position }
  readonly collection: string
  readonly state?: Pick<Collection, 'exists' | 'nextId' | 'textIds' | 'position'>
  readonly ids?: readonly ItemId[]
  readonly gone?: readonly string[]
  readonly revisions: readonly number[]
  readonly positions: readonly Position[]
}

/** The collections with their items, in order, and what is known of those that were deleted. */
export function keptViews(views: Views): Kept {
  return {
    save(position) {
      const changed = views.namesPosition
      const collections = Array.from(views.ever(), (collection) => ({
        name: collection.name,
        state: {
          exists: collection.exists,
          nextId: collection.nextId,
          textIds: collection.textIds,
          position: collection.position,
        },
        items: collection.snapshot(),
        gone: collection.gone(),
      }))
      return (function* (): Generator<Piece> {
        for (const { name: collection, state, items, gone } of collections) {
          yield { fields: { collection, state } }
          yield* gathered(
            items,
            ({ text }) => text.length + FIELD_CHARACTERS,
            (some) => piecesOfItems(collection, some),
          )
          yield* gathered(
            upTo(gone, position),
            ([key]) => key.length + FIELD_CHARACTERS,
            (some) => pieceOfGone(collection, some),
          )
        }
        yield { fields: { names: { position, changed } } }
      })()
    },

    restore({ fields, texts = [] }) {
      const { names, collection: name, state, ids, gone, revisions, positions } = fields as unknown as Fields
      if (names) {
        views.goOnFrom(names.position, names.changed)
        return
      }
      const collection = views.made(name)
      if (state) Object.assign(collection, state)
      for (const [index, id] of ids?.entries() ?? []) {
        const document = new Document(texts[index] as string)
        collection.put(new Item(id, document, revisions[index] as number, positions[index] as Position))
      }
      for (const [index, key] of gone?.entries() ?? []) {
        collection.remove(key, { revision: revisions[index] as number, position: positions[index] as Position })
      }
    },

    clear: () => views.clear(),
  }
}

function piecesOfItems(collection: string, items: readonly Item[]): Piece {
  return {
    fields: {
      collection,
      ids: items.map(({ id }) => id),
      revisions: items.map(({ revision }) => revision),
      positions: items.map(({ position }) => position),
    },
    texts: items.map(({ text }) => text),
  }
}

function pieceOfGone(collection: string, gone: readonly (readonly [string, Gone])[]): Piece {
  return {
    fields: {
      collection,
      gone: gone.map(([key]) => key),
      revisions: gone.map(([, { revision }]) => revision),
      positions: gone.map(([, { position }]) => position),
    },
  }
}

/** What was deleted later may show up while the others are gone through; its item is still there at this position. */
function* upTo(gone: Iterable<readonly [string, Gone]>, last: Position): Generator<readonly [string, Gone]> {
  for (const entry of gone) if (entry[1].position <= last) yield entry
}
