import type { DomainEvent, Position } from '../events/event.ts'
import { type Journal, lastPosition, type Recorded } from '../events/journal.ts'
import { ChunkedList, type List } from '../runtime/chunked-list.ts'
import { type Outcome, outcomeOf } from './outcome.ts'

/** The outcome of a command on an item, whose event has this position. */
export async function recordedOutcome(journal: Pick<Journal, 'read'>, position: Position): Promise<Outcome> {
  for await (const recorded of journal.read(position, position)) return outcomeOf(recorded)
  throw lacking(position)
}

/** Events read at first; ten times as many each time the write turns out to begin earlier. */
const FIRST_READ = 1024

/** All events of the write that ends at a position, read backwards, as a write does not record where it began. */
export async function eventsOfWrite(journal: Pick<Journal, 'read'>, position: Position): Promise<List<DomainEvent>> {
  for (let count = FIRST_READ; ; count *= 10) {
    const from = Math.max(1, position - count + 1)
    let last: Recorded | undefined
    let events = new ChunkedList<DomainEvent>()
    let begins = 0
    for await (const recorded of journal.read(from, position)) {
      if (!last || !isOfWrite(recorded, last)) {
        events = new ChunkedList()
        begins = recorded.position
      }
      last = recorded
      for (const event of recorded.events) events.push(event)
    }
    if (!last || lastPosition(last) !== position) throw lacking(position)
    if (begins > from || from === 1) return events
  }
}

function lacking(position: Position): Error {
  return new Error(`the journal holds no event at position ${position}`)
}

function isOfWrite(a: Recorded, b: Recorded): boolean {
  return a.requestId === b.requestId && a.key === b.key && a.actor === b.actor && a.time === b.time
}
