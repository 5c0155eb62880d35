import { Item } from '../collections/item.ts'
import { type CollectionLookup, Overlay } from '../collections/overlay.ts'
import { countOfExpired, type DomainEvent, type ItemEvent, isItemEvent, type Position } from '../events/event.ts'
import {
  bytesOfEvent,
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
import { Memory, type MemoryBudget } from '../runtime/memory.ts'
import { TURN_MS, type Turn, Turns } from '../runtime/turns.ts'
import type { BulkCommand, Command, Deletion } from './command.ts'
import { decideBulk, type NotCreatedItems, notCreatedBefore } from './create-items.ts'
import { type Decision, decide, isEvents } from './decide.ts'
import type { SelectItems } from './decide-deletion.ts'
import { decideEdit, type MergeConflict } from './decide-edit.ts'
import { type DecisionOptions, type DeletionOptions, type DeletionOutcome, Deletions } from './deletions.ts'
import type { Edit } from './edit.ts'
import { decideExpiry, type Expiration } from './expiry.ts'
import { eventsOfWrite, type IdempotencyKeys, IdempotentRequests } from './idempotency-keys.ts'
import { checkKeys } from './item-rules.ts'
import { latestItems } from './latest-items.ts'
import { bytesOfRestoration, decideRestore, type Restoration } from './restore.ts'
import type { Rules } from './rules.ts'

/** A write with fewer characters of items is not counted. */
const LONG_CHARACTERS = 16 * 1024
/** Bytes for each character of an item while it is written: its value, its text, its line and its record in the store. */
const CHARACTER_BYTES = 5

interface HandlerOptions {
  readonly journal: Journal
  readonly durable: CollectionLookup
  readonly rules: Rules
  readonly now: () => Date
  readonly idempotencyKeys: Pick<IdempotencyKeys, 'find'>
  /** Finds items for deletions by filter. */
  readonly select: SelectItems
  /** Items that a deletion deletes in one write. */
  readonly atomicItems: number
  readonly memory: MemoryBudget
  /** Milliseconds since any moment. */
  readonly elapsedMs: () => number
}

/**
 * Decides commands one after the other, in the order of their arrival, against the accepted state, and resolves when
 * their events are durable and readable. Any number of writes may be in flight.
 *
 * | Decision | Before it | After it |
 * |---|---|---|
 * | on one item | waits for its turn | the events are accepted at once, and flushed with those of other writes |
 * | in several turns: a batch, a deletion of many, a restore, an edit | waits for its turn; if it lists items, also for the writes in flight | the events are accepted, and others are decided |
 * | the same, with a large write | the same | the events are not accepted; others are decided when they are durable |
 * | no events, or a `Refusal` | as above | the response waits for the writes in flight, on which the decision may rest |
 */
export class CommandHandler implements Projection {
  readonly #journal: Journal
  readonly #rules: Rules
  readonly #accepted: AcceptedWrites
  readonly #requests: IdempotentRequests
  readonly #deletions: Deletions
  readonly #decisions: DecisionQueue
  readonly #memory: MemoryBudget
  readonly #turns: Turns

  constructor(options: HandlerOptions) {
    const { journal, durable, rules, now, idempotencyKeys, memory, elapsedMs } = options
    this.#decisions = new DecisionQueue(elapsedMs)
    this.#memory = memory
    this.#turns = new Turns({ memory, kind: 'writes' })
    this.#journal = journal
    this.#rules = rules
    this.#accepted = new AcceptedWrites(journal, (head) => new Overlay(durable, head, rules.keyFields))
    this.#requests = new IdempotentRequests(idempotencyKeys, now)
    this.#deletions = new Deletions({ ...options, decideAlone: (...decision) => this.#decideAlone(...decision) })
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

  /** Creates many items, or a collection, in one write. */
  bulk(command: BulkCommand, origin: Origin): Promise<BulkOutcome> {
    return this.#requests.run(
      origin,
      () => this.#writeBulk(command, origin),
      ({ position }) => this.#recordedBulkOutcome(command, position),
    )
  }

  /** Deletes many items, or a collection, in one write or in several. It continues when the client disconnects. */
  delete(deletion: Deletion, origin: Origin, options: DeletionOptions = {}): Promise<DeletionOutcome> {
    if (options.isDryRun) return this.#deletions.run(deletion, origin, options)
    return this.#requests.run(
      origin,
      (progress) => this.#deletions.run(deletion, origin, options, progress),
      (first) => this.#deletions.repeat(first),
    )
  }

  /** Ends deletions after their current write. */
  end(): void {
    this.#deletions.end()
  }

  /**
   * Merges an edit of the data file in one write. `memory` is that of the edit. `latestWritten` collects the latest items
   * that earlier parts of a first import wrote.
   */
  async merge(
    edit: Edit,
    origin: Origin,
    memory = new Memory(this.#memory, 'edits'),
    latestWritten = new Set<string>(),
  ): Promise<MergeOutcome> {
    const { position, edited, events, conflicts } = await this.#decideAlone({ origin, memory }, async (state, turn) => {
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
    const memory = new Memory(this.#memory, 'restores', bytesOfRestoration(restoration))
    return this.#decideAlone({ origin, memory, isDryRun }, async (state, turn) => {
      const events = await decideRestore(restoration, state, this.#rules, turn)
      await checkKeys(events, state, this.#rules, 'Conflict', turn)
      return { events }
    })
  }

  /** Lets items expire in one write. Resolves with its position, and with the number of items. */
  async expire(expiration: Expiration, origin: Origin): Promise<ExpiryOutcome> {
    const memory = new Memory(this.#memory, 'writes')
    const { position, events } = await this.#decideAlone({ origin, memory }, async (state, turn) => ({
      events: await decideExpiry(expiration, state, this.#rules, turn),
    }))
    return { position, count: events.reduce((count, event) => count + countOfExpired(event), 0) }
  }

  #write(command: Command, origin: Origin): Promise<Outcome> {
    return this.#decisions.run(() => this.#decideAndAppend(command, origin))
  }

  async #decideAndAppend(command: Command, origin: Origin): Promise<Outcome> {
    const { state } = this.#accepted
    const { head } = state
    let decision: Decision
    try {
      decision = decide(command, state, this.#rules)
    } catch (error) {
      // A refusal may rest on the writes in flight, as may the decision to change nothing.
      if (error instanceof Refusal) await this.#accepted.flushed
      throw error
    }
    if (isEvents(decision)) return outcomeOf(await this.#append(decision, origin))
    await this.#accepted.flushed
    return { position: head, event: undefined, item: decision }
  }

  /** Holds the memory of long items until they are durable: many small patches of one may be in flight. */
  #append(events: readonly DomainEvent[], origin: Origin): Promise<Recorded> {
    let characters = 0
    for (const event of events) if ('item' in event) characters += event.item.text.length
    if (characters < LONG_CHARACTERS) return this.#accepted.append(events, origin)
    const memory = new Memory(this.#memory, 'writes')
    memory.hold(CHARACTER_BYTES * characters)
    return this.#accepted.append(events, origin).finally(() => memory.release())
  }

  async #writeBulk(command: BulkCommand, origin: Origin): Promise<BulkOutcome> {
    const memory = new Memory(this.#memory, 'writes')
    try {
      const options = { origin, memory, isListing: false }
      return await this.#decideAlone(options, (state, turn) => decideBulk(command, state, this.#rules, turn))
    } finally {
      memory.release()
    }
  }

  /** Decides in turns while all other decisions wait. The accepted state lists items only while no write is in flight. */
  #decideAlone<Decision extends { readonly events: List<DomainEvent> }>(
    { origin, memory, isDryRun = false, isListing = true }: DecisionOptions,
    decide: (state: Overlay, turn: Turn) => Promise<Decision>,
  ): Promise<Decision & { readonly position: Position }> {
    const { bytes } = memory
    const forget = (): void => memory.count(bytes - memory.bytes)
    const asker = { isGone: () => false, memory }
    const written = this.#decisions.hold(async (release) => {
      if (isListing) await this.#accepted.flushed?.catch(() => {})
      const decided = await this.#accepted.decideInTurns((state) => {
        forget()
        return this.#turns.run((turn) => decide(state, turn), asker)
      })
      const { head, events } = decided
      if (isDryRun || events.length === 0) {
        // Not those of later writes.
        const { flushed } = this.#accepted
        release()
        await flushed
        return { ...decided, position: head }
      }
      const isInParts = isLarge(events)
      if (!isInParts) memory.hold(encodedBytes(events))
      // The accepted state does not get the events of a large write, so others wait until they are durable.
      const appended = isInParts
        ? await this.#accepted.appendLarge(events, origin)
        : this.#accepted.append(events, origin)
      release()
      return { ...decided, position: lastPosition(await appended) }
    })
    return written.finally(forget)
  }

  async #recordedBulkOutcome(command: BulkCommand, position: Position): Promise<BulkOutcome> {
    const memory = new Memory(this.#memory, 'writes')
    try {
      const events = await eventsOfWrite(this.#journal, position, memory)
      const notCreated =
        command.type === 'CreateItems'
          ? await this.#turns.run((turn) => notCreatedBefore(command, events, this.#accepted.state, this.#rules, turn))
          : new Map<number, never>()
      return { position, events, notCreated }
    } finally {
      memory.release()
    }
  }
}

