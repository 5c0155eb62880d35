import { Refusal } from '../errors.ts'
import type { Position } from '../events/event.ts'
import type { Journal } from '../events/journal.ts'
import { readInstant } from '../json/instant.ts'
import { positionAt } from '../projections/past.ts'
import { AS_OF, type Parameter } from '../projections/query/query.ts'

/** The position that `asOf` asks for; undefined when the present is asked for. Beyond the head or in the future: refused. */
export async function parseAsOf(
  parameters: readonly Parameter[],
  journal: Pick<Journal, 'head' | 'read'>,
  now: () => Date,
): Promise<Position | undefined> {
  const asked = parameters.filter(({ name }) => name === AS_OF)
  const [first] = asked
  if (!first) return undefined
  if (asked.length > 1) throw new Refusal('Invalid', 'The parameter asOf must be given once.')
  return parseMoment(first.value, AS_OF, journal, now)
}

/** The position that a text names, itself or by an instant; `what` is what the client calls it. */
export async function parseMoment(
  text: string,
  what: string,
  journal: Pick<Journal, 'head' | 'read'>,
  now: () => Date,
): Promise<Position> {
  if (/^\d{1,15}$/.test(text)) {
    const position = Number(text)
    if (position <= journal.head) return position
    throw new Refusal('Invalid', `${what}=${text} is beyond the last position, ${journal.head}.`)
  }
  const instant = readInstant(text)
  if (!instant) {
    throw new Refusal('Invalid', `${what} must be a position or an ISO 8601 date-time, not ${JSON.stringify(text)}.`)
  }
  if (instant.ms > now().getTime()) throw new Refusal('Invalid', `${what}=${text} is in the future.`)
  return positionAt(journal, instant.ms)
}
