import type { CollectionLookup, Overlay } from '../collections/overlay.ts'
import type { DomainEvent, Position } from '../events/event.ts'
import { type Journal, lastPosition, type Origin, partKey, type Recorded } from '../events/journal.ts'
import type { Projection } from '../events/projection.ts'
import { ChunkedList, type List } from '../runtime/chunked-list.ts'
import { Slices, type Steps } from '../runtime/time-slices.ts'
import { AcceptedWrites } from './accepted-writes.ts'
import { type BulkDecision, decideBulk, deletionsIn, type SelectItems } from './bulk.ts'
import type { BulkCommand, Command } from './command.ts'
import { notCreatedBefore } from './create-items.ts'
import { decide, isEvents } from './decide.ts'
import type { IdempotencyKeys } from './idempotency-keys.ts'
import { IdempotentRequests } from './idempotent-requests.ts'
import { latestItems } from './latest-items.ts'
import { type Edit, Merge } from './merge.ts'
import { checkKeys } from './natural-keys.ts'
import { type BulkOutcome, type EditMerge, type Outcome, outcomeOf, type RestoreOutcome } from './outcome.ts'
import { eventsOfWrite, recordedOutcome } from './recorded-outcomes.ts'
import { decideRestore, type Restoration } from './restore.ts'
import type { Rules } from './rules.ts'

export interface HandlerOptions {
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
  readonly #slices = new Slices()
  /** While a decision runs in steps: resolves when other commands may be decided. */
  #alone: Promise<void> | undefined

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
      ({ position }) => recordedOutcome(this.#journal, position),
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

  /** Begins to merge an edit of the data file. The origin's key is that of the last write; see docs/journal.md, J24. */
  merge(edit: Edit, origin: Origin): EditMerge {
    const merge = new Merge(edit, this.#rules)
    const writes: [Position, Position][] = []
    const latestWritten = new Set<string>()
    let basis: Position | undefined
    let events = 0
    const write = async (merging: (accepted: Overlay) => Steps<List<DomainEvent>>, who: Origin): Promise<void> => {
      await this.#decideAlone(async () => {
        const { head } = this.#state
        const { edited, made } = await this.#slices.run(() => this.#edited(merging(this.#state), latestWritten))
        basis ??= head
        if (made.length === 0) return { appended: undefined, outcome: undefined }
        events += made.length
        writes.push([head + 1, head + edited.length])
        return { appended: this.#accepted.appendFrom(head, made, who), outcome: undefined }
      })
    }
    return {
      part: () =>
        write((accepted) => merge.part(accepted), {
          ...origin,
          ...(origin.key && { key: partKey(origin.key) }),
        }),
      rest: async () => {
        await write((accepted) => merge.rest(accepted), origin)
        return { basis: basis ?? 0, events, writes, conflicts: merge.conflicts }
      },
    }
  }

  /** The events of an edit, and those with the resulting latest items, which are not in the file. */
  *#edited(
    merging: Steps<List<DomainEvent>>,
    latestWritten: Set<string>,
  ): Steps<{ readonly edited: List<DomainEvent>; readonly made: List<DomainEvent> }> {
    const edited = yield* merging
    yield* checkKeys(edited, this.#state, this.#rules, 'Invalid')
    const latest = yield* latestItems(edited, this.#state, this.#rules, latestWritten)
    if (latest.length === 0) return { edited, made: edited }
    const made = new ChunkedList<DomainEvent>()
    for (const event of edited) {
      made.push(event)
      yield
    }
    for (const event of latest) made.push(event)
    return { edited, made }
  }

  /** Restores an earlier state in one write. With `isDryRun` nothing is written. */
  async restore(restoration: Restoration, origin: Origin, isDryRun: boolean): Promise<RestoreOutcome> {
    const { outcome } = await this.#decideAlone(async () => {
      const { head } = this.#state
      const events = await this.#slices.run(() => decideRestore(restoration, this.#state, this.#rules))
      const isWritten = !isDryRun && events.length > 0
      const appended = isWritten ? this.#accepted.appendFrom(head, events, origin) : undefined
      return { appended, outcome: { position: isWritten ? head + events.length : head, events } }
    })
    return outcome
  }