/** The memory of a write that is encoded at once: the texts of its events, and its line. */
function encodedBytes(events: List<DomainEvent>): number {
  let bytes = 0
  for (const event of events) bytes += 2 * bytesOfEvent(event)
  return bytes
}

/** The result of a command on an item, durable and readable. */
export interface Outcome {
  /** The position of the write's last event, or of the state that was read if nothing was written. */
  readonly position: Position
  /** Undefined when the command changes nothing. */
  readonly event: ItemEvent | undefined
  /** The item after the command; undefined after a deletion. */
  readonly item: Item | undefined
}

export interface RestoreOutcome {
  /** Position of the last event, or of the compared state if there are no events. */
  readonly position: Position
  /** The events that were, or would be, appended. */
  readonly events: List<DomainEvent>
}

export interface ExpiryOutcome {
  readonly position: Position
  /** The number of items that have expired. */
  readonly count: number
}

export interface BulkOutcome extends RestoreOutcome {
  readonly notCreated: NotCreatedItems
}

export interface MergeOutcome {
  /** Position of the last event before the edit's first event. */
  readonly basis: Position
  /** Number of events of the edit; those of latest items follow. */
  readonly edited: number
  /** Number of all events. */
  readonly events: number
  readonly conflicts: readonly MergeConflict[]
}

