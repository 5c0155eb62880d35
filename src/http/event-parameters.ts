import { isEventType, type Position } from '../events/event.ts'
import { readInstant } from '../json/instant.ts'
import type { EventFilter } from '../projections/event-search.ts'
import type { Parameter, QueryLimits } from '../query/query.ts'
import { Refusal } from '../runtime/errors.ts'
import { ACCESS_TOKEN } from './guard.ts'

/** The parsed query of `/events`. */
export interface EventParameters extends EventFilter {
  readonly limit?: number
  readonly follow?: boolean
  readonly order?: 'asc' | 'desc'
}

export function parseEventParameters(parameters: readonly Parameter[], limits: QueryLimits): EventParameters {
  const wanted: { -readonly [name in keyof EventParameters]: EventParameters[name] } = { from: 1 }
  const seen = new Set<string>()
  for (const { name, value } of parameters) {
    if (seen.has(name)) throw new Refusal('Invalid', `The parameter ${name} must be given once.`)
    seen.add(name)
    switch (name) {
      case 'from':
        wanted.from = parsePosition(value, 'The parameter from')
        break
      case 'limit': {
        const limit = parsePosition(value, 'The parameter limit')
        if (limit === 0 || limit > limits.pageSize) {
          throw new Refusal('Invalid', `The parameter limit must be between 1 and ${limits.pageSize}.`)
        }
        wanted.limit = limit
        break
      }
      case 'follow':
        if (value !== 'true' && value !== 'false') {
          throw new Refusal('Invalid', 'The parameter follow must be true or false.')
        }
        wanted.follow = value === 'true'
        break
      case 'order':
        if (value !== 'asc' && value !== 'desc')
          throw new Refusal('Invalid', 'The parameter order must be asc or desc.')
        wanted.order = value
        break
      case 'type':
        if (!isEventType(value))
          throw new Refusal('Invalid', `There are no events of the type ${JSON.stringify(value)}.`)
        wanted.type = value
        break
      case 'since':
      case 'until': {
        const instant = readInstant(value)
        if (!instant) throw new Refusal('Invalid', `The parameter ${name} must be an ISO 8601 date or date-time.`)
        wanted[name] = instant
        break
      }
      case ACCESS_TOKEN:
        break
      case 'collection':
      case 'id':
      case 'actor':
        wanted[name] = value
        break
      default:
        throw new Refusal(
          'Invalid',
          `There is no parameter ${name}; there are: from, limit, order, collection, id, type, actor, since, until, follow.`,
        )
    }
  }
  const isOpen = wanted.order === 'desc' && !seen.has('from')
  return isOpen ? { ...wanted, from: Number.MAX_SAFE_INTEGER } : wanted
}

export function parsePosition(text: string, what: string): Position {
  if (!/^\d+$/.test(text))
    throw new Refusal('Invalid', `${what} must be a non-negative integer, not ${JSON.stringify(text)}.`)
  return Number(text)
}
