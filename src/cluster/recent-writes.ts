import type { Position } from '../events/event.ts'
import { type Journal, lastPosition, type Projection, type Recorded, recordAt } from '../events/journal.ts'
import { Refusal } from '../runtime/errors.ts'

/** How long to wait for a write that another node has stored. */
const WAIT_MS = 10_000
const MOST_WRITES = 1024
/** Larger writes are not cached: all of them together may take 16 Mi characters. */
const MOST_EVENTS = 8
const MOST_CHARACTERS = 16 * 1024

/** Finds the write that ended at a position, as soon as this node has it. Must see writes after the views. */
export class RecentWrites implements Projection {
  readonly #journal: Pick<Journal, 'head' | 'at'>
  readonly #recent = new Map<Position, Recorded>()
  /** Those who wait for a position, which may be within a write. */
  readonly #waiting = new Map<Position, Set<() => void>>()

  constructor(journal: Pick<Journal, 'head' | 'at'>) {
    this.#journal = journal
  }

  apply(recorded: Recorded): void {
    const last = lastPosition(recorded)
    if (isSmall(recorded)) this.#recent.set(last, recorded)
    for (const oldest of this.#recent.keys()) {
      if (this.#recent.size <= MOST_WRITES) break
      this.#recent.delete(oldest)
    }
    for (const [position, waiting] of this.#waiting) {
      if (position > last) continue
      this.#waiting.delete(position)
      for (const resolve of waiting) resolve()
    }
  }

  /** Resolves when this node has the event at `position`; 0 resolves at once. */
  async reached(position: Position): Promise<void> {
    if (position <= this.#journal.head) return
    const waiting = this.#waiting.get(position) ?? new Set()
    this.#waiting.set(position, waiting)
    await new Promise<void>((resolve, reject) => {
      const arrived = (): void => {
        clearTimeout(late)
        resolve()
      }
      const late = setTimeout(() => {
        waiting.delete(arrived)
        if (waiting.size === 0) this.#waiting.delete(position)
        reject(
          new Refusal('OutcomeUnknown', `It was stored at position ${position}, which this node does not have yet.`),
        )
      }, WAIT_MS).unref()
      waiting.add(arrived)
    })
  }

  /** The write that ends at a position, or only its last event. */
  async endingAt(position: Position): Promise<Recorded> {
    await this.reached(position)
    const recent = this.#recent.get(position)
    if (recent) return recent
    return recordAt(this.#journal, position)
  }
}

function isSmall({ events }: Recorded): boolean {
  if (events.length > MOST_EVENTS) return false
  let characters = 0
  for (const event of events) if ('item' in event) characters += event.item.text.length
  return characters <= MOST_CHARACTERS
}