  /**
   * Decides in steps against durable state, while all other decisions wait. They wait until a large write is durable,
   * because the overlay does not hold its events.
   */
  async #decideAlone<Outcome>(
    decision: () => Promise<{ readonly appended: Promise<Recorded> | undefined; readonly outcome: Outcome }>,
  ): Promise<{ readonly recorded: Recorded | undefined; readonly outcome: Outcome }> {
    while (this.#alone) await this.#alone
    let resolve = (): void => {}
    const alone = new Promise<void>((resolved) => {
      resolve = resolved
    })
    const done = (): void => {
      if (this.#alone === alone) this.#alone = undefined
      resolve()
    }
    this.#alone = alone
    try {
      const { flushed } = this.#accepted
      if (flushed) {
        await flushed.catch(() => {})
        // Storing them has blocked the event loop; the decision blocks it as long as a slice.
        await new Promise<void>((resolve) => setImmediate(resolve))
      }
      const { appended, outcome } = await decision()
      // Other commands may be decided on top of the overlay.
      if (this.#accepted.hasWritesInFlight) done()
      return { recorded: await appended, outcome }
    } finally {
      done()
    }
  }

  async #write(command: Command, origin: Origin): Promise<Outcome> {
    const { head, decided, recorded } = await this.#decideAndAppend(
      () => decide(command, this.#state, this.#rules),
      (decision) => (isEvents(decision) ? decision : []),
      origin,
    )
    if (recorded || isEvents(decided)) return outcomeOf(recorded as Recorded)
    return { position: head, event: undefined, item: decided }
  }

  async #writeBulk(command: BulkCommand, origin: Origin, isDryRun: boolean): Promise<BulkOutcome> {
    const selected = await Promise.all(deletionsIn(command).map((deletion) => this.#select(deletion)))
    const { head, decided, recorded } = await this.#decideAndAppend(
      () => decideBulk(command, this.#state, this.#rules, selected),
      ({ events }: BulkDecision) => (isDryRun ? [] : events),
      origin,
    )
    return { position: recorded ? lastPosition(recorded) : head, ...decided }
  }

  /** Decides short commands synchronously, and others alone. Appends nothing if there are no events. */
  async #decideAndAppend<Decided>(
    begin: () => Steps<Decided>,
    eventsOf: (decided: Decided) => List<DomainEvent>,
    origin: Origin,
  ): Promise<{ readonly head: Position; readonly decided: Decided; readonly recorded: Recorded | undefined }> {
    while (this.#alone) await this.#alone
    const begun = begin()
    const { head: basis } = this.#state
    const first = this.#accepted.decide(() => begun.next())
    const { done, value } = first instanceof Promise ? await first : first
    if (done) {
      const events = eventsOf(value)
      if (events.length > 0)
        return { head: basis, decided: value, recorded: await this.#accepted.append(events, origin) }
      // The decision may rest on writes that are being flushed.
      await this.#accepted.flushed
      return { head: basis, decided: value, recorded: undefined }
    }
    const { outcome, recorded } = await this.#decideAlone(async () => {
      const { head } = this.#state
      const steps = head === basis ? begun : begin()
      const decided = await this.#slices.run(() => steps)
      const events = eventsOf(decided)
      const appended = events.length > 0 ? this.#accepted.appendFrom(head, events, origin) : undefined
      return { appended, outcome: { head, decided } }
    })
    return { ...outcome, recorded }
  }

  async #recordedBulkOutcome(command: BulkCommand, position: Position): Promise<BulkOutcome> {
    const events = await eventsOfWrite(this.#journal, position)
    const notCreated =
      command.type === 'CreateItems'
        ? await this.#slices.run(() => notCreatedBefore(command, events, this.#state, this.#rules))
        : new Map<number, never>()
    return { position, events, notCreated }
  }
}
