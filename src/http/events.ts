import { Readable } from 'node:stream'
import Router from '@koa/router'
import { Refusal } from '../errors.ts'
import { type DomainEvent, isEventType, type Position } from '../events/event.ts'
import type { Journal, Recorded } from '../events/journal.ts'
import { compareInstants, type Instant, readInstant } from '../projections/query/instant.ts'
import type { Parameter, QueryLimits } from '../projections/query/query.ts'
import { sendJson } from './answers.ts'
import { type HttpQueryLimits, parametersOf } from './requests.ts'
import { resource } from './resource.ts'

export interface EventsOptions {
  readonly journal: Pick<Journal, 'head' | 'read'>
  readonly limits: HttpQueryLimits
}

const JSON_PAGE = 'application/json'
const NDJSON = 'application/x-ndjson'
const DEFAULT_LIMIT = 512

/** `/events`: the journal as it is, oldest first. */
export function eventRoutes({ journal, limits }: EventsOptions): Router {
  const router = new Router({ sensitive: true })

  resource(router, '/events', {
    GET: async (ctx) => {
      const type = ctx.accepts(JSON_PAGE, NDJSON)
      if (!type) throw new Refusal('NotAcceptable', `Events come as ${JSON_PAGE} or ${NDJSON}.`)
      ctx.vary('Accept')
      const parameters = parametersOf(ctx, limits)
      const wanted = parseWanted(parameters, limits)
      const { head } = journal
      ctx.set('Journal-Position', String(head))
      if (type === NDJSON) {
        ctx.set('Content-Type', NDJSON)
        ctx.body = Readable.from(lines(journal, wanted, head))
        return
      }
      const limit = wanted.limit ?? Math.min(DEFAULT_LIMIT, limits.pageSize)
      const events: string[] = []
      let next: Position | undefined
      for await (const { position, text } of matching(journal, wanted, head)) {
        if (events.length === limit) {
          next = position
          break
        }
        events.push(text)
      }
      if (next !== undefined) {
        const rest = parameters.filter(({ name }) => name !== 'from').map(({ raw }) => raw)
        ctx.set('Link', `</events?${[`from=${next}`, ...rest].join('&')}>; rel="next"`)
      }
      sendJson(ctx, `[${events.join(',')}]`)
    },
  })

  resource(router, '/events/:position', {
    GET: async (ctx) => {
      const type = ctx.accepts(JSON_PAGE, NDJSON)
      if (!type) throw new Refusal('NotAcceptable', `An event comes as ${JSON_PAGE} or ${NDJSON}.`)
      ctx.vary('Accept')
      const position = parsePosition(ctx.path.slice('/events/'.length).replace(/\/$/, ''), 'The position')
      for await (const event of matching(journal, { from: position }, position)) {
        sendJson(ctx, type === NDJSON ? `${event.text}\n` : event.text)
        ctx.set('Content-Type', type)
        return
      }
      throw new Refusal('NotFound', `There is no event at position ${position}; the last one is ${journal.head}.`)
    },
  })

  return router
}

interface Wanted {
  readonly from: Position
  readonly limit?: number
  readonly collection?: string
  readonly id?: string
  readonly type?: string
  readonly actor?: string
  readonly since?: Instant
  readonly until?: Instant
}

function parseWanted(parameters: readonly Parameter[], limits: QueryLimits): Wanted {
  const wanted: { -readonly [name in keyof Wanted]: Wanted[name] } = { from: 1 }
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
      case 'collection':
      case 'id':
      case 'actor':
        wanted[name] = value
        break
      default:
        throw new Refusal(
          'Invalid',
          `There is no parameter ${name}; there are: from, limit, collection, id, type, actor, since, until.`,
        )
    }
  }
  return wanted
}

function parsePosition(text: string, what: string): Position {
  if (!/^\d+$/.test(text))
    throw new Refusal('Invalid', `${what} must be a non-negative integer, not ${JSON.stringify(text)}.`)
  return Number(text)
}

async function* lines(journal: EventsOptions['journal'], wanted: Wanted, head: Position): AsyncGenerator<string> {
  let left = wanted.limit ?? Number.POSITIVE_INFINITY
  for await (const { text } of matching(journal, wanted, head)) {
    if (left-- === 0) return
    yield `${text}\n`
  }
}

async function* matching(
  journal: EventsOptions['journal'],
  wanted: Wanted,
  head: Position,
): AsyncGenerator<{ readonly position: Position; readonly text: string }> {
  for await (const recorded of journal.read(Math.max(1, wanted.from), head)) {
    if (!isWithin(recorded, wanted)) continue
    for (const [index, event] of recorded.events.entries()) {
      if (!concerns(event, wanted)) continue
      const position = recorded.position + index
      yield { position, text: eventText(recorded, event, position) }
    }
  }
}

function isWithin({ actor, time }: Recorded, wanted: Wanted): boolean {
  const at = { ms: Date.parse(time), micros: 0 }
  return (
    (wanted.actor === undefined || wanted.actor === actor) &&
    (!wanted.since || compareInstants(at, wanted.since) >= 0) &&
    (!wanted.until || compareInstants(at, wanted.until) <= 0)
  )
}

function concerns(event: DomainEvent, { collection, id, type }: Wanted): boolean {
  return (
    (collection === undefined || event.collection === collection) &&
    (type === undefined || event.type === type) &&
    (id === undefined || ('id' in event && String(event.id) === id))
  )
}

function eventText({ time, actor, requestId }: Recorded, event: DomainEvent, position: Position): string {
  const { type, collection, ...rest } = event
  const { item, ids, ...fields } = rest as { item?: unknown; ids?: unknown }
  return JSON.stringify({ position, type, collection, ...fields, time, actor, requestId, item, ids })
}
