import { EVENT_TYPES, isEventType, type Position } from '../events/event.ts'
import { type Instant, readInstant } from '../json/instant.ts'
import { splitList } from '../json/paths.ts'
import { EVENT_GROUPS, type EventAggregation, type EventGroup } from '../projections/event-rows.ts'
import type { EventFilter } from '../projections/event-search.ts'
import { parseWindow, type Window } from '../query/aggregate/window.ts'
import { DEFAULT_PAGE_SIZE } from '../query/paging.ts'
import { FLAG, type ParameterDescription, TEXT, TEXT_LIST } from '../query/parameter.ts'
import type { Parameter, QueryLimits } from '../query/query.ts'
import { Refusal } from '../runtime/errors.ts'
import type { HttpRequest } from './exchange.ts'
import { ACCESS_TOKEN } from './pipeline.ts'
import { type HttpQueryLimits, parametersOf, parsePosition, refuseUnknown } from './requests.ts'

/** The parsed query of `/events`. */
export interface EventParameters extends Omit<SelectedEvents, 'from'> {
  /** Default: the first position in the order. `now`: behind the last one. */
  readonly from?: Position | 'now'
  /** The UUID of the journal that the client knows positions of. */
  readonly journal?: string
  /** Counts of events instead of events. */
  readonly aggregate?: (typeof AGGREGATES)[number]
  readonly groupBy?: readonly EventGroup[]
  readonly window?: string
  readonly tz?: string
}

/** The events to send. */
export interface SelectedEvents extends EventFilter {
  readonly limit?: number
  readonly follow?: boolean
  readonly order?: 'asc' | 'desc'
  readonly changes?: boolean
}

/** A parameter of `/events`, for the check and for OpenAPI. */
interface EventParameter extends ParameterDescription {
  /** @throws {Refusal} when the text is not a value of the schema */
  readonly parse: (value: string, limits: QueryLimits) => Partial<EventParameters>
}

const ORDERS = ['asc', 'desc'] as const
const FLAGS = ['true', 'false'] as const
const AGGREGATES = ['count'] as const

/** The parameters of `/events`, in the order in which errors and documentation list them. */
export const EVENT_PARAMETERS = {
  from: {
    description: 'The first position in that order; `now`: only new events; by default all events.',
    schema: {
      oneOf: [
        { type: 'integer', minimum: 0 },
        { type: 'string', enum: ['now'] },
      ],
    },
    parse: (value) => ({ from: value === 'now' ? value : parsePosition(value, 'The parameter from') }),
  },
  journal: {
    description: 'The UUID of the journal that `from` and `Last-Event-ID` belong to; another one is 409.',
    schema: TEXT,
    parse: (journal) => ({ journal }),
  },
  limit: {
    description: `Highest number of events; by default ${DEFAULT_PAGE_SIZE}, all of them as NDJSON.`,
    schema: { type: 'integer', minimum: 1 },
    parse: (value, { pageSize }) => {
      const limit = parsePosition(value, 'The parameter limit')
      if (limit > 0 && limit <= pageSize) return { limit }
      throw new Refusal('Invalid', `The parameter limit must be between 1 and ${pageSize}.`)
    },
  },
  order: {
    description: '`desc`: the newest first.',
    schema: { type: 'string', enum: ORDERS },
    parse: (value) => ({ order: oneOf('order', ORDERS, value) }),
  },
  collection: {
    description: 'Only events of this collection.',
    schema: TEXT,
    parse: (collection) => ({ collection }),
  },
  id: {
    description: 'Only events of items whose `id` has this text.',
    schema: TEXT,
    parse: (id) => ({ id }),
  },
  type: {
    description: 'Only events of this type.',
    schema: { type: 'string', enum: EVENT_TYPES },
    parse: (type) => {
      if (isEventType(type)) return { type }
      throw new Refusal('Invalid', `There are no events of the type ${JSON.stringify(type)}.`)
    },
  },
  actor: {
    description: 'Only events of this actor.',
    schema: TEXT,
    parse: (actor) => ({ actor }),
  },
  requestId: {
    description: 'Only events of the request with this `X-Request-Id`.',
    schema: TEXT,
    parse: (requestId) => ({ requestId }),
  },
  since: {
    description: 'Only events from this ISO 8601 date or date-time on.',
    schema: TEXT,
    parse: (value) => ({ since: instantOf('since', value) }),
  },
  until: {
    description: 'Only events up to this ISO 8601 date or date-time.',
    schema: TEXT,
    parse: (value) => ({ until: instantOf('until', value) }),
  },
  follow: {
    description: 'Whether a stream continues with new events; by default server-sent events do, NDJSON does not.',
    schema: FLAG,
    parse: (value) => ({ follow: oneOf('follow', FLAGS, value) === 'true' }),
  },
  changes: {
    description: '`true`: each event of an item has its `changes`, too.',
    schema: FLAG,
    parse: (value) => ({ changes: oneOf('changes', FLAGS, value) === 'true' }),
  },
  aggregate: {
    description: '`count`: rows with numbers of events instead of events.',
    schema: { type: 'string', enum: AGGREGATES },
    parse: (value) => ({ aggregate: oneOf('aggregate', AGGREGATES, value) }),
  },
  groupBy: {
    description:
      'Counts for each `type`, `collection` or `actor`, or for each combination of several. With `aggregate`.',
    schema: TEXT_LIST,
    parse: (value) => ({ groupBy: parseGroups(value) }),
  },
  window: {
    description: 'Counts for each window of time, such as `15m` or `1d`: whole minutes. With `aggregate`.',
    schema: TEXT,
    parse: (window) => ({ window }),
  },
  tz: {
    description: 'The time zone of the windows, such as `Europe/Helsinki` or `+02:00`. With `window`.',
    schema: TEXT,
    parse: (tz) => ({ tz }),
  },
} as const satisfies Readonly<Record<string, EventParameter>>

