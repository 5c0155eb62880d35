import type { Position } from '../events/event.ts'

/** A content that the data file had: the state right after an event, plus some later edits. */
export interface Shown {
  readonly position: Position
  /** The first and the last position of each edit. */
  readonly edits: readonly (readonly [Position, Position])[]
}

/** Highest number of remembered contents. */
const REMEMBERED = 1000
/** The search for the base of an edit covers contents up to this number of events older than the last one. */
const MOST_EVENTS = 100_000

/** Whether a content shows an event. */
export function holds({ position, edits }: Shown, event: Position): boolean {
  return event <= position || edits.some(([first, last]) => first <= event && event <= last)
}

/** The last event that a content shows. */
export function lastOf({ position, edits }: Shown): Position {
  return edits.at(-1)?.[1] ?? position
}

/** Adds a content. If there are too many, drops every other one of the older half, so that they reach far back. */
export function remembered(shown: readonly Shown[], one: Shown): readonly Shown[] {
  const last = shown.at(-1)
  if (last && last.position === one.position && lastOf(last) === lastOf(one)) return shown
  const all = [...shown, one]
  if (all.length <= REMEMBERED) return all
  return all.filter((_, index) => index >= REMEMBERED / 2 || index % 2 === 0)
}

/** The contents from which an edit of the file may have been made. */
export function recent(shown: readonly Shown[]): readonly Shown[] {
  const last = shown.at(-1)
  return last ? shown.filter(({ position }) => position >= last.position - MOST_EVENTS) : []
}

/** The format of the state file: the position, then the first and last position of each edit. */
export function numbersOf({ position, edits }: Shown): readonly number[] {
  return [position, ...edits.flat()]
}

export function shownOf([position = 0, ...ends]: readonly number[]): Shown {
  const edits: [Position, Position][] = []
  for (let index = 0; index + 1 < ends.length; index += 2)
    edits.push([ends[index] as number, ends[index + 1] as number])
  return { position, edits }
}
