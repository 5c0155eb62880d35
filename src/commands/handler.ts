import type { CollectionLookup, Overlay } from '../collections/overlay.ts'
import type { DomainEvent, Position } from '../events/event.ts'
import {
  isLarge,
  type Journal,
  lastPosition,
  type Origin,
  type Projection,
  type Recorded,
  recordAt,
} from '../events/journal.ts'
import type { List } from '../runtime/chunked-list.ts'
import { Refusal } from '../runtime/errors.ts'
import { type Turn, Turns } from '../runtime/turns.ts'
import { AcceptedWrites } from './accepted-writes.ts'
import { decideBulk, deletionsIn, listsItems, type SelectItems } from './bulk.ts'
import type { BulkCommand, Command } from './command.ts'
import { notCreatedBefore } from './create-items.ts'
import { type Decision, decide, isEvents } from './decide.ts'
import { decideEdit } from './decide-edit.ts'
import type { Edit } from './edit.ts'
import { eventsOfWrite, type IdempotencyKeys, IdempotentRequests } from './idempotency-keys.ts'
import { checkKeys } from './key-conflicts.ts'
import { latestItems } from './latest-items.ts'
import { type BulkOutcome, type MergeOutcome, type Outcome, outcomeOf, type RestoreOutcome } from './outcome.ts'
import { decideRestore, type Restoration } from './restore.ts'
import type { Rules } from './rules.ts'

interface HandlerOptions {
  readonly journal: Journal
  readonly durable: CollectionLookup
  readonly rules: Rules
  readonly now: () => Date
  readonly idempotencyKeys?: Pick<IdempotencyKeys, 'find'>
  /** Finds items for deletions by filter; without it there are none. */
  readonly select?: SelectItems
}

/**
 * Decides commands one after the other against the accepted state, and resolves when their events are durable and
 * readable. Any number of writes may be in flight; deciding does not wait for their flushes.
 */
export class CommandHandler implements Projection {
  readonly #journal: Journal
  readonly #rules: Rules
  readonly #accepted: AcceptedWrites
  readonly #requests: IdempotentRequests
  readonly #select: SelectItems
  readonly #lock = new DecisionLock()
  readonly #turns = new Turns()

  constructor({ journal, durable, rules, now, idempotencyKeys, select = async () => undefined }: HandlerOptions) {
    this.#journal = journal
    this.#rules = rules
    this.#accepted = new AcceptedWrites(journal, durable, rules.keyFields)
    this.#requests = new IdempotentRequests(idempotencyKeys, now)
    this.#select = select
  }

