import type { CollectionState } from '../../src/collections/collection.ts'
import { Item, isItem } from '../../src/collections/item.ts'
import { Overlay } from '../../src/collections/overlay.ts'
import { type Command, matches } from '../../src/commands/command.ts'
import type { Outcome } from '../../src/commands/handler.ts'
import type { Engine } from '../../src/engine/engine.ts'
import { type DomainEvent, isItemEvent, type Position } from '../../src/events/event.ts'
import { lastPosition, type Origin, type Recorded } from '../../src/events/journal.ts'
import { Refusal } from '../../src/runtime/errors.ts'
import { eventsOf, RULES } from '../support/decider.ts'
import { COLLECTION, type Doors, type DoorsOf, engineDoors } from './simulated-service.ts'

/** A mistake that a service like this one could make; what each means is said where it is made. */
export type Mistake =
  | 'none'
  | 'answers early'
  | 'reads the accepted'
  | 'reads the past'
  | 'compares with the durable'
  | 'patches the durable'
  | 'creates above the durable'
  | 'refuses early'
  | 'forgets a write'
  | 'refuses what it keeps'
  | 'forgets keys'

export function faultyDoors(mistake: Mistake): DoorsOf {
  if (mistake === 'forgets keys') {
    return (engine) => {
      const { read, write } = engineDoors(engine)
      return { read, write: (command, { actor, requestId }) => write(command, { actor, requestId }) }
    }
  }
  return (engine) => new FaultyDoors(engine, mistake)
}

const ONE_IN = 5

/** The command handler once more, short and slower, with one mistake. It knows no Idempotency-Keys. */
class FaultyDoors implements Doors {
  readonly #engine: Engine
  readonly #mistake: Mistake
  readonly #past = new Map<string, Item | undefined>()
  #overlay: Overlay
  /** The last append on its way, and with it all before. */
  #pending: Promise<unknown> = Promise.resolve()
  #writes = 0

  constructor(engine: Engine, mistake: Mistake) {
    this.#engine = engine
    this.#mistake = mistake
    this.#overlay = this.#nothingPending()
    for (const item of engine.views.find(COLLECTION)?.items() ?? []) this.#past.set(item.key, item)
    const apply = (recorded: Recorded): void => {
      this.#overlay.settle(lastPosition(recorded))
      const items = [...(engine.views.find(COLLECTION)?.items() ?? [])]
      setImmediate(() => {
        this.#past.clear()
        for (const item of items) this.#past.set(item.key, item)
      })
    }
    engine.bus.add({ sockets: { apply } })
  }

  read(key: string): Item | undefined {
    if (this.#makes('reads the past')) return this.#past.get(key)
    const seesAccepted = this.#makes('reads the accepted') || this.#makes('answers early')
    const item = (seesAccepted ? this.#overlay.collection(COLLECTION) : this.#durable()).get(key)
    return isItem(item) ? item : undefined
  }

  async write(command: Command, origin: Origin): Promise<Outcome> {
    let events: readonly DomainEvent[]
    try {
      events = this.#decided(command)
    } catch (error) {
      // Every refusal waits for all that is on its way, whether it rests on it or not.
      if (!this.#makes('refuses early')) await this.#pending
      throw error
    }
    if (this.#makes('forgets a write') && ++this.#writes % ONE_IN === 0) {
      return outcomeOf(events, this.#engine.journal.head)
    }
    const { actor, requestId } = origin
    const overlay = this.#overlay
    const expected = overlay.head + 1
    overlay.accept(events)
    const appended = this.#engine.journal.append({ expected, actor, requestId, events })
    this.#pending = appended
    appended.catch(() => {
      if (this.#overlay !== overlay) return
      this.#overlay = this.#nothingPending()
      this.#pending = Promise.resolve()
    })
    const outcome = outcomeOf(events, expected)
    if (this.#makes('answers early')) return outcome
    await appended
    if (this.#makes('refuses what it keeps') && ++this.#writes % ONE_IN === 0) {
      throw new Refusal('DiskFull', 'The disk is full, it says.')
    }
    return outcome
  }

  /** Returns without letting anybody else in: the next decision is made on this one. */
  #decided(command: Command): readonly DomainEvent[] {
    const accepted = this.#overlay.collection(COLLECTION)
    if (this.#makes('compares with the durable') && command.type !== 'CreateItem') {
      this.#compare(command, this.#durable())
      return this.#decide({ ...command, ifMatch: undefined, ifNoneMatch: undefined }, accepted)
    }
    const isBlind =
      (this.#makes('patches the durable') && command.type === 'PatchItem') ||
      (this.#makes('creates above the durable') && command.type === 'CreateItem')
    return this.#decide(command, isBlind ? this.#durable() : accepted)
  }

  #compare({ key, ifMatch, ifNoneMatch }: Exclude<Command, { type: 'CreateItem' }>, collection: CollectionState): void {
    const item = collection.get(key)
    const tag = isItem(item) ? item.tag : undefined
    const isMet = ifMatch === undefined || (tag !== undefined && matches(ifMatch, tag))
    if (!isMet || (ifNoneMatch !== undefined && tag !== undefined && matches(ifNoneMatch, tag))) {
      throw new Refusal('PreconditionFailed', 'The durable item differs.')
    }
  }

  #decide(command: Command, collection: CollectionState): readonly DomainEvent[] {
    const accepted = { head: this.#engine.journal.head, collection: () => collection }
    return eventsOf(command, accepted, { ...RULES, upsertOnPut: true, clientIdsOnPost: true })
  }

  #durable(): CollectionState {
    return this.#engine.views.any(COLLECTION) ?? this.#nothingPending().collection(COLLECTION)
  }

  #nothingPending(): Overlay {
    return new Overlay(this.#engine.views.any, this.#engine.journal.head)
  }

  #makes(mistake: Mistake): boolean {
    return this.#mistake === mistake
  }
}

function outcomeOf(events: readonly DomainEvent[], before: Position): Outcome {
  const event = events.at(-1)
  if (!event || !isItemEvent(event)) throw new Error('a command on an item ends in an event of the item')
  const position = before + events.length - 1
  const item = 'item' in event ? new Item(event.id, event.item, event.revision, position) : undefined
  return { position, event, item }
}