export type EventParameterName = keyof typeof EVENT_PARAMETERS

/** The parameter of a single event. */
export const CHANGES = 'changes'

export function parametersOfEvent(request: HttpRequest, limits: HttpQueryLimits): readonly Parameter[] {
  const parameters = withoutToken(parametersOf(request, limits))
  refuseUnknown(parameters, { [CHANGES]: EVENT_PARAMETERS[CHANGES] })
  return parameters
}

function withoutToken(parameters: readonly Parameter[]): readonly Parameter[] {
  return parameters.filter(({ name }) => name !== ACCESS_TOKEN)
}

export function parseEventParameters(parameters: readonly Parameter[], limits: QueryLimits): EventParameters {
  refuseUnknown(withoutToken(parameters), EVENT_PARAMETERS)
  let parsed: EventParameters = {}
  const seen = new Set<string>()
  for (const { name, value } of parameters) {
    if (seen.has(name)) throw new Refusal('Invalid', `The parameter ${name} must be given once.`)
    seen.add(name)
    if (name === ACCESS_TOKEN) continue
    const { parse }: EventParameter = EVENT_PARAMETERS[name as EventParameterName]
    parsed = { ...parsed, ...parse(value, limits) }
  }
  return parsed
}

/** Parameters that select events, and say nothing about their number. */
const WITHOUT_AGGREGATE = ['from', 'limit', 'order', 'id', 'requestId', 'follow', 'changes'] as const
const WITH_AGGREGATE = ['groupBy', 'window', 'tz'] as const

/**
 * The question for numbers of events; undefined if the parameters ask for events.
 * @throws {Refusal} `Invalid` for parameters that cannot be combined
 */
export function parseAggregation(parsed: EventParameters, most: number): EventAggregation | undefined {
  const { aggregate, groupBy = [], window, tz, ...filter } = parsed
  if (aggregate === undefined) {
    const name = WITH_AGGREGATE.find((one) => parsed[one] !== undefined)
    if (name) throw new Refusal('Invalid', `The parameter ${name} needs aggregate=count.`)
    return undefined
  }
  const other = WITHOUT_AGGREGATE.find((one) => parsed[one] !== undefined)
  if (other) {
    const why = 'events are counted by time, collection, type and actor'
    throw new Refusal('Invalid', `The parameter ${other} cannot be combined with aggregate: ${why}.`)
  }
  if (tz !== undefined && window === undefined) {
    throw new Refusal('Invalid', 'The parameter tz needs window, for example window=1h.')
  }
  return { groupBy, window: window === undefined ? undefined : parseMinutes(window, tz), filter, most }
}

/** A window of whole minutes. */
function parseMinutes(text: string, tz: string | undefined): Window {
  const window = parseWindow(text, tz)
  if (text.endsWith('s') && Number.parseInt(text, 10) % 60 !== 0) {
    throw new Refusal(
      'Invalid',
      `Events are counted by the minute, so a window must be whole minutes, for example 1m, not ${JSON.stringify(text)}.`,
    )
  }
  return window
}

function parseGroups(value: string): readonly EventGroup[] {
  const groups = splitList(value).map((name) => oneOf('groupBy', EVENT_GROUPS, name))
  const isTwice = new Set(groups).size < groups.length
  if (isTwice) throw new Refusal('Invalid', 'The parameter groupBy names a column twice.')
  return groups
}

function oneOf<Value extends string>(name: string, values: readonly Value[], value: string): Value {
  const found = values.find((one) => one === value)
  if (found === undefined) throw new Refusal('Invalid', `The parameter ${name} must be ${values.join(' or ')}.`)
  return found
}

function instantOf(name: string, value: string): Instant {
  const instant = readInstant(value)
  if (!instant) throw new Refusal('Invalid', `The parameter ${name} must be an ISO 8601 date or date-time.`)
  return instant
}
