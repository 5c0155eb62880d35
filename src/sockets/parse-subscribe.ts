import type { Position } from '../events/event.ts'
import { isSpeed, SPEEDS } from '../projections/pace.ts'
import { Refusal } from '../runtime/errors.ts'

/** A parsed `subscribe`; parseSubscriptionFilter reads its query. */
export interface SubscribeRequest {
  readonly collection: string
  readonly query: unknown
  readonly after: Position | undefined
  readonly journal: string | undefined
  /** A position or an instant, not resolved yet. */
  readonly from: string | undefined
  readonly speed: number
}

const MEMBERS = ['collection', 'query', 'after', 'journal', 'from', 'speed']

/**
 * Checks what a client sent.
 * @throws {Refusal} `Invalid`
 */
export function parseSubscribe(sent: unknown): SubscribeRequest {
  if (typeof sent !== 'object' || sent === null) throw new Refusal('Invalid', 'subscribe needs {collection, …}.')
  const unknown = Object.keys(sent).find((name) => !MEMBERS.includes(name))
  if (unknown !== undefined) {
    throw new Refusal('Invalid', `subscribe has no member ${JSON.stringify(unknown)}; it has ${MEMBERS.join(', ')}.`)
  }
  const { collection, query, after, journal, from, speed } = sent as Readonly<Record<string, unknown>>
  if (typeof collection !== 'string' || collection === '') throw new Refusal('Invalid', 'collection must be text.')
  if (after !== undefined && !isPosition(after)) throw new Refusal('Invalid', 'after must be a position.')
  if (journal !== undefined && typeof journal !== 'string') throw new Refusal('Invalid', 'journal must be a UUID.')
  if (from !== undefined && typeof from !== 'string' && !isPosition(from)) {
    throw new Refusal('Invalid', 'from must be a position or an ISO 8601 date-time.')
  }
  if (from !== undefined && after !== undefined) {
    throw new Refusal('Invalid', 'after resumes a subscription and from starts a replay: use only one of them.')
  }
  if (speed !== undefined && from === undefined) throw new Refusal('Invalid', 'speed needs from: where to begin.')
  if (speed !== undefined && !isSpeed(speed)) {
    throw new Refusal('Invalid', `speed must be a number from ${SPEEDS.least} to ${SPEEDS.most}.`)
  }
  return {
    collection,
    query,
    after,
    journal,
    from: from === undefined ? undefined : String(from),
    speed: speed ?? SPEEDS.least,
  }
}

function isPosition(value: unknown): value is Position {
  return Number.isSafeInteger(value) && (value as number) >= 0
}
