import type { Position } from '../events/event.ts'
import { type Journal, lastPosition, type Projection, type Recorded } from '../events/journal.ts'
import { Refusal } from '../runtime/errors.ts'

/** How long to wait for a write that another node has stored. */
const WAIT_MS = 10_000
const MOST_WRITES = 1024
/** Larger writes are not cached: all of them together may take 16 Mi characters. */
const MOST_EVENTS = 8
const MOST_CHARACTERS = 16 * 1024

type Waiting = Map<Position, ((recorded: Recorded) => void)[]>

/** Finds the write that ended at a position, as soon as this node has it. Must see writes after the views. */
export class RecentWrites implements Projection {
  readonly #journal: Pick<Journal, 'head' | 'read'>
  readonly #recent = new Map<Position, Recorded>()
  /** Those who wait for the write that ends at a position. */
  readonly #ending: Waiting = new Map()
  /** Those who wait for a position, which may be within a write. */
  readonly #reaching: Waiting = new Map()

  constructor(journal: Pick<Journal, 'head' | 'read'>) {
    this.#journal = journal
  }

  apply(recorded: Recorded): void {
    const last = lastPosition(recorded)
    if (isSmall(recorded)) this.#recent.set(last, recorded)
    for (const oldest of this.#recent.keys()) {
      if (this.#recent.size <= MOST_WRITES) break
      this.#recent.delete(oldest)
    }
    resolveAll(this.#ending, last, recorded)
    for (const position of this.#reaching.keys()) if (position <= last) resolveAll(this.#reaching, position, recorded)
  }

  /** Resolves when this node has the event at `position`; 0 resolves at once. */
  async reached(position: Position): Promise<void> {
    if (position > this.#journal.head) await arrival(this.#reaching, position)
  }

  /** The write, or the part that the journal returns for its last position. */
  async endingAt(position: Position): Promise<Recorded> {
    const recent = this.#recent.get(position)
    if (recent) return recent
    if (position > this.#journal.head) return arrival(this.#ending, position)
    for await (const recorded of this.#journal.read(position, position)) return recorded
    throw new Error(`the journal holds no event at position ${position}, though it was stored`)
  }
}

function arrival(all: Waiting, position: Position): Promise<Recorded> {
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => {
      const waiting = all.get(position)?.filter((one) => one !== arrived) ?? []
      if (waiting.length > 0) all.set(position, waiting)
      else all.delete(position)
      reject(new Refusal('OutcomeUnknown', `It was stored at position ${position}, which this node does not have yet.`))
    }, WAIT_MS).unref()
    const arrived = (recorded: Recorded): void => {
      clearTimeout(late)
      resolve(recorded)
    }
    all.set(position, [...(all.get(position) ?? []), arrived])
  })
}

function resolveAll(all: Waiting, position: Position, recorded: Recorded): void {
  const waiting = all.get(position)
  if (!waiting) return
  all.delete(position)
  for (const resolve of waiting) resolve(recorded)
}

function isSmall({ events }: Recorded): boolean {
  if (events.length > MOST_EVENTS) return false
  let characters = 0
  for (const event of events) if ('item' in event) characters += event.item.text.length
  return characters <= MOST_CHARACTERS
}
