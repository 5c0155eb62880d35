import type { Position } from '../events/event.ts'
import { lastPosition, type Recorded, slice } from '../events/journal.ts'
import { type Walk, walk } from '../events/walk.ts'
import type { Files } from '../files/files.ts'
import { parseInstant } from '../json/instant.ts'
import { Refusal } from '../runtime/errors.ts'
import { Views } from './views.ts'

export type Progress = (done: number, of: number) => void

/** Where a fold ends: after the event at a position, or after the last one up to an instant. */
export type Until = { readonly position: Position } | { readonly ms: number }

/** Parses a position or an ISO 8601 instant; undefined for other text. */
export function parseUntil(text: string): Until | undefined {
  if (/^\d{1,15}$/.test(text)) return { position: Number(text) }
  const instant = parseInstant(text)
  return instant && { ms: instant.ms }
}

/** @throws {Refusal} `Invalid` when the value of `--to` is neither a position nor an instant */
export function untilOf(to: string): Until {
  const until = parseUntil(to)
  if (until) return until
  const least = /^-\d/.test(to) ? ' Positions begin at 1.' : ''
  throw new Refusal('Invalid', `--to must be a position or an ISO 8601 date-time, not ${JSON.stringify(to)}.${least}`)
}

/** Verifies the whole journal and folds its events up to a point. Changes nothing. */
export async function fold(
  files: Files,
  directory: string,
  until: Until,
  progress: Progress,
): Promise<{ readonly views: Views; readonly walked: Walk }> {
  const views = Views.temporary()
  const walked = await walk(
    files,
    directory,
    upTo(until, (recorded) => views.replay(recorded)),
    { progress },
  )
  views.replayed()
  return { views, walked }
}

/** Passes on the writes up to a point, and the first part of a write that extends beyond it. */
export function upTo(until: Until, apply: (recorded: Recorded) => void): (recorded: Recorded) => void {
  return (recorded) => {
    if ('ms' in until) {
      if (Date.parse(recorded.time) <= until.ms) apply(recorded)
    } else if (lastPosition(recorded) <= until.position) apply(recorded)
    else if (recorded.position <= until.position) apply(slice(recorded, recorded.position, until.position))
  }
}
