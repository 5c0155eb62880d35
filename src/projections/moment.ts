import type { Position } from '../events/event.ts'
import { type Journal, recordAt } from '../events/journal.ts'
import { withPlus } from '../json/instant.ts'
import { Refusal } from '../runtime/errors.ts'
import { parseUntil, type Until } from './journal-fold.ts'

type Source = Pick<Journal, 'head' | 'read' | 'timeMs'>

export interface Moment {
  /** Position of the last event up to the moment. */
  readonly position: Position
  /** The instant in milliseconds since 1970, or the time of the event; that of the first event for earlier moments. */
  readonly ms: number
}

/** The position that a text names, directly or by an instant; `what` names the parameter in errors. */
export async function parseMoment(text: string, what: string, journal: Source, now: () => Date): Promise<Position> {
  const named = readUntil(text, what, journal, now)
  return 'position' in named ? named.position : positionAt(journal, named.ms)
}

/** `parseMoment` with the time. */
export async function momentOf(text: string, what: string, journal: Source, now: () => Date): Promise<Moment> {
  const named = readUntil(text, what, journal, now)
  const position = 'position' in named ? named.position : await positionAt(journal, named.ms)
  if ('ms' in named && position > 0) return { position, ms: named.ms }
  if (journal.head === 0) return { position, ms: now().getTime() }
  const { time } = await recordAt(journal, Math.max(1, position))
  return { position, ms: Date.parse(time) }
}

function readUntil(text: string, what: string, journal: Source, now: () => Date): Until {
  const named = parseUntil(withPlus(text))
  if (!named) {
    throw new Refusal('Invalid', `${what} must be a position or an ISO 8601 date-time, not ${JSON.stringify(text)}.`)
  }
  if ('position' in named && named.position > journal.head) {
    throw new Refusal('Invalid', `${what}=${text} is beyond the last position, ${journal.head}.`)
  }
  // After the clock was set back, the last event is ahead of it, and its time is not in the future.
  if ('ms' in named && named.ms > now().getTime() && named.ms > journal.timeMs) {
    throw new Refusal('Invalid', `${what}=${text} is in the future.`)
  }
  return named
}

/** The position of the last event up to an instant, in milliseconds since 1970; 0 if there is none. */
export async function positionAt(journal: Source, ms: number): Promise<Position> {
  let low = 0
  let high = journal.head
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    const { time } = await recordAt(journal, middle)
    if (Date.parse(time) <= ms) low = middle
    else high = middle - 1
  }
  return low
}
