import { KeyMap } from '../collections/key-map.ts'
import { type DomainEvent, type ItemEvent, isItemEvent, type Position } from '../events/event.ts'
import type { Journal, Recorded } from '../events/journal.ts'
import { type Steps as InSteps, Slices } from '../slices.ts'
import { gathered, type Kept, type Piece } from './checkpoint/kept.ts'
import type { Views } from './views.ts'

/** Every so many events of an item the position of one is kept: at most so many are read to find any of them. */
export const STRIDE = 8

/**
 * Where in the journal each item's events are, and when each collection existed. An event names its item's event
 * before, so that a chain leads from an item's last event to its first; kept in memory are only steps along it.
 */
export class History implements Kept {
  readonly #views: Views
  /** Of each collection's items, the positions of every STRIDE-th event. */
  readonly #steps = new Map<string, KeyMap<Position[]>>()
  /** Creations and removals by turns. */
  readonly #lives = new Map<string, Position[]>()
  readonly #slices = new Slices()
  #prepared: Recorded | undefined

  /** To be fed after the views. */
  constructor(views: Views) {
    this.#views = views
  }

  apply(recorded: Recorded): void {
    const prepared = this.#prepared
    this.#prepared = undefined
    if (prepared === recorded) return
    let position = recorded.position
    for (const event of recorded.events) this.#noteEvent(event, position++)
  }

  /** Notes a large write beforehand, in slices: what comes after the views' last event is not seen. */
  async prepare(recorded: Recorded): Promise<void> {
    await this.#slices.run(() => this.#noting(recorded))
    this.#prepared = recorded
  }

  *#noting(recorded: Recorded): InSteps<void> {
    let position = recorded.position
    for (const event of recorded.events) {
      this.#noteEvent(event, position++)
      yield
    }
  }

  #noteEvent(event: DomainEvent, position: Position): void {
    if (isItemEvent(event)) {
      if (event.revision % STRIDE === 0) this.#note(event.collection, String(event.id), position)
    } else if (event.type !== 'CollectionOrdered') {
      const lives = this.#lives.get(event.collection)
      if (lives) lives.push(position)
      else this.#lives.set(event.collection, [position])
    }
  }

  *save(position: Position): Generator<Piece> {
    for (const [collection, lives] of this.#lives) {
      yield { fields: { collection, lives: lives.slice(0, countUpTo(lives, position)) } }
    }
    for (const [collection, items] of this.#steps) {
      const lengthOf = ([key, ...steps]: Steps) => key.length + 8 * steps.length
      yield* gathered(stretchesOf(items, position), lengthOf, (steps) => ({ fields: { collection, steps } }))
    }
  }

  restore({ fields }: Piece): void {
    const { collection, lives, steps } = fields as {
      readonly collection: string
      readonly lives?: Position[]
      readonly steps?: readonly Steps[]
    }
    if (lives) this.#lives.set(collection, lives)
    for (const [key, ...positions] of steps ?? []) {
      for (const position of positions) this.#note(collection, key, position)
    }
  }

  clear(): void {
    this.#lives.clear()
    this.#steps.clear()
  }

  existed(collection: string, at: Position): boolean {
    return (countUpTo(this.#lives.get(collection) ?? [], at) & 1) === 1
  }

  /** The positions of a collection's first and last event; undefined when there never was such a collection. */
  reachOf(collection: string): { readonly first: Position; readonly last: Position } | undefined {
    const [first] = this.#lives.get(collection) ?? []
    const last = this.#views.any(collection)?.position
    return first === undefined || last === undefined ? undefined : { first, last }
  }

  /** The collections that ever had an item of this key. */
  collectionsOf(key: string): readonly string[] {
    return this.#views.namesEver().filter((name) => this.#views.any(name)?.get(key))
  }

  /** The events of an item that lie between two positions, both inclusive, in order, each with its own position. */
  async *eventsOf(
    journal: Pick<Journal, 'read'>,
    collection: string,
    key: string,
    from: Position,
    to: Position,
  ): AsyncGenerator<Recorded> {
    const steps = this.#stepsOf(collection, key)
    let after = Math.max(0, from - 1)
    for (let index = countUpTo(steps, after); index < steps.length && after < to; index++) {
      const step = steps[index] as Position
      const run: Recorded[] = []
      for await (const found of chain(journal, step)) {
        if (found.position <= after) break
        run.push(found)
      }
      for (const found of run.reverse()) if (found.position <= to) yield found
      after = step
    }
  }

  /** An item's last event that is not beyond a position. */
  async lastOf(
    journal: Pick<Journal, 'read'>,
    collection: string,
    key: string,
    at: Position,
  ): Promise<{ readonly event: ItemEvent; readonly position: Position } | undefined> {
    const steps = this.#stepsOf(collection, key)
    const from = steps[countUpTo(steps, at - 1)] ?? steps.at(-1)
    if (from === undefined) return undefined
    for await (const { position, events } of chain(journal, from)) {
      if (position <= at) return { event: events.at(0) as ItemEvent, position }
    }
    return undefined
  }

  /** Steps along the item's chain, ascending; the last one is its last event. */
  #stepsOf(collection: string, key: string): readonly Position[] {
    const last = this.#views.any(collection)?.get(key)?.position
    if (last === undefined) return []
    const kept = this.#steps.get(collection)?.get(key) ?? []
    const latest = kept.at(-1) ?? 0
    if (latest === last) return kept
    return [...(latest < last ? kept : kept.slice(0, countUpTo(kept, last - 1))), last]
  }

  #note(collection: string, key: string, position: Position): void {
    let items = this.#steps.get(collection)
    if (!items) {
      items = new KeyMap()
      this.#steps.set(collection, items)
    }
    const positions = items.get(key)
    if (positions) positions.push(position)
    else items.set(key, [position])
  }
}

/** An item's key, and some of the steps along its chain. */
type Steps = readonly [string, ...Position[]]

const STRETCH = 4096

/** Up to a position; an item with very many has them in several stretches, lest one of them hold everybody. */
function* stretchesOf(items: Iterable<readonly [string, readonly Position[]]>, last: Position): Generator<Steps> {
  for (const [key, steps] of items) {
    const count = countUpTo(steps, last)
    for (let from = 0; from < count; from += STRETCH) yield [key, ...steps.slice(from, Math.min(count, from + STRETCH))]
  }
}

/** The events of an item from one on backwards. */
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

/** How many of the ascending positions are not beyond another. */
function countUpTo(ascending: readonly Position[], last: Position): number {
  let low = 0
  let high = ascending.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((ascending[middle] as Position) <= last) low = middle + 1
    else high = middle
  }
  return low
}
