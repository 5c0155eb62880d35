import type { Position } from '../events/event.ts'

/** A version of the data file: it shows the state right after an event, plus some later edits. */
export interface FileVersion {
  readonly position: Position
  /** The first and the last position of each edit. */
  readonly edits: readonly (readonly [Position, Position])[]
}

/** Highest number of remembered versions. */
const REMEMBERED = 1000
/** The search for the base of an edit covers versions up to this number of events older than the last one. */
const MOST_EVENTS = 100_000

export function showsEvent({ position, edits }: FileVersion, event: Position): boolean {
  return event <= position || edits.some(([first, last]) => first <= event && event <= last)
}

export function lastEventOf({ position, edits }: FileVersion): Position {
  return edits.at(-1)?.[1] ?? position
}

/** Adds a version. If there are too many, drops every other one of the older half, so that they reach far back. */
export function withVersion(versions: readonly FileVersion[], one: FileVersion): readonly FileVersion[] {
  const last = versions.at(-1)
  if (last && last.position === one.position && lastEventOf(last) === lastEventOf(one)) return versions
  const all = [...versions, one]
  if (all.length <= REMEMBERED) return all
  return all.filter((_, index) => index >= REMEMBERED / 2 || index % 2 === 0)
}

/** The versions from which an edit of the file may have been made. */
export function recentVersions(versions: readonly FileVersion[]): readonly FileVersion[] {
  const last = versions.at(-1)
  return last ? versions.filter(({ position }) => position >= last.position - MOST_EVENTS) : []
}
