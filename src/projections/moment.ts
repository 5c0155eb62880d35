import type { Position } from '../events/event.ts'
import { type Journal, lastPosition, recordAt } from '../events/journal.ts'
import { withPlus } from '../json/instant.ts'
import { Refusal } from '../runtime/errors.ts'
import type { History } from './history.ts'
import { parseUntil, type Until } from './journal-fold.ts'

/** A journal in which moments are found. */
export interface Timeline {
  readonly journal: Pick<Journal, 'head' | 'at' | 'timeMs'>
  readonly past: { positionAt(ms: number): Promise<Position> }
  readonly now: () => Date
}

export interface Moment {
  /** Position of the last event up to the moment. */
  readonly position: Position
  /** The instant in milliseconds since 1970, or the time of the event; that of the first event for earlier moments. */
  readonly ms: number
}

/** The position that a text names, directly or by an instant; `what` names the parameter in errors. */
export async function parseMoment(text: string, what: string, timeline: Timeline): Promise<Position> {
  const named = readUntil(text, what, timeline)
  return 'position' in named ? named.position : timeline.past.positionAt(named.ms)
}

/** `parseMoment` with the time. */
export async function momentOf(text: string, what: string, timeline: Timeline): Promise<Moment> {
  const { journal, past, now } = timeline
  const named = readUntil(text, what, timeline)
  const position = 'position' in named ? named.position : await past.positionAt(named.ms)
  if ('ms' in named && position > 0) return { position, ms: named.ms }
  if (journal.head === 0) return { position, ms: now().getTime() }
  const { time } = await recordAt(journal, Math.max(1, position))
  return { position, ms: Date.parse(time) }
}

function readUntil(text: string, what: string, { journal, now }: Timeline): Until {
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

/** Events whose times are read in one step of a search. */
const PROBES = 16

/**
 * The position of the last event up to an instant, in milliseconds since 1970; 0 if there is none. Times never decrease
 * (docs/journal.md, J9). The history, once it is built, knows about where it is.
 */
export async function positionAt(
  journal: Pick<Journal, 'head' | 'at'>,
  history: Pick<History, 'around'> | undefined,
  ms: number,
): Promise<Position> {
  const { head } = journal
  const around = history?.around(ms) ?? { low: 0, high: head }
  // A write that is being stored has rows beyond the head.
  let low = Math.min(around.low, head)
  let high = Math.min(around.high, head)
  // Invariant: the events up to `low` are not later, those after `high` are.
  while (low < high) {
    const step = Math.ceil((high - low) / PROBES)
    const probes: Position[] = []
    for (let position = low + step; position <= high; position += step) probes.push(position)
    for await (const read of journal.at(probes)) {
      if (Date.parse(read.time) > ms) {
        high = read.position - 1
        break
      }
      low = lastPosition(read)
    }
  }
  return low
}
