import { Item } from '../collections/item.ts'
import { type FindCollection, Overlay } from '../collections/overlay.ts'
import { type DomainEvent, type ItemEvent, isItemEvent, type Position } from '../events/event.ts'
import { isLarge, type Journal, lastPosition, type Origin, partKey, type Recorded } from '../events/journal.ts'
import type { Projection } from '../events/projection.ts'
import { ChunkedList, type List } from '../runtime/chunked-list.ts'
import { Refusal } from '../runtime/errors.ts'
import { Slices, type Steps } from '../runtime/time-slices.ts'
import { type Answered, type AnsweredRequest, nameOf } from './answered-requests.ts'
import { type BulkDecision, decideBulk, deletionsIn, type Select } from './bulk.ts'
import type { BulkCommand, Command } from './command.ts'
import { type NotCreatedItems, notCreatedBefore } from './create-items.ts'
import { decide, isEvents } from './decide.ts'
import { latestItems } from './latest.ts'
import { type Edit, Merge, type MergeConflict } from './merge.ts'
import { checkKeys } from './natural-keys.ts'
import { eventsOfWrite } from './recorded-write.ts'
import { type Restoration, restoring } from './restore.ts'
import type { Rules } from './rules.ts'

/** The result of a command on an item, durable and readable. */
export interface Outcome {
  /** The position of the write's last event, or of the state that was read if nothing was written. */
  readonly position: Position
  /** Undefined when nothing was written, as the item is to stay as it is. */
  readonly event: ItemEvent | undefined
  /** The item as it is then; undefined after a deletion. */
  readonly item: Item | undefined
}

/** An edit of the data file that is merged in parts. */
export interface EditMerging {
  /** Writes the edited items found so far. More will follow. */
  part(): Promise<void>
  /** Writes everything else. Most edits need only this write. */
  rest(): Promise<MergeOutcome>
}

export interface MergeOutcome {
  /** Position of the last event before the edit's first event. */
  readonly basis: Position
  readonly events: number
  /** The first and the last position of what each write has from the file. */
  readonly writes: readonly (readonly [Position, Position])[]
  readonly conflicts: readonly MergeConflict[]
}

export interface RestoreOutcome {
  /** Position of the last event, or of the compared state if there are no events. */
  readonly position: Position
  /** The events that were, or would be, appended. */
  readonly events: List<DomainEvent>
}

/** The result of a command on many items. */
export interface BulkOutcome {
  /** Position of the last event, or of the compared state if there are no events. */
  readonly position: Position
  /** The events that were, or would be, appended. */
  readonly events: List<DomainEvent>
  readonly notCreated: NotCreatedItems
}

const NOTHING_ANSWERED: Pick<Answered, 'find'> = { find: () => undefined }

export interface HandlerOptions {
  readonly journal: Journal
  /** The durable collections. */
  readonly durable: FindCollection
  readonly rules: Rules
  readonly now: () => Date
  /** Requests with durable writes. */
  readonly answered?: Pick<Answered, 'find'>
  /** Finds items for deletions by filter; without it there are none. */
  readonly select?: Select
}

interface InFlight {
  readonly last: Position
  readonly appended: Promise<Recorded>
}

/**
 * Decides commands one after the other against the accepted state, and resolves when their events are durable and
 * readable. Any number of writes may be in flight; deciding does not wait for their flushes.
 */
export class CommandHandler implements Projection {
  readonly #journal: Journal
  readonly #durable: FindCollection
  readonly #rules: Rules
  readonly #now: () => Date
  readonly #answered: Pick<Answered, 'find'>
  readonly #select: Select
  readonly #beingAnswered = new Map<string, { readonly request: string; readonly outcome: Promise<unknown> }>()
  #overlay: Overlay
  #inFlight: InFlight[] = []
  readonly #slices = new Slices()
  /** While a decision runs in steps: resolves when other commands may be decided. */
  #alone: Promise<void> | undefined

  constructor({
    journal,
    durable,
    rules,
    now,
    answered = NOTHING_ANSWERED,
    select = async () => undefined,
  }: HandlerOptions) {
    this.#journal = journal
    this.#durable = durable
    this.#rules = rules
    this.#now = now
    this.#answered = answered
    this.#select = select
    this.#overlay = this.#overlayAt(journal.head)
  }

