import { type DomainEvent, existsAfter, type ItemEvent, isItemEvent, type Position } from '../events/event.ts'
import { type Journal, positioned, type Recorded } from '../events/journal.ts'
import type { StoredProjection } from '../events/projection.ts'
import { Corruption } from '../runtime/errors.ts'
import { HIGHEST, POSITION_BYTES, positionOf, putPosition } from '../store/bytes.ts'
import { keyedKey, numberedKey, TAG, tableKey } from '../store/keys.ts'
import type { Row } from '../store/row.ts'
import type { Views } from './views.ts'

/** The store has every eighth position of an item's events, so that reading at most this many finds any of them. */
export const STRIDE = 8

const NOTHING = Buffer.alloc(0)
const LIFE = { removed: Buffer.from([0]), created: Buffer.from([1]) }

/**
 * Finds the events of each item, and the lifetime of each collection. Each event names the item's previous event, which
 * forms a chain; the store has only steps along it.
 */
export class History implements StoredProjection {
  readonly #views: Views

  constructor(views: Views) {
    this.#views = views
  }

  store(event: DomainEvent, position: Position): void {
    const { store } = this.#views
    const isStep = isItemEvent(event) && event.revision % STRIDE === 0
    const exists = existsAfter(event)
    if (!isStep && exists === undefined) return
    const number = this.#views.numberOf(event.collection) as number
    if (isStep) store.set(stepKey(number, String(event.id), position), NOTHING)
    if (exists !== undefined) store.set(numberedKey(TAG.life, number, position), exists ? LIFE.created : LIFE.removed)
  }

  existed(collection: string, at: Position): boolean {
    return this.#lifeAt(collection, at)?.value.equals(LIFE.created) === true
  }

  /** The last position up to `at` at which a collection was created or removed. */
  lifeOf(collection: string, at: Position): Position | undefined {
    const life = this.#lifeAt(collection, at)
    return life && positionOf(life.key, life.key.length - POSITION_BYTES)
  }

  /** The positions of a collection's first and last event; undefined if it never existed. */
  reachOf(collection: string): { readonly first: Position; readonly last: Position } | undefined {
    const number = this.#views.numberOf(collection)
    const last = this.#views.any(collection)?.position
    if (number === undefined || last === undefined) return undefined
    const [life] = this.#views.store.rows(lifeKey(number, 0), lifeKey(number, HIGHEST), { limit: 1 })
    return life && { first: positionOf(life.key, life.key.length - POSITION_BYTES), last }
  }

  /** The collections that ever had an item with this key. */
  collectionsOf(key: string): readonly string[] {
    return this.#views.namesEver().filter((name) => this.#views.any(name)?.get(key))
  }

  /** The events of an item between two positions, both inclusive, in order, each with its own position. */
  async *eventsOf(
    journal: Pick<Journal, 'read'>,
    collection: string,
    key: string,
    from: Position,
    to: Position,
  ): AsyncGenerator<Recorded> {
    for (let after = Math.max(0, from - 1); after < to; ) {
      const step = this.#stepFrom(collection, key, after + 1)
      if (step === undefined) return
      const run: Recorded[] = []
      for await (const found of chain(journal, step)) {
        if (found.position <= after) break
        run.push(found)
      }
      for (const found of run.reverse()) if (found.position <= to) yield found
      after = step
    }
  }

  /** An item's last event up to a position. */
  async lastOf(
    journal: Pick<Journal, 'read'>,
    collection: string,
    key: string,
    at: Position,
  ): Promise<{ readonly event: ItemEvent; readonly position: Position } | undefined> {
    const from = this.#stepFrom(collection, key, at) ?? this.#lastOf(collection, key)
    if (from === undefined) return undefined
    for await (const { position, events } of chain(journal, from)) {
      if (position <= at) return { event: events.at(0) as ItemEvent, position }
    }
    return undefined
  }

  /** A position from which the last event up to `at` is a few steps back; `prior` is also an event of the item. */
  stepTo(collection: string, key: string, at: Position, prior: Position): Position {
    return prior <= at ? prior : (this.#stepFrom(collection, key, at) ?? prior)
  }

  #lastOf(collection: string, key: string): Position | undefined {
    return this.#views.any(collection)?.get(key)?.position
  }

  #lifeAt(collection: string, at: Position): Row | undefined {
    const number = this.#views.numberOf(collection)
    if (number === undefined) return undefined
    const [life] = this.#views.store.rows(lifeKey(number, 0), lifeKey(number, at), { reverse: true, limit: 1 })
    return life
  }

  /** The first stored step of an item's chain at or after a position; the item's last event counts as one. */
  #stepFrom(collection: string, key: string, from: Position): Position | undefined {
    const number = this.#views.numberOf(collection)
    const last = this.#lastOf(collection, key)
    if (number === undefined || last === undefined || last < from) return undefined
    const [step] = this.#views.store.rows(stepKey(number, key, from), stepKey(number, key, last), { limit: 1 })
    return step ? positionOf(step.key, step.key.length - POSITION_BYTES) : last
  }
}