export interface ImportOutcome extends Omit<MergeOutcome, 'edited'> {
  /** Position of the state from which the edit was made. */
  readonly basedOn: Position
}

export function outcomeOf(recorded: Recorded): Outcome {
  const position = lastPosition(recorded)
  const event = recorded.events.at(-1)
  if (!event || !isItemEvent(event)) throw new Error(`position ${position} is not an item's event`)
  const item = 'item' in event ? new Item(event.id, event.item, event.revision, position) : undefined
  return { position, event, item }
}

interface InFlight {
  /** Position of its last event. */
  readonly last: Position
  readonly events: List<DomainEvent>
  readonly appended: Promise<Recorded>
}

/**
 * The accepted state, and the writes in flight, whose events are accepted and not durable yet. When one fails, it and all
 * later ones are withdrawn: the state begins anew with the durable events, and those of the earlier writes in flight.
 */
class AcceptedWrites implements Projection {
  readonly #journal: Journal
  readonly #stateAt: (head: Position) => Overlay
  #state: Overlay
  #inFlight: InFlight[] = []

  /** @param stateAt returns the durable state, whose last event has this position */
  constructor(journal: Journal, stateAt: (head: Position) => Overlay) {
    this.#journal = journal
    this.#stateAt = stateAt
    this.#state = stateAt(journal.head)
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
   * Decides in several turns, while the caller keeps others waiting. A refusal is thrown when no write is in flight. The
   * decision is repeated if the state began anew meanwhile.
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

  /** Earlier writes stay in flight, as a journal may reject a write at once: one that is too long for a message of a cluster. */
  #withdraw(failed: InFlight): void {
    const index = this.#inFlight.indexOf(failed)
    if (index < 0) return
    const { head } = this.#journal
    this.#inFlight = this.#inFlight.slice(0, index).filter(({ last }) => last > head)
    this.#state = this.#stateAt(head)
    for (const { events } of this.#inFlight) this.#state.accept(events)
  }

  /** Appends a large write, which is not accepted before it is durable. The caller keeps others waiting until then. */
  appendLarge(events: List<DomainEvent>, origin: Origin): Promise<Recorded> {
    return this.#journal.append({ expected: this.#state.head + 1, ...origin, events })
  }
}

/**
 * Decisions in the order of their arrival, for TURN_MS in an iteration of the event loop. One that takes several turns
 * keeps the others waiting.
 */
export class DecisionQueue {
  readonly #waiting = new Set<() => void>()
  readonly #elapsedMs: () => number
  #isHeld = false
  /** How long decisions have taken in this iteration of the event loop. */
  #spentMs = 0

  constructor(elapsedMs: () => number) {
    this.#elapsedMs = elapsedMs
  }

  /** Decides without a pause: before this returns, if nobody waits and there is time left. */
  run<Result>(decide: () => Promise<Result>): Promise<Result> {
    return this.#inOrder(() => {
      const began = this.#elapsedMs()
      const decided = decide()
      if (this.#spentMs === 0) setImmediate(() => this.#beginIteration())
      this.#spentMs += this.#elapsedMs() - began
      return decided
    })
  }

  /** Decides in several turns. `work` may let others decide before its end. */
  hold<Result>(work: (release: () => void) => Promise<Result>): Promise<Result> {
    return this.#inOrder(async () => {
      this.#isHeld = true
      let isHolder = true
      const release = (): void => {
        if (!isHolder) return
        isHolder = false
        this.#isHeld = false
        // The holder goes on before others decide.
        queueMicrotask(() => this.#continue())
      }
      try {
        return await work(release)
      } finally {
        release()
      }
    })
  }

  /** Calls `begin`, which throws nothing, at once or later. */
  #inOrder<Result>(begin: () => Promise<Result>): Promise<Result> {
    if (this.#waiting.size === 0 && this.#mayBegin()) return begin()
    return new Promise((resolve) => this.#waiting.add(() => resolve(begin())))
  }

  #mayBegin(): boolean {
    return !this.#isHeld && this.#spentMs < TURN_MS
  }

  #beginIteration(): void {
    this.#spentMs = 0
    this.#continue()
  }

  #continue(): void {
    for (const begin of this.#waiting) {
      if (!this.#mayBegin()) return
      this.#waiting.delete(begin)
      begin()
    }
  }
}
