import { PAGING } from '../query/paging.ts'
import { parseFlag } from '../query/parameter.ts'
import { ALL, mayBeRelative, type Parameter, parseQuery, type Query } from '../query/query.ts'
import { Refusal } from '../runtime/errors.ts'
import type { ApiOptions } from './api-options.ts'
import type { HttpRequest } from './exchange.ts'
import { type Form, formOf, TYPES } from './formats/forms.ts'

/** A parsed GET of a list of items. */
export interface ListRequest {
  readonly request: HttpRequest
  /** The name of the collection. */
  readonly name: string
  readonly parameters: readonly Parameter[]
  readonly query: Query
  /** Whether the result changes only by events, so that it has an `ETag`. */
  readonly isTagged: boolean
  readonly form: Form
  /** The whole result instead of a page. */
  readonly isWhole: boolean
}

/**
 * `nowMs` is the instant of a filter such as `now-1h`.
 * @throws {Refusal} `Invalid` or `NotAcceptable`
 */
export function parseList(
  { request, name, parameters }: Pick<ListRequest, 'request' | 'name' | 'parameters'>,
  { queries, limits, now }: ApiOptions,
  nowMs = now().getTime(),
): ListRequest {
  const form = formOf(request)
  const time = queries.timeOf(name)
  const query = parseQuery(parameters, limits, { time, now: nowMs })
  // The result of filters relative to now changes without an event.
  const isRelative = (time !== undefined || query.namesReceived === true) && mayBeRelative(parameters)
  if (!form) throw new Refusal('NotAcceptable', `Items are available as ${Object.values(TYPES).join(', ')}.`)
  const isWhole = isForAll(parameters)
  if (isWhole && query.relations?.length) {
    throw new Refusal('Invalid', 'The whole result (all=true) has no embedded items; ask for pages.')
  }
  if (isWhole && query.grouping) {
    throw new Refusal('Invalid', 'The parameter all cannot be combined with groups, whose rows fit on one page.')
  }
  return {
    request,
    name,
    parameters,
    query,
    isTagged: !isRelative,
    form,
    isWhole,
  }
}

/** Whether the whole result is requested instead of a page. */
function isForAll(parameters: readonly Parameter[]): boolean {
  if (!parseFlag(parameters, ALL)) return false
  const paging = parameters.find(({ name }) => PAGING.has(name))
  if (!paging) return true
  throw new Refusal('Invalid', `The whole result has no pages: all=true cannot be combined with ${paging.name}.`)
}