  #overlayAt(head: Position): Overlay {
    return new Overlay(this.#durable, head, this.#rules.keyFields)
  }

  apply(recorded: Recorded): void {
    const last = lastPosition(recorded)
    if (last <= this.#overlay.head) this.#overlay.settle(recorded.events, last)
    else {
      // Another node decided this write, so nothing that this node accepted is valid.
      this.#overlay = this.#overlayAt(last)
      this.#inFlight = []
    }
  }

  handle(command: Command, origin: Origin): Promise<Outcome> {
    return this.#once(
      origin,
      () => this.#write(command, origin),
      (answered) => this.#answerAgain(answered),
    )
  }

  /** Decides a command on many items, whose events are one write. With `isDryRun` nothing is written. */
  bulk(command: BulkCommand, origin: Origin, isDryRun = false): Promise<BulkOutcome> {
    if (isDryRun) return this.#writeBulk(command, origin, true)
    return this.#once(
      origin,
      () => this.#writeBulk(command, origin, false),
      (answered) => this.#answerBulkAgain(command, answered),
    )
  }

  /** Executes a request with an Idempotency-Key once; a retry gets the outcome of the first request. */
  #once<T>(origin: Origin, write: () => Promise<T>, again: (answered: AnsweredRequest) => Promise<T>): Promise<T> {
    if (origin.key === undefined) return write()
    const name = nameOf(origin)
    const pending = this.#beingAnswered.get(name)
    // The same request has an outcome of the same type.
    if (pending) return sameRequest(origin, pending) ?? (pending.outcome as Promise<T>)
    const answered = this.#answered.find(origin, this.#now())
    if (answered) return sameRequest(origin, answered) ?? again(answered)
    const outcome = write()
    this.#beingAnswered.set(name, { request: origin.request ?? '', outcome })
    const done = () => this.#beingAnswered.delete(name)
    outcome.then(done, done)
    return outcome
  }

  /** Begins to merge an edit of the data file. The origin's key is that of the last write; see docs/journal.md, J24. */
  merge(edit: Edit, origin: Origin): EditMerging {
    const merge = new Merge(edit, this.#rules)
    const writes: [Position, Position][] = []
    let basis: Position | undefined
    let events = 0
    const write = async (merging: (accepted: Overlay) => Steps<List<DomainEvent>>, who: Origin): Promise<void> => {
      await this.#decideAlone(async () => {
        const { head } = this.#overlay
        const { edited, made } = await this.#slices.run(() => this.#edited(merging(this.#overlay)))
        basis ??= head
        if (made.length === 0) return { appended: undefined, outcome: undefined }
        events += made.length
        writes.push([head + 1, head + edited.length])
        return { appended: this.#appendFrom(head, made, who), outcome: undefined }
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
  ): Steps<{ readonly edited: List<DomainEvent>; readonly made: List<DomainEvent> }> {
    const edited = yield* merging
    yield* checkKeys(edited, this.#overlay, this.#rules, 'Invalid')
    const latest = yield* latestItems(edited, this.#overlay, this.#rules)
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
      const { head } = this.#overlay
      const { events } = await this.#slices.run(() => restoring(restoration, this.#overlay, this.#rules))
      const isWritten = !isDryRun && events.length > 0
      const appended = isWritten ? this.#appendFrom(head, events, origin) : undefined
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
      await this.#inFlight.at(-1)?.appended.catch(() => {})
      const { appended, outcome } = await decision()
      // Other commands may be decided on top of the overlay.
      if (this.#inFlight.length > 0) done()
      return { recorded: await appended, outcome }
    } finally {
      done()
    }
  }

  async #write(command: Command, origin: Origin): Promise<Outcome> {
    const { head, decided, recorded } = await this.#decideAndAppend(
      () => decide(command, this.#overlay, this.#rules),
      (decision) => (isEvents(decision) ? decision : []),
      origin,
    )
    if (recorded || isEvents(decided)) return this.outcomeOf(recorded as Recorded)
    return { position: head, event: undefined, item: decided }
  }

  async #writeBulk(command: BulkCommand, origin: Origin, isDryRun: boolean): Promise<BulkOutcome> {
    const selected = await Promise.all(deletionsIn(command).map((deletion) => this.#select(deletion)))
    const { head, decided, recorded } = await this.#decideAndAppend(
      () => decideBulk(command, this.#overlay, this.#rules, selected),
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
    const { head: basis } = this.#overlay
    const first = this.#decided(() => begun.next())
    const { done, value } = first instanceof Promise ? await first : first
    if (done) {
      const events = eventsOf(value)
      if (events.length > 0) return { head: basis, decided: value, recorded: await this.#append(events, origin) }
      // The decision may rest on writes that are being flushed.
      await this.#inFlight.at(-1)?.appended
      return { head: basis, decided: value, recorded: undefined }
    }
    const { outcome, recorded } = await this.#decideAlone(async () => {
      const { head } = this.#overlay
      const steps = head === basis ? begun : begin()
      const decided = await this.#slices.run(() => steps)
      const events = eventsOf(decided)
      const appended = events.length > 0 ? this.#appendFrom(head, events, origin) : undefined
      return { appended, outcome: { head, decided } }
    })
    return { ...outcome, recorded }
  }

  /** Decides synchronously. A refusal that rests on an event being flushed is returned after that flush. */
  #decided<T>(decision: () => T): T | Promise<never> {
    this.#overlay.takeReliance()
    try {
      return decision()
    } catch (error) {
      const relied = this.#overlay.takeReliance()
      const waited = this.#inFlight.find(({ last }) => last >= relied)
      if (!(error instanceof Refusal) || relied === 0 || !waited) throw error
      return waited.appended.then(() => {
        throw error
      })
    }
  }

  /** Appends events that were decided when `head` was the last accepted event. */
  #appendFrom(head: Position, events: List<DomainEvent>, origin: Origin): Promise<Recorded> {
    if (isLarge(events) || head !== this.#overlay.head) {
      return this.#journal.append({ expected: head + 1, ...origin, events })
    }
    return this.#append(events, origin)
  }

  #append(events: List<DomainEvent>, origin: Origin): Promise<Recorded> {
    const overlay = this.#overlay
    const expected = overlay.head + 1
    overlay.accept(events)
    const appended = this.#journal.append({ expected, ...origin, events })
    const inFlight: InFlight = { last: overlay.head, appended }
    this.#inFlight.push(inFlight)
    appended.then(
      () => {
        if (this.#inFlight[0] === inFlight) this.#inFlight.shift()
      },
      () => {
        // Everything accepted after the failed write fails with it, and retries are decided anew.
        if (this.#overlay !== overlay) return
        this.#overlay = this.#overlayAt(this.#journal.head)
        this.#inFlight = []
      },
    )
    return appended
  }

  /** The outcome of a write by one command. */
  outcomeOf(recorded: Recorded): Outcome {
    const position = lastPosition(recorded)
    const event = recorded.events.at(-1)
    if (!event || !isItemEvent(event)) throw new Error(`position ${position} is not an item's event`)
    if (!('item' in event)) return { position, event, item: undefined }
    return { position, event, item: new Item(event.id, event.item, event.revision, position) }
  }

  async #answerAgain({ position }: AnsweredRequest): Promise<Outcome> {
    for await (const recorded of this.#journal.read(position, position)) return this.outcomeOf(recorded)
    throw new Error(`the journal holds no event at position ${position}, though it was answered`)
  }

  async #answerBulkAgain(command: BulkCommand, { position }: AnsweredRequest): Promise<BulkOutcome> {
    const events = await eventsOfWrite(this.#journal, position)
    const notCreated =
      command.type === 'CreateItems'
        ? await this.#slices.run(() => notCreatedBefore(command, events, this.#overlay, this.#rules))
        : new Map<number, never>()
    return { position, events, notCreated }
  }
}

function sameRequest(origin: Origin, first: { readonly request: string }): Promise<never> | undefined {
  if (origin.request === first.request) return undefined
  return Promise.reject(
    new Refusal('Unprocessable', 'This Idempotency-Key was used with another request; a new request needs a new key.'),
  )
}
