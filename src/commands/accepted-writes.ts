import type { KeyFields } from '../collections/natural-keys.ts'
import { type CollectionLookup, Overlay } from '../collections/overlay.ts'
import type { DomainEvent, Position } from '../events/event.ts'
import { type Journal, lastPosition, type Origin, type Projection, type Recorded } from '../events/journal.ts'
import type { List } from '../runtime/chunked-list.ts'

interface InFlight {
  readonly last: Position
  readonly events: List<DomainEvent>
  readonly appended: Promise<Recorded>
}

/** The accepted state, and the writes in flight: those whose events are accepted and not durable yet. */
export class AcceptedWrites implements Projection {
  readonly #journal: Journal
  readonly #durable: CollectionLookup
  readonly #keyFields: KeyFields
  #state: Overlay
  #inFlight: InFlight[] = []

  constructor(journal: Journal, durable: CollectionLookup, keyFields: KeyFields) {
    this.#journal = journal
    this.#durable = durable
    this.#keyFields = keyFields
    this.#state = this.#stateAt(journal.head)
  }

  #stateAt(head: Position): Overlay {
    return new Overlay(this.#durable, head, this.#keyFields)
  }

  get state(): Overlay {
    return this.#state
  }

  /** Settles when the last write in flight does. */
  get flushed(): Promise<Recorded> | undefined {
    return this.#inFlight.at(-1)?.appended
  }

  apply(recorded: Recorded): void {
    const last = lastPosition(recorded)
    if (last <= this.#state.head) this.#state.settle(last)
    else {
      // Another node decided this write, so nothing that this node accepted is valid.
      this.#state = this.#stateAt(last)
      this.#inFlight = []
    }
  }

  /**
   * Decides in several turns. The caller holds the lock. A refusal is thrown after the last flush. The
   * decision is repeated if a write that was accepted before it fails meanwhile.
   */
  async decideInTurns<T>(decision: (state: Overlay) => Promise<T>): Promise<T & { readonly head: Position }> {
    for (;;) {
      const state = this.#state
      const { head } = state
      try {
        const decided = await decision(state)
        if (state === this.#state) return { ...decided, head }
      } catch (error) {
        await this.flushed?.catch(() => {})
        if (state === this.#state) throw error
      }
    }
  }

  append(events: List<DomainEvent>, origin: Origin): Promise<Recorded> {
    const state = this.#state
    const expected = state.head + 1
    state.accept(events)
    const appended = this.#journal.append({ expected, ...origin, events })
    const inFlight: InFlight = { last: state.head, events, appended }
    this.#inFlight.push(inFlight)
    appended.then(
      () => {
        if (this.#inFlight[0] === inFlight) this.#inFlight.shift()
      },
      () => this.#withdraw(inFlight),
    )
    return appended
  }

  /**
   * Everything accepted after a failed write fails with it, and retries are decided anew. Earlier writes are still in
   * flight: the journal may reject a write at once, such as one that is too large for a message of the cluster.
   */
  #withdraw(failed: InFlight): void {
    const index = this.#inFlight.indexOf(failed)
    if (index < 0) return
    const { head } = this.#journal
    this.#inFlight = this.#inFlight.slice(0, index).filter(({ last }) => last > head)
    this.#state = this.#stateAt(head)
    for (const { events } of this.#inFlight) this.#state.accept(events)
  }

  /** Appends a large write, which is not accepted before it is durable. The caller holds the lock until then. */
  appendLarge(events: List<DomainEvent>, origin: Origin): Promise<Recorded> {
    return this.#journal.append({ expected: this.#state.head + 1, ...origin, events })
  }
}
