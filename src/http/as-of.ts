import type { Position } from '../events/event.ts'
import type { Journal } from '../events/journal.ts'
import { momentOf, parseMoment } from '../projections/moment.ts'
import { AS_OF, type Parameter } from '../query/query.ts'
import { Refusal } from '../runtime/errors.ts'
import type { Reply } from './api.ts'

export function asksForPast(parameters: readonly Parameter[]): boolean {
  return parameters.some(({ name }) => name === AS_OF)
}

/**
 * The position that `asOf` names; undefined without `asOf`. Sets the `Cache-Control` of a past state.
 * @throws {Refusal} when it is beyond the head or in the future.
 */
export async function readPosition(
  parameters: readonly Parameter[],
  reply: Reply,
  journal: Pick<Journal, 'head' | 'read' | 'timeMs'>,
  now: () => Date,
): Promise<Position | undefined> {
  const asked = parameters.filter(({ name }) => name === AS_OF)
  const [first] = asked
  if (!first) return undefined
  if (asked.length > 1) throw new Refusal('Invalid', 'The parameter asOf must be given once.')
  const at = await parseMoment(first.value, AS_OF, journal, now)
  reply.set('Cache-Control', 'private, no-cache')
  return at
}

/** The instant that `asOf` names, in milliseconds since 1970. */
export async function timeOfAsOf(
  parameters: readonly Parameter[],
  journal: Pick<Journal, 'head' | 'read' | 'timeMs'>,
  now: () => Date,
): Promise<number> {
  const asked = parameters.find(({ name }) => name === AS_OF)
  return asked ? (await momentOf(asked.value, AS_OF, journal, now)).ms : now().getTime()
}