function stepKey(collection: number, key: string, position: Position): Buffer {
  const prefix = keyedKey(TAG.step, collection, key)
  const step = Buffer.allocUnsafe(prefix.length + POSITION_BYTES)
  prefix.copy(step)
  putPosition(step, prefix.length, position)
  return step
}

function lifeKey(collection: number, position: Position): Buffer {
  const prefix = tableKey(TAG.life, collection)
  const key = Buffer.allocUnsafe(prefix.length + POSITION_BYTES)
  prefix.copy(key)
  putPosition(key, prefix.length, position)
  return key
}

/** Positions closer than this are read together. */
const GAP = 64
/** Highest number of positions, and of characters of items, read together; the rest is read in the next round. */
const MOST_TOGETHER = 2048
const MOST_CHARACTERS = 1024 * 1024
/** Concurrent reads of the journal, each of which waits for the disk. */
const READS_AT_ONCE = 8
/** Highest number of positions of concurrent reads: decoding their events blocks the event loop. */
const POSITIONS_AT_ONCE = 64

/**
 * The last events up to a position of several items, given for each item an event from which to follow its chain back.
 * Reads the journal in order, each part of it a few times at most, however many events a write has.
 */
export async function* lastEvents<Item>(
  journal: Pick<Journal, 'read'>,
  from: ReadonlyMap<Position, Item>,
  at: Position,
): AsyncGenerator<{
  readonly item: Item
  readonly event: ItemEvent
  readonly position: Position
  readonly timeMs: number
}> {
  for (let wanted = from; wanted.size > 0; ) {
    const before = new Map<Position, Item>()
    const runs = runsOf([...wanted.keys()].sort((a, b) => a - b))
    for (const together of readTogether(runs)) {
      for (const [index, read] of (await Promise.all(together.map((run) => eventsAt(journal, run)))).entries()) {
        for (const [position, event, timeMs] of read) {
          const item = wanted.get(position) as Item
          if (position <= at) yield { item, event, position, timeMs }
          else before.set(event.prior, item)
        }
        for (const position of together[index]?.slice(read.length) ?? []) {
          before.set(position, wanted.get(position) as Item)
        }
      }
    }
    wanted = before
  }
}

/** Groups ascending positions into runs that are read together. */
function runsOf(positions: readonly Position[]): readonly (readonly Position[])[] {
  const runs: Position[][] = []
  for (const position of positions) {
    const run = runs.at(-1)
    if (run && run.length < MOST_TOGETHER && position - (run.at(-1) as Position) <= GAP) run.push(position)
    else runs.push([position])
  }
  return runs
}

function* readTogether(runs: readonly (readonly Position[])[]): Generator<readonly (readonly Position[])[]> {
  let together: (readonly Position[])[] = []
  let positions = 0
  for (const run of runs) {
    if (together.length === READS_AT_ONCE || positions + run.length > POSITIONS_AT_ONCE) {
      if (together.length > 0) yield together
      together = []
      positions = 0
    }
    together.push(run)
    positions += run.length
  }
  if (together.length > 0) yield together
}

/** The events at ascending positions; not all of them if the items are long. */
async function eventsAt(
  journal: Pick<Journal, 'read'>,
  positions: readonly Position[],
): Promise<readonly (readonly [Position, ItemEvent, number])[]> {
  const found: (readonly [Position, ItemEvent, number])[] = []
  let characters = 0
  for await (const recorded of journal.read(positions[0] as Position, positions.at(-1) as Position)) {
    for (const [position, event] of positioned(recorded)) {
      if (position !== positions[found.length] || !isItemEvent(event)) continue
      found.push([position, event, Date.parse(recorded.time)])
      if ('item' in event) characters += event.item.text.length
    }
    if (characters > MOST_CHARACTERS) return found
  }
  if (found.length < positions.length) {
    throw new Corruption(`The journal has no event of an item at position ${positions[found.length]}.`)
  }
  return found
}

/** The events of an item, backwards from a position. */
async function* chain(journal: Pick<Journal, 'read'>, from: Position): AsyncGenerator<Recorded> {
  for (let position = from; position > 0; ) {
    const found = await eventAt(journal, position)
    yield found
    position = priorOf(found.events.at(0))
  }
}

async function eventAt(journal: Pick<Journal, 'read'>, position: Position): Promise<Recorded> {
  for await (const recorded of journal.read(position, position)) return recorded
  throw new Error(`the journal has no event at position ${position}`)
}

function priorOf(event: DomainEvent | undefined): Position {
  return event && isItemEvent(event) ? event.prior : 0
}
