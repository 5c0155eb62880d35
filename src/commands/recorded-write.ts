import type { DomainEvent, Position } from '../events/event.ts'
import { type Journal, lastPosition, type Recorded } from '../events/journal.ts'
import { ChunkedList, type List } from '../runtime/chunked-list.ts'

/** Events read at first; ten times as many each time the write turns out to begin earlier. */
const FIRST_READ = 1024

/**
 * All events of the write that ends at a position. A write does not record where it began, so the journal is read
 * backwards.
 */
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
    if (!last || lastPosition(last) !== position) throw new Error(`the journal holds no event at position ${position}`)
    if (begins > from || from === 1) return events
  }
}

function isOfWrite(a: Recorded, b: Recorded): boolean {
  return a.requestId === b.requestId && a.key === b.key && a.actor === b.actor && a.time === b.time
}
