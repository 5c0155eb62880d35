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
import { FormerCollection } from './former.ts'
import type { History } from './history.ts'
import { HeldReading, type Reading } from './query/index/reading.ts'
import { Views } from './views.ts'

/** What past states may take together: bytes on disk of those that were folded, */
const KEPT_BYTES = 512 * 1024 * 1024
/** and characters in memory of the others. The last one asked for is kept in any case. */
const KEPT_CHARACTERS = 32 * 1024 * 1024
/** So many are kept, */
const MOST_KEPT = 8
/** for so long after they were last asked for: the store keeps what is replaced meanwhile. */
const KEPT_MS = 30_000
/** and for so long at most, lest what is replaced is kept for ever: then it is made anew. */
const MOST_MS = 300_000
/** Of an item beside its text, about. */
const ITEM_BYTES = 120
/** So many states are made at a time, as each reads the journal and holds what it has so far. */
const MADE_AT_ONCE = 2

const STAYING: Asker = { isGone: () => false }

/** A past state, whole or being made. */
interface Kept {
  readonly key: string
  readonly made: Promise<Made>
  /** Those who wait for it. */
  readonly askers: Asker[]
  /** Of what past states may take. */
  share: number
  /** Those who read it. */
  readers: number
  usedMs: number
  readonly begunMs: number
}

interface Made {
  readonly reading: Reading
  readonly share: number
}

/** Items of a collection, of which some match. */
interface Watched {
  readonly name: string
  readonly matches: (item: JsonObject) => Steps<boolean>
}

/**
 * What was. An item is read back from the journal, at a position that its history finds. A collection is what it is now
 * but for what changed since; where that is very much, or its order changed, it is folded again. Both are kept for a while.
 */
export class Past {
  readonly #journal: Pick<Journal, 'read'>
  readonly #views: Views
  readonly #history: History
  /** The least recently asked first. */
  readonly #kept = new Map<string, Kept>()
  readonly #turns = new Turns(MADE_AT_ONCE)
  readonly #slices = new Slices()
  #forgetting: NodeJS.Timeout | undefined

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
    if (!last || !('item' in last.event)) return undefined
    const { event, position } = last
    return new Item(event.id, event.item, event.revision, position)
  }

  /** The collection, which there was, as it was right after an event. It is to be released. Refuses when all who asked for it are gone. */
  async collection(name: string, at: Position, asker = STAYING): Promise<Reading> {
    const now = this.#views.any(name) as Collection
    // Whatever comes after its last event, it is the same.
    const position = Math.min(at, now.position)
    const key = `${position} ${name}`
    const found = this.#kept.get(key)
    const known = found && performance.now() - found.begunMs < MOST_MS ? found : undefined
    const kept = known ?? this.#making(key, now, position, asker)
    if (known) known.askers.push(asker)
    kept.readers++
    this.#kept.delete(key)
    this.#kept.set(key, kept)
    if (found && !known) this.#letGo(found)
    try {
      const { reading, share } = await kept.made
      kept.askers.length = 0
      kept.share = share
      this.#forget()
      return releasing(reading, at, () => this.#released(kept))
    } catch (error) {
      if (this.#kept.get(key) === kept) this.#kept.delete(key)
      throw error
    }
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
        if (!event || !isItemEvent(event) || !('item' in event)) continue
        const { text } = event.item
        const matched = await this.#slices.run(function* () {
          return yield* matches((yield* parseSteps(text)) as JsonObject)
        })
        if (matched) ids.set(key, event.id)
      }
    }
  }

  #making(key: string, now: Collection, at: Position, asker: Asker): Kept {
    const askers = [asker]
    const checkAsked = (): void => {
      if (!askers.every((one) => one.isGone())) return
      // Whoever asks from now on begins anew.
      this.#kept.delete(key)
      throw abandoned()
    }
    const made = this.#turns.run(() => {
      checkAsked()
      return this.#made(now, at, checkAsked)
    })
    return { key, made, askers, share: 0, readers: 0, usedMs: 0, begunMs: performance.now() }
  }

  /** `checkAsked` throws when it is to be given up. */
  async #made(now: Collection, at: Position, checkAsked: () => void): Promise<Made> {
    const former = await FormerCollection.at(now, at, {
      store: this.#views.store,
      journal: this.#journal,
      history: this.#history,
      indexes: this.#views.indexes.of(now.facts.table),
      rest: async () => {
        checkAsked()
        await new Promise((resolve) => setImmediate(resolve))
      },
    })
    if (former) return { reading: former, share: former.characters / KEPT_CHARACTERS }
    try {
      return await this.#folded(now.name, at, checkAsked)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') {
        throw new Corruption(`The directory ${this.#views.store.directory} was removed.`)
      }
      if (!isOutOfSpace(error)) throw error
      throw new Refusal('DiskFull', 'The disk is full: there is no room to put a past state together.')
    }
  }

  /** From the journal, in a store of its own. */
  async #folded(name: string, at: Position, checkAsked: () => void): Promise<Made> {
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
    return { reading: new HeldReading(past.any(name) as Collection, []), share: bytes / KEPT_BYTES }
  }

  #released(kept: Kept): void {
    kept.readers--
    kept.usedMs = performance.now()
    if (this.#kept.get(kept.key) !== kept) this.#letGo(kept)
    this.#forget()
  }

  /** One that is found by nobody any more; the last who reads it does this again. */
  #letGo({ readers, made }: Kept): void {
    if (readers === 0) void made.then(({ reading }) => reading.release())
  }

  /** Those that nobody reads, of which there are too many, or which were not asked for of late. */
  #forget(): void {
    const last = [...this.#kept.values()].at(-1)
    let total = 0
    for (const { share } of this.#kept.values()) total += share
    const oldestMs = performance.now() - KEPT_MS
    for (const kept of this.#kept.values()) {
      const { key, share, readers, usedMs } = kept
      if (readers > 0) continue
      const isOld = usedMs <= oldestMs
      if (!isOld && (kept === last || (total <= 1 && this.#kept.size <= MOST_KEPT))) continue
      this.#kept.delete(key)
      total -= share
      this.#letGo(kept)
    }
    if (this.#kept.size === 0) return
    this.#forgetting ??= setTimeout(() => {
      this.#forgetting = undefined
      this.#forget()
    }, KEPT_MS).unref()
  }
}

/** The same, of the position that was asked for, and with another release. */
function releasing(reading: Reading, at: Position, released: () => void): Reading {
  const { items, position, exists, indexes } = reading
  return { items, at, position, exists, indexes, keysOf: (index) => reading.keysOf(index), release: released }
}
