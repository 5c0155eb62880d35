import type { Position } from '../events/event.ts'
import type { Path } from '../json/paths.ts'
import type { JsonObject } from '../json/value.ts'
import { isSpeed, SPEEDS } from '../projections/pace.ts'
import { type Conditions, meetsConditions } from '../query/filter.ts'
import { bytesOfParameters, IGNORED, isReceived, parameterName, RECEIVED } from '../query/parameter.ts'
import { type Parameter, parseParameters, parseQuery, type Query, WITHOUT_FILTERS } from '../query/query.ts'
import { NO_PAGE } from '../query/result-cursor.ts'
import { Refusal } from '../runtime/errors.ts'
import { idBytes } from '../runtime/memory.ts'

/** A parsed `subscribe`. */
export interface SubscribeRequest {
  readonly collection: string
  /** Its query; parseSubscriptionFilter reads them. */
  readonly parameters: readonly Parameter[]
  /** Its memory, and that of the subscription without items. */
  readonly bytes: number
  readonly after: Position | undefined
  readonly journal: string | undefined
  /** A position or an instant, not resolved yet. */
  readonly from: string | undefined
  readonly speed: number
}

export const MEMBERS = ['collection', 'query', 'after', 'journal', 'from', 'speed']

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
  const parameters = parametersOf(query ?? {})
  let bytes = bytesOfParameters(parameters)
  for (const value of [collection, journal, from]) bytes += idBytes(value)
  return {
    collection,
    parameters,
    bytes,
    after,
    journal,
    from: from === undefined ? undefined : String(from),
    speed: speed ?? SPEEDS.least,
  }
}

function isPosition(value: unknown): value is Position {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

/** The part of a query that selects items: filters without sort, page and fields. */
export interface SubscriptionFilter extends Conditions {
  readonly concerns: (item: JsonObject) => boolean
}

const LIMITS = { parameters: 100, pageSize: 1 }

/**
 * Parses the parameters of a subscription. `time` is the field of the event time.
 * @throws {Refusal} `Invalid`
 */
export function parseSubscriptionFilter(parameters: readonly Parameter[], time: Path | undefined): SubscriptionFilter {
  const unfit = parameters.find(({ name }) => WITHOUT_FILTERS.has(name) && !IGNORED.includes(name))
  if (unfit) throw new Refusal('Invalid', `A subscription takes filters and q, not ${unfit.name}.`)
  const { filters, others, namesReceived } = parseQuery(parameters, LIMITS, { time })
  if (namesReceived && filters.some(({ path }) => isReceived(path)))
    throw new Refusal(
      'Invalid',
      `A subscription takes no filter of ${RECEIVED}: it tells of events as they are received.`,
    )
  return { filters, others, concerns: (item) => meetsConditions(item, { filters, others }) }
}

/** Reads a query string, or an object of parameters. */
function parametersOf(query: unknown): readonly Parameter[] {
  if (typeof query === 'string') return parseParameters(query, LIMITS.parameters)
  if (typeof query !== 'object' || query === null || Array.isArray(query)) {
    throw new Refusal('Invalid', 'The query of a subscription is a query string, or an object of parameters.')
  }
  const parameters = Object.entries(query).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((one: unknown): Parameter => {
      if (typeof one !== 'string' && typeof one !== 'number' && typeof one !== 'boolean') {
        throw new Refusal('Invalid', `The parameter ${name} must be text, a number, a boolean, or several of them.`)
      }
      return { raw: '', name: parameterName(name), value: String(one) }
    }),
  )
  if (parameters.length > LIMITS.parameters) throw new Refusal('Invalid', 'The subscription has too many parameters.')
  return parameters
}

/** A query for the first `size` matching items. */
export function queryOf({ filters, others }: SubscriptionFilter, size: number): Query {
  return { ...NO_PAGE, filters, others, sort: [], page: { ...NO_PAGE.page, size } }
}
