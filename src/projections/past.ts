import { type Collection, isItem } from '../collections/collection.ts'
import { Item } from '../collections/item.ts'
import { Corruption, Refusal } from '../errors.ts'
import { type ItemId, isItemEvent, type Position } from '../events/event.ts'
import type { Journal } from '../events/journal.ts'
import { isOutOfSpace } from '../files/files.ts'
import { parseSteps } from '../json/parse-steps.ts'
import type { JsonObject } from '../json/value.ts'
import { type Asker, abandoned, Slices, type Steps } from '../slices.ts'
import { Turns } from '../turns.ts'
import type { History } from './history.ts'
import { Views } from './views.ts'

/** Bytes that past states may have on disk together; the last one asked for is kept in any case. */
const KEPT_BYTES = 512 * 1024 * 1024
/** Of an item beside its text, about. */
const ITEM_BYTES = 120
/** So many states are folded at a time, as each reads the journal and holds what it has so far. */
const FOLDS_AT_ONCE = 2

const STAYING: Asker = { isGone: () => false }

interface KeptState {
  readonly name: string
  readonly at: Position
  readonly state: Promise<Folded>
  /** Those who wait for it. */
  readonly askers: Asker[]
  /** Undefined until it is. */
  folded: Folded | undefined
}

interface Folded {
  readonly collection: Collection
  /** On disk, about. */
  readonly bytes: number
}

/** Items of a collection, of which some match. */
interface Watched {
  readonly name: string
  readonly matches: (item: JsonObject) => Steps<boolean>
}

/**
 * What was. An item is read back from the journal, at a position that its history finds; a collection's past
 * state is folded again, in slices that hold nobody, and kept for a while.
 */
export class Past {
  readonly #journal: Pick<Journal, 'read'>
  readonly #views: Views
  readonly #history: History
  /** The least recently asked first. */
  readonly #states = new Map<string, KeptState>()
  readonly #folds = new Turns(FOLDS_AT_ONCE)
  readonly #slices = new Slices()

  constructor(journal: Pick<Journal, 'read'>, views: Views, history: History) {
    this.#journal = journal
    this.#views = views
    this.#history = history
  }

  /** Whether the collection existed right after an event. */
  existed(name: string, at: Position): boolean {
    return this.#history.existed(name, at)
  }

  /** The collections' names as they were right after an event. */
  names(at: Position): readonly string[] {
    return this.#views.namesEver().filter((name) => this.existed(name, at))
  }

  /** The item as it was right after an event. */
  async item(collection: string, key: string, at: Position): Promise<Item | undefined> {
    const now = this.#views.any(collection)?.get(key)
    if (!now || now.position <= at) return isItem(now) ? now : undefined
    const last = await this.#history.lastOf(this.#journal, collection, key, at)
    if (!last || last.event.type === 'ItemDeleted') return undefined
    const { event, position } = last
    return new Item(event.id, event.item, event.revision, position)
  }

  /**
   * The collection as it was right after an event; to be read at once, and not to be changed. Refuses when all who asked
   * for it are gone.
   */
  async collection(name: string, at: Position, asker = STAYING): Promise<Collection> {
    const now = this.#views.any(name)
    if (now && now.position <= at) return now
    const key = stateKey(name, at)
    const known = this.#states.get(key)
    if (known && !known.folded) known.askers.push(asker)
    const kept = known ?? this.#folding(name, at, asker)
    this.#states.delete(key)
    this.#states.set(key, kept)
    try {
      kept.folded = await kept.state
      kept.askers.length = 0
      this.#forgetOldest()
      return kept.folded.collection
    } catch (error) {
      if (this.#states.get(key) === kept) this.#states.delete(key)
      throw error
    }
  }

  /** The same, to be read as slowly as one likes. */
  async former(name: string, at: Position): Promise<Pick<Collection, 'items'>> {
    const then = await this.collection(name, at)
    return (then === this.#views.any(name) && this.#views.picture().get(name)) || then
  }

  /**
   * Makes of a collection's items that match at one position, their ids by their keys, those that matched at an earlier
   * one. It costs as much as has changed in between.
   */
  async turnBack(ids: Map<string, ItemId>, now: Position, then: Position, { name, matches }: Watched): Promise<void> {
    const changed = new Map<string, Position>()
    for await (const { events } of this.#journal.read(then + 1, now)) {
      for (const event of events) {
        if (!isItemEvent(event) || event.collection !== name) continue
        const key = String(event.id)
        if (!changed.has(key)) changed.set(key, event.prior)
      }
    }
    for (const [key, prior] of changed) {
      ids.delete(key)
      if (prior === 0) continue
      for await (const { events } of this.#journal.read(prior, prior)) {
        const [event] = events
        if (!event || !isItemEvent(event) || event.type === 'ItemDeleted') continue
        const { text } = event.item
        const matched = await this.#slices.run(function* () {
          return yield* matches((yield* parseSteps(text)) as JsonObject)
        })
        if (matched) ids.set(key, event.id)
      }
    }
  }

  #folding(name: string, at: Position, asker: Asker): KeptState {
    const askers = [asker]
    const checkAsked = (): void => {
      if (!askers.every((one) => one.isGone())) return
      // Whoever asks from now on begins anew.
      this.#states.delete(stateKey(name, at))
      throw abandoned()
    }
    const state = this.#folds.run(() => {
      checkAsked()
      return this.#fold(name, at, checkAsked)
    })
    return { name, at, state, askers, folded: undefined }
  }

  /** In a store of its own; `checkAsked` throws when it is to be given up. */
  async #fold(name: string, at: Position, checkAsked: () => void): Promise<Folded> {
    try {
      return await this.#folded(name, at, checkAsked)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') {
        throw new Corruption(`The directory ${this.#views.store.directory} was removed.`)
      }
      if (!isOutOfSpace(error)) throw error
      throw new Refusal('DiskFull', 'The disk is full: there is no room to put a past state together.')
    }
  }

  async #folded(name: string, at: Position, checkAsked: () => void): Promise<Folded> {
    const past = Views.temporary(this.#views.store.directory, ({ collection }) => collection === name)
    let bytes = 0
    const journal = this.#journal
    const asked = async function* () {
      for await (const recorded of journal.read(1, at)) {
        checkAsked()
        for (const event of recorded.events) {
          if (event.collection === name && 'item' in event) bytes += ITEM_BYTES + event.item.text.length
        }
        yield recorded
      }
    }
    await past.buildAll(asked())
    return { collection: past.any(name) as Collection, bytes }
  }

  #forgetOldest(): void {
    const all = [...this.#states]
    let total = all.reduce((sum, [, { folded }]) => sum + (folded?.bytes ?? 0), 0)
    for (const [key, { folded }] of all.slice(0, -1)) {
      if (total <= KEPT_BYTES) return
      if (!folded) continue
      this.#states.delete(key)
      total -= folded.bytes
    }
  }
}

function stateKey(name: string, at: Position): string {
  return `${at} ${name}`
}
