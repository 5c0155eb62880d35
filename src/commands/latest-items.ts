import type { CollectionState } from '../collections/collection.ts'
import { faultOfId, type Item, isItem, keyOf } from '../collections/item.ts'
import type { AcceptedState } from '../collections/overlay.ts'
import { type DomainEvent, existsAfter, type ItemId, isCreation, isItemEvent } from '../events/event.ts'
import { bytesOfEvent } from '../events/journal.ts'
import { Document } from '../json/document.ts'
import { compareInstants, type Instant } from '../json/instant.ts'
import { parseText } from '../json/parse.ts'
import { firstAt } from '../json/paths.ts'
import { equal, type JsonObject, own } from '../json/value.ts'
import { idBytes } from '../runtime/memory.ts'
import type { Turn } from '../runtime/turns.ts'
import { BYTES } from './edit.ts'
import { hasExpired } from './expiry.ts'
import { nextEventFields, validTime, withId } from './item-rules.ts'
import type { EventTimeRule, Latest, Rules } from './rules.ts'

/** The memory of a candidate, and how many times as much as its text the value of its reading takes. */
const CANDIDATE_BYTES = 400
const PARSED = 4

/** A reading that may become the latest item of its id. */
interface LatestCandidate {
  readonly in: string
  readonly id: ItemId
  readonly time: EventTimeRule
  readonly instant: Instant
  readonly reading: JsonObject
  /** The collection and the key of the reading. */
  readonly source: string
  /** The reading before it was changed. */
  readonly corrects: Item | undefined
}

/**
 * Keeps the latest items up with the readings that a write creates or changes: one event for each latest item. An item
 * goes forward in time only: a reading that is deleted, or gets an earlier time, stays the latest one until a newer one comes.
 */
export class LatestItems {
  readonly #accepted: AcceptedState
  readonly #rules: Rules
  /** The latest items that were written themselves, which takes precedence. */
  readonly #written: Set<string>
  readonly #targets: ReadonlySet<string>
  readonly #newest = new Map<string, { readonly candidate: LatestCandidate; readonly bytes: number }>()
  /** The last event that created or removed each collection. */
  readonly #lives = new Map<string, DomainEvent>()
  readonly #hold: (bytes: number) => void

  /** `written` has those of earlier writes of the same edit; `hold` is called with the memory of what is added. */
  constructor(accepted: AcceptedState, rules: Rules, written = new Set<string>(), hold = (_bytes: number): void => {}) {
    this.#hold = hold
    this.#accepted = accepted
    this.#rules = rules
    this.#written = written
    this.#targets = new Set(Array.from(rules.latest.values(), (latest) => latest.in))
  }