  get #state(): Overlay {
    return this.#accepted.state
  }

  apply(recorded: Recorded): void {
    this.#accepted.apply(recorded)
  }

  handle(command: Command, origin: Origin): Promise<Outcome> {
    return this.#requests.run(
      origin,
      () => this.#write(command, origin),
      async ({ position }) => outcomeOf(await recordAt(this.#journal, position)),
    )
  }

  /** Decides a command on many items, whose events are one write. With `isDryRun` nothing is written. */
  bulk(command: BulkCommand, origin: Origin, isDryRun = false): Promise<BulkOutcome> {
    if (isDryRun) return this.#writeBulk(command, origin, true)
    return this.#requests.run(
      origin,
      () => this.#writeBulk(command, origin, false),
      ({ position }) => this.#recordedBulkOutcome(command, position),
    )
  }

  /**
   * Merges an edit of the data file in one write. `latestWritten` collects the latest items that earlier parts of a first
   * import wrote.
   */
  async merge(edit: Edit, origin: Origin, latestWritten = new Set<string>()): Promise<MergeOutcome> {
    const { position, edited, events, conflicts } = await this.#decideAlone({ origin }, async (state, turn) => {
      const { events, conflicts } = await decideEdit(edit, state, this.#rules, turn)
      await checkKeys(events, state, this.#rules, 'Invalid', turn)
      const edited = events.length
      for (const event of await latestItems(events, state, this.#rules, turn, latestWritten)) events.push(event)
      return { edited, events, conflicts }
    })
    return { basis: position - events.length, edited, events: events.length, conflicts }
  }

  /** Restores an earlier state in one write. With `isDryRun` nothing is written. */
  restore(restoration: Restoration, origin: Origin, isDryRun: boolean): Promise<RestoreOutcome> {
    return this.#decideAlone({ origin, isDryRun }, async (state, turn) => {
      const events = await decideRestore(restoration, state, this.#rules, turn)
      await checkKeys(events, state, this.#rules, 'Conflict', turn)
      return { events }
    })
  }

  async #write(command: Command, origin: Origin): Promise<Outcome> {
    while (this.#lock.released) await this.#lock.released
    const { head } = this.#state
    let decision: Decision
    try {
      decision = decide(command, this.#state, this.#rules)
    } catch (error) {
      // A refusal may rest on the writes in flight, as may the decision to change nothing.
      if (error instanceof Refusal) await this.#accepted.flushed
      throw error
    }
    if (isEvents(decision)) return outcomeOf(await this.#accepted.append(decision, origin))
    await this.#accepted.flushed
    return { position: head, event: undefined, item: decision }
  }

  async #writeBulk(command: BulkCommand, origin: Origin, isDryRun: boolean): Promise<BulkOutcome> {
    const deletions = deletionsIn(command)
    // Without a search, the lock is taken at once, so that writes are decided in the order of their arrival.
    const selected = deletions.length > 0 ? await Promise.all(deletions.map((one) => this.#select(one))) : []
    const options = { origin, isDryRun, isListing: listsItems(command) }
    return this.#decideAlone(options, (state, turn) => decideBulk(command, state, this.#rules, selected, turn))
  }

  /**
   * Decides in turns of the event loop while all other decisions wait. With `isListing` it waits for pending flushes
   * first, because the accepted state cannot list items whose events are not durable.
   */
  #decideAlone<Decision extends { readonly events: List<DomainEvent> }>(
    { origin, isDryRun = false, isListing = true }: DecisionOptions,
    decide: (state: Overlay, turn: Turn) => Promise<Decision>,
  ): Promise<Decision & { readonly position: Position }> {
    return this.#lock.hold(async (release) => {
      if (isListing) await this.#accepted.flushed?.catch(() => {})
      const decided = await this.#accepted.decideInTurns((state) => this.#turns.run((turn) => decide(state, turn)))
      const { head, events } = decided
      if (isDryRun || events.length === 0) {
        release()
        await this.#accepted.flushed
        return { ...decided, position: head }
      }
      // The accepted state does not get the events of a large write, so the lock is held until they are durable.
      const appended = isLarge(events)
        ? await this.#accepted.appendLarge(events, origin)
        : this.#accepted.append(events, origin)
      release()
      return { ...decided, position: lastPosition(await appended) }
    })
  }

  async #recordedBulkOutcome(command: BulkCommand, position: Position): Promise<BulkOutcome> {
    const events = await eventsOfWrite(this.#journal, position)
    const notCreated =
      command.type === 'CreateItems'
        ? await this.#turns.run((turn) => notCreatedBefore(command, events, this.#state, this.#rules, turn))
        : new Map<number, never>()
    return { position, events, notCreated }
  }
}

interface DecisionOptions {
  readonly origin: Origin
  readonly isDryRun?: boolean
  readonly isListing?: boolean
}

/** Held by a decision that takes several turns of the event loop: until then, the accepted state does not change. */
export class DecisionLock {
  #released: Promise<void> | undefined

  /** Resolves when the decision releases the lock, which another one may hold by then; undefined while it is free. */
  get released(): Promise<void> | undefined {
    return this.#released
  }

  /** `work` may release the lock before its end. */
  async hold<Result>(work: (release: () => void) => Promise<Result>): Promise<Result> {
    while (this.#released) await this.#released
    let resolve = (): void => {}
    const released = new Promise<void>((resolved) => {
      resolve = resolved
    })
    const release = (): void => {
      if (this.#released === released) this.#released = undefined
      resolve()
    }
    this.#released = released
    try {
      return await work(release)
    } finally {
      release()
    }
  }
}
