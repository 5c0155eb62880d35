import { setImmediate } from 'node:timers/promises'
import { JournalDamage } from '../events/damage.ts'
import { changeOfItem, type DomainEvent, type Position } from '../events/event.ts'
import { bytesOfEvent, type Journal, lastPosition, positioned, type Recorded, recordAt } from '../events/journal.ts'
import { compareInstants, type Instant } from '../json/instant.ts'
import { HighWaterMark } from '../runtime/memory.ts'
import { Abandoned, type Asker, type Semaphore } from '../runtime/turns.ts'
import type { History } from './history.ts'
import { positionAt } from './moment.ts'

/** Conditions on events, all of which must hold. */
export interface EventFilter {
  /** The first position. */
  readonly from: Position
  readonly collection?: string
  /** An item's key. */
  readonly id?: string
  readonly type?: string
  readonly actor?: string
  readonly requestId?: string
  /** Both inclusive. */
  readonly since?: Instant
  readonly until?: Instant
}

export interface SearchSource {
  readonly journal: Pick<Journal, 'head' | 'read' | 'at'>
  /** Undefined while it is being built: then the journal is scanned. */
  readonly history: () => History | undefined
  /** A semaphore that all searches share. */
  readonly searches: Semaphore
}

/** Searches that read the journal at the same time. */
export const SEARCHES_AT_ONCE = 2
/** A turn ends after this time, or with this much found; the search then queues again. */
const TURN_MS = 25
/** The memory that a turn finds is counted beyond this. */
const TURN_BYTES = 512 * 1024
/** Within a turn a search yields to the event loop this often. */
const YIELD_MS = 5

export interface FoundEvent {
  readonly position: Position
  readonly event: DomainEvent
  readonly write: Pick<Recorded, 'time' | 'actor' | 'requestId'>
}

/** The client of a search, and its limit. */
export interface SearchLimits extends Asker {
  /** Highest number of events read; default: all. */
  readonly most?: number
}

/**
 * The matching events up to a position, oldest first. Uses the history to skip others. Between two turns it holds the
 * results of the last one and no file. Throws when the client has disconnected.
 */
export async function* search(
  source: SearchSource,
  filter: EventFilter,
  head: Position,
  asker: SearchLimits,
): AsyncGenerator<FoundEvent> {
  let { most = Number.POSITIVE_INFINITY } = asker
  const mark = new HighWaterMark(asker.memory)
  try {
    for (let from: Position | undefined = filter.from; from !== undefined && most > 0; ) {
      const rest: EventFilter = { ...filter, from }
      const limits = { ...asker, most }
      const { found, next } = await source.searches.run(() => searchForATurn(source, rest, head, limits, mark))
      yield* found
      most -= found.length
      from = next
    }
  } finally {
    asker.memory?.count(-mark.bytes)
  }
}

/** Throws if a search from this position would fail at once, so that an error can be sent before a stream begins. */
export async function checkReadable(
  { journal, searches }: Pick<SearchSource, 'journal' | 'searches'>,
  from: Position,
): Promise<void> {
  const position = Math.min(Math.max(1, from), journal.head)
  if (position > 0) await searches.run(() => recordAt(journal, position))
}

/** The events found in one turn, and where the next turn continues; undefined at the end. */
async function searchForATurn(
  source: SearchSource,
  filter: EventFilter,
  head: Position,
  { most, isGone }: SearchLimits & { readonly most: number },
  mark: HighWaterMark,
): Promise<{ readonly found: readonly FoundEvent[]; readonly next: Position | undefined }> {
  const found: FoundEvent[] = []
  let bytes = 0
  const began = performance.now()
  let yielded = began
  let next: Position = filter.from
  try {
    for await (const recorded of candidates(source, filter, head)) {
      const { time, actor, requestId } = recorded
      // Without the other events of its record.
      const write = { time, actor, requestId }
      for (const [position, event] of matchesWrite(recorded, filter) ? positioned(recorded) : []) {
        if (found.length === most || !matchesEvent(event, filter)) continue
        found.push({ position, event, write })
        bytes += bytesOfEvent(event)
        mark.reach(bytes - TURN_BYTES)
      }
      const now = performance.now()
      next = lastPosition(recorded) + 1
      if (found.length === most || bytes >= TURN_BYTES || now - began >= TURN_MS) return { found, next }
      if (now - yielded < YIELD_MS) continue
      await setImmediate()
      if (isGone()) throw new Abandoned()
      yielded = performance.now()
    }
    return { found, next: undefined }
  } catch (error) {
    // The next turn fails at once.
    if (error instanceof JournalDamage && found.length > 0) return { found, next }
    throw error
  }
}

/** Fewest and most positions in a range. */
const RANGE = { least: 64, most: 8192 }
/** Highest memory of the events held at a time, as in a page; a single longer one is possible. */
const HELD_BYTES = 2 ** 21

