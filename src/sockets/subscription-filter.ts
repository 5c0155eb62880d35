import type { Path } from '../json/paths.ts'
import type { JsonObject } from '../json/value.ts'
import { type Conditions, meetsConditions } from '../query/filter.ts'
import { CACHE_BUSTERS, isReceived, parameterName, RECEIVED } from '../query/parameter.ts'
import { type Parameter, parseParameters, parseQuery, type Query, WITHOUT_FILTERS } from '../query/query.ts'
import { NO_PAGE } from '../query/result-cursor.ts'
import { Refusal } from '../runtime/errors.ts'

/** The part of a query that selects items: filters without sort, page and fields. */
export interface SubscriptionFilter extends Conditions {
  readonly concerns: (item: JsonObject) => boolean
}

const LIMITS = { parameters: 100, pageSize: 1 }

/** Parses the filters of a subscription: a query string, or an object of parameters. `time` is the field of the event time. */
export function parseSubscriptionFilter(query: unknown, time?: Path): SubscriptionFilter {
  const parameters = typeof query === 'string' ? parseParameters(query, LIMITS.parameters) : parametersOf(query ?? {})
  const unfit = parameters.find(({ name }) => WITHOUT_FILTERS.has(name) && !CACHE_BUSTERS.includes(name))
  if (unfit) throw new Refusal('Invalid', `A subscription takes filters and q, not ${unfit.name}.`)
  const { filters, mentioned, namesReceived } = parseQuery(parameters, LIMITS, { time })
  if (namesReceived && filters.some(({ path }) => isReceived(path)))
    throw new Refusal(
      'Invalid',
      `A subscription takes no filter of ${RECEIVED}: it tells of events as they are received.`,
    )
  return {
    filters,
    mentioned,
    concerns: (item) => meetsConditions(item, { filters, mentioned }),
  }
}

/** A query for the first `size` matching items. */
export function queryOf({ filters, mentioned }: SubscriptionFilter, size: number): Query {
  return { ...NO_PAGE, filters, mentioned, sort: [], page: { ...NO_PAGE.page, size } }
}

function parametersOf(query: unknown): readonly Parameter[] {
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