  /** Adds an event of the write. */
  add(event: DomainEvent): void {
    if (existsAfter(event) !== undefined) this.#lives.set(event.collection, event)
    if (!isItemEvent(event)) return
    if (this.#targets.has(event.collection)) {
      this.#hold(BYTES.indexed + idBytes(event.id))
      this.#written.add(targetKey(event.collection, event.id))
    }
    const latest = this.#rules.latest.get(event.collection)
    const candidate = latest && 'item' in event ? candidateOf(event, latest, this.#accepted, this.#rules) : undefined
    if (!candidate) return
    const name = targetKey(candidate.in, candidate.id)
    const known = this.#newest.get(name)
    if (known && !isAfter(candidate, known.candidate)) return
    const bytes = CANDIDATE_BYTES + PARSED * bytesOfEvent(event)
    this.#hold(Math.max(0, bytes - (known?.bytes ?? 0)))
    this.#newest.set(name, { candidate, bytes })
  }

  /** The events of the latest items, after all events of the write were added. */
  *events(): Generator<DomainEvent, void> {
    for (const [name, { candidate }] of this.#newest) {
      const collection = this.#accepted.collection(candidate.in)
      const { exists, isObject } = existenceAfter(this.#lives.get(candidate.in), collection)
      // A single object has no items.
      if (this.#written.has(name) || isObject) continue
      const event = latestItem(candidate, this.#accepted, this.#rules)
      if (!event) continue
      if (!exists) {
        const created = { type: 'CollectionCreated', collection: candidate.in } as const
        this.#lives.set(candidate.in, created)
        yield created
      }
      yield event
    }
  }
}

/** The events of the latest items for a write of any size. */
export async function latestItems(
  events: Iterable<DomainEvent>,
  accepted: AcceptedState,
  rules: Rules,
  turn: Turn,
  written?: Set<string>,
): Promise<readonly DomainEvent[]> {
  if (rules.latest.size === 0) return []
  const latest = new LatestItems(accepted, rules, written, (bytes) => turn.hold(bytes))
  for (const event of events) {
    latest.add(event)
    if (turn.isOver) await turn.next()
  }
  const made: DomainEvent[] = []
  for (const event of latest.events()) {
    turn.hold(bytesOfEvent(event))
    made.push(event)
    if (turn.isOver) await turn.next()
  }
  return made
}

/** Whether a collection exists after the write; `life` is the write's last event that created or removed it. */
function existenceAfter(
  life: DomainEvent | undefined,
  before: CollectionState,
): Pick<CollectionState, 'exists' | 'isObject'> {
  if (!life) return before
  return { exists: existsAfter(life) === true, isObject: isItemEvent(life) }
}

/** Undefined when the reading has no valid event time, or no value that can be an id. */
function candidateOf(
  event: Extract<DomainEvent, { readonly item: Document }>,
  latest: Latest,
  accepted: AcceptedState,
  rules: Rules,
): LatestCandidate | undefined {
  const time = rules.times.get(event.collection)
  const reading = event.item.value
  const id = firstAt(reading, latest.by)
  const instant = time && validTime(reading, time, rules.nowMs())
  if (!instant || id === undefined || faultOfId(id) !== undefined) return undefined
  const before = isCreation(event) ? undefined : accepted.collection(event.collection).get(keyOf(event.id))
  const source = targetKey(event.collection, event.id)
  const corrects = isItem(before) ? before : undefined
  return { in: latest.in, id: id as ItemId, time, instant, reading, source, corrects }
}

/** For readings with the same time, the first one stays unless the other is a correction of it. */
function isAfter(a: LatestCandidate, b: LatestCandidate): boolean {
  const order = compareInstants(a.instant, b.instant)
  return order > 0 || (order === 0 && a.source === b.source)
}

/** The event that makes a reading the latest item; undefined when it is not newer than that. */
function latestItem(candidate: LatestCandidate, accepted: AcceptedState, rules: Rules): DomainEvent | undefined {
  const { in: name, id, time, instant, reading, corrects } = candidate
  const before = accepted.collection(name).get(keyOf(id))
  if (!isItem(before)) {
    if (hasExpired(() => reading, name, rules)) return undefined
    return {
      type: 'ItemCreated',
      ...nextEventFields(name, id, before),
      item: new Document(latestText(reading, id, rules)),
    }
  }
  const latest = parseText(before.text) as JsonObject
  const then = validTime(latest, time, rules.nowMs())
  const order = then ? compareInstants(instant, then) : 1
  if (order < 0) return undefined
  const corrected = corrects && (parseText(corrects.text) as JsonObject)
  const replaced = corrected && isMadeFrom(latest, corrected, rules) ? corrected : undefined
  if (order === 0 && !replaced) return undefined
  const whole = latestText(withReading(latest, reading, replaced), before.id, rules)
  // Readings with ever new members would make it grow without end.
  const text = Buffer.byteLength(whole) > rules.itemBytes ? latestText(reading, before.id, rules) : whole
  if (text === before.text) return undefined
  return { type: 'ItemReplaced', ...nextEventFields(name, before.id, before), item: new Document(text) }
}

/** Whether a latest item has each member of a reading. */
function isMadeFrom(latest: JsonObject, reading: JsonObject, { idField }: Rules): boolean {
  for (const [name, value] of Object.entries(reading)) {
    if (name !== idField && !equal(own(latest, name), value)) return false
  }
  return true
}

/** The latest item with the members of a reading in place of its own, and of those of the reading that this corrects. */
function withReading(latest: JsonObject, reading: JsonObject, corrected: JsonObject = {}): JsonObject {
  const kept = Object.entries(latest).filter(
    ([name]) => !Object.hasOwn(corrected, name) || Object.hasOwn(reading, name),
  )
  return { ...Object.fromEntries(kept), ...reading }
}

function latestText(reading: JsonObject, id: ItemId, rules: Rules): string {
  return JSON.stringify(withId(reading, id, rules))
}

function targetKey(collection: string, id: ItemId): string {
  return `${collection}\n${keyOf(id)}`
}