/**
 * At most so many events, in descending order from a position. Reads ranges of positions: those of an item begin
 * where its history says, and others are longer the fewer events match. Matches of a range are held as far as there is
 * room; the older part is read again.
 */
export async function* newestFirst(
  source: SearchSource,
  filter: EventFilter,
  head: Position,
  { most = Number.POSITIVE_INFINITY, ...asker }: SearchLimits,
  held = HELD_BYTES,
): AsyncGenerator<FoundEvent> {
  const history = source.history()
  const scope = scopeOf(history, filter, head)
  const mark = new HighWaterMark(asker.memory)
  let length = RANGE.least
  let left = most
  // Invariant: all matches after `to` were yielded.
  for (let to = scope?.last ?? 0; scope && to >= scope.first && left > 0; ) {
    const { item } = scope
    const start = item ? history?.startOfLast(item.collection, item.id, left, to) : to - length + 1
    if (start === undefined) return
    const from = Math.max(scope.first, start)
    let found: FoundEvent[] = []
    let bytes = 0
    /** Matches up to this position are not held; they are read in the next range. */
    let unheld = from - 1
    const read = async (): Promise<void> => {
      for await (const one of search(source, { ...filter, from: unheld + 1 }, to, asker)) {
        found.push(one)
        bytes += bytesOfEvent(one.event)
        mark.reach(bytes)
        while ((bytes > held || found.length > left) && found.length > 1) {
          const oldest = found.shift() as FoundEvent
          bytes -= bytesOfEvent(oldest.event)
          unheld = oldest.position
        }
      }
    }
    for (let isRead = false; !isRead; ) {
      try {
        await read()
        isRead = true
      } catch (error) {
        const next = error instanceof JournalDamage ? error.damage.next : undefined
        if (next === undefined || next > to) throw error
        // Those after the damage come first, at most half of the range, as more of it may be damaged; the next range fails.
        found = []
        bytes = 0
        unheld = Math.max(next - 1, Math.floor((unheld + to) / 2))
      }
    }
    yield* found.reverse()
    left -= found.length
    const areMany = found.length * 4 > length || unheld >= from
    length = areMany ? RANGE.least : Math.min(RANGE.most, length * 2)
    to = unheld
  }
}

/**
 * The range of positions of a time range, by binary search, since times never decrease. `last` is undefined if later
 * events may belong to it.
 */
export async function timeRange(
  { journal, history, searches }: SearchSource,
  { from, since, until }: EventFilter,
): Promise<{ readonly first: Position; readonly last: Position | undefined }> {
  const { head } = journal
  const lastAt = (ms: number): Promise<Position> => searches.run(() => positionAt(journal, history(), ms))
  // Times of events have milliseconds.
  const before = since && (since.micros > 0 ? since.ms : since.ms - 1)
  const first = before === undefined ? from : Math.max(from, (await lastAt(before)) + 1)
  const last = until && (await lastAt(until.ms))
  return { first, last: last !== undefined && last < head ? last : undefined }
}

/** Where the matching events are. */
interface Scope {
  readonly first: Position
  readonly last: Position
  /** All of them are of this item. */
  readonly item?: { readonly collection: string; readonly id: string }
}

/** As the history tells it, if there is one; undefined if no event matches. */
function scopeOf(
  history: History | undefined,
  { from, collection, id }: EventFilter,
  head: Position,
): Scope | undefined {
  const all = { first: Math.max(1, from), last: head }
  if (!history) return all
  if (id !== undefined) {
    const [only, ...others] = collection === undefined ? history.collectionsOf(id) : [collection]
    if (only === undefined) return undefined
    return others.length === 0 ? { ...all, item: { collection: only, id } } : all
  }
  const reach = collection === undefined ? all : history.reachOf(collection)
  return reach && { first: Math.max(all.first, reach.first), last: Math.min(head, reach.last) }
}

/** The writes that may match. */
function candidates(source: SearchSource, filter: EventFilter, head: Position): AsyncIterable<Recorded> {
  const history = source.history()
  const { first, last, item } = scopeOf(history, filter, head) ?? { first: 1, last: 0 }
  if (item && history) return history.eventsOf(source.journal, item.collection, item.id, first, last)
  return source.journal.read(first, last)
}

function matchesWrite({ actor, requestId, time }: Recorded, filter: EventFilter): boolean {
  if (filter.actor !== undefined && filter.actor !== actor) return false
  if (filter.requestId !== undefined && filter.requestId !== requestId) return false
  if (!filter.since && !filter.until) return true
  const at = { ms: Date.parse(time), micros: 0 }
  return (
    (!filter.since || compareInstants(at, filter.since) >= 0) &&
    (!filter.until || compareInstants(at, filter.until) <= 0)
  )
}

function matchesEvent(event: DomainEvent, { collection, id, type }: EventFilter): boolean {
  return (
    (collection === undefined || event.collection === collection) &&
    (type === undefined || event.type === type) &&
    (id === undefined || changeOfItem(event, id) !== undefined)
  )
}
