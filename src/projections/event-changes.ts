import { setImmediate } from 'node:timers/promises'
import { JournalDamage } from '../events/damage.ts'
import { isCreation, isItemEvent, type Position } from '../events/event.ts'
import { bytesOfEvent, positioned } from '../events/journal.ts'
import { changesBetween } from '../json/changes.ts'
import type { Document } from '../json/document.ts'
import { HighWaterMark } from '../runtime/memory.ts'
import { Abandoned, type Asker } from '../runtime/turns.ts'
import type { FoundEvent, SearchSource } from './event-search.ts'

/** Events whose earlier versions are read together, and highest memory of the ones and of the others; a single larger one is possible. */
const AT_ONCE = 64
const MOST_BYTES = 512 * 1024
/** How often to yield to the event loop. */
const YIELD_MS = 5

/** An event with what it changed in its item. */
export interface ChangedEvent extends FoundEvent {
  /** JSON of `Change[]`; `null` if the journal is damaged where the earlier version is; undefined for an event of a collection. */
  readonly changes?: string
}

type ReadSource = Pick<SearchSource, 'journal' | 'searches'>

/** The same events with their changes. Holds those that are read together, and no open file. */
export async function* withChanges(
  { journal, searches }: ReadSource,
  found: AsyncIterable<FoundEvent>,
  { isGone, memory }: Asker,
): AsyncGenerator<ChangedEvent> {
  const mark = new HighWaterMark(memory)
  let most = AT_ONCE
  let yielded = performance.now()
  try {
    for await (const batch of batches(found)) {
      const bytes = batch.reduce((sum, { event }) => sum + bytesOfEvent(event), 0)
      // Invariant: the events before `from` were yielded.
      for (let from = 0; from < batch.length; ) {
        const wanted = batch.slice(from, from + most)
        const earlier = await searches.run(() => readEarlier(journal, wanted, (read) => mark.reach(bytes + read)))
        for (const one of wanted.slice(0, earlier.count)) {
          if (performance.now() - yielded >= YIELD_MS) {
            await setImmediate()
            if (isGone()) throw new Abandoned()
            yielded = performance.now()
          }
          const changes = changesOf(one, earlier.items)
          yield changes === undefined ? one : { ...one, changes }
        }
        from += earlier.count
        most = Math.min(AT_ONCE, 2 * earlier.count)
      }
    }
  } finally {
    memory?.count(-mark.bytes)
  }
}

async function* batches(found: AsyncIterable<FoundEvent>): AsyncGenerator<readonly FoundEvent[]> {
  let batch: FoundEvent[] = []
  let bytes = 0
  try {
    for await (const one of found) {
      batch.push(one)
      bytes += bytesOfEvent(one.event)
      if (batch.length < AT_ONCE && bytes < MOST_BYTES) continue
      yield batch
      batch = []
      bytes = 0
    }
  } catch (error) {
    if (error instanceof JournalDamage && batch.length > 0) yield batch
    throw error
  }
  if (batch.length > 0) yield batch
}

/** Items by the positions of their events. */
type Items = ReadonlyMap<Position, Document>

/** The earlier items of the first events: half as many, and so on, if those do not fit or one cannot be read. */
async function readEarlier(
  journal: ReadSource['journal'],
  events: readonly FoundEvent[],
  hold: (bytes: number) => void,
): Promise<{ readonly count: number; readonly items: Items }> {
  for (let count = events.length; ; count = Math.ceil(count / 2)) {
    const items = await earlierItems(journal, events.slice(0, count), hold)
    if (items) return { count, items }
  }
}

/** Undefined if they are too many; a single one that cannot be read is left out. */
async function earlierItems(
  journal: ReadSource['journal'],
  events: readonly FoundEvent[],
  hold: (bytes: number) => void,
): Promise<Items | undefined> {
  const items = new Map<Position, Document>()
  for (const { position, event } of events) if ('item' in event) items.set(position, event.item)
  let bytes = 0
  try {
    for await (const read of journal.at(priorsOf(events, items))) {
      for (const [position, event] of positioned(read)) {
        if (!('item' in event)) continue
        bytes += bytesOfEvent(event)
        if (bytes > MOST_BYTES && events.length > 1) return undefined
        hold(bytes)
        items.set(position, event.item)
      }
    }
    return items
  } catch (error) {
    if (!(error instanceof JournalDamage)) throw error
    return events.length > 1 ? undefined : items
  }
}

/** The positions of earlier versions that are not known yet, in order. A created item has none. */
function priorsOf(events: readonly FoundEvent[], known: Items): readonly Position[] {
  const priors: Position[] = []
  for (const { event } of events) {
    if (isItemEvent(event) && !isCreation(event) && !known.has(event.prior)) priors.push(event.prior)
  }
  return priors.sort((a, b) => a - b)
}

function changesOf({ event }: FoundEvent, items: Items): string | undefined {
  if (!isItemEvent(event)) return undefined
  if (isCreation(event) && 'item' in event) return `[{"path":"","after":${event.item.text}}]`
  const before = items.get(event.prior)
  if (!before) return 'null'
  if (!('item' in event)) return `[{"path":"","before":${before.text}}]`
  return JSON.stringify(changesBetween(before.value, event.item.value))
}
