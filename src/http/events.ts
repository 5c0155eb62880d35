import { Readable } from 'node:stream'
import Router from '@koa/router'
import type { Principal } from '../access/access.ts'
import type { Gate } from '../access/gate.ts'
import { Refusal } from '../errors.ts'
import { type DomainEvent, isEventType, type Position } from '../events/event.ts'
import type { Journal, Recorded } from '../events/journal.ts'
import type { Document } from '../json/document.ts'
import { compareInstants, type Instant, readInstant } from '../json/instant.ts'
import type { Arrivals } from '../projections/arrivals.ts'
import type { History } from '../projections/history.ts'
import type { Parameter, QueryLimits } from '../projections/query/query.ts'
import { sendJson } from './answers.ts'
import { ACCESS_TOKEN, principalOf } from './guard.ts'
import { type HttpQueryLimits, parametersOf } from './requests.ts'
import { resource } from './resource.ts'

export interface EventsOptions {
  readonly journal: Pick<Journal, 'head' | 'read'>
  readonly history: History
  readonly arrivals: Arrivals
  readonly gate: Gate
  readonly limits: HttpQueryLimits
}

type Source = Pick<EventsOptions, 'journal' | 'history'>

const JSON_PAGE = 'application/json'
const NDJSON = 'application/x-ndjson'
const EVENT_STREAM = 'text/event-stream'
const DEFAULT_LIMIT = 512
/** A page of very large events ends earlier: no string holds more than twice this. */
const PAGE_CHARACTERS = 2 ** 28
/** How often a stream looks whether whoever reads it still may. */
const LOOK_MS = 500
/** A stream that has nothing to say says so this often, lest somebody on the way takes it for dead. */
const LOOKS_A_SIGN = 30

/** `/events`: the journal as it is, oldest first. */
export function eventRoutes(options: EventsOptions): Router {
  const { journal, limits } = options
  const router = new Router({ sensitive: true })

  resource(router, '/events', {
    GET: async (ctx) => {
      const type = ctx.accepts(JSON_PAGE, NDJSON, EVENT_STREAM)
      if (!type) throw new Refusal('NotAcceptable', `Events come as ${JSON_PAGE}, ${NDJSON} or ${EVENT_STREAM}.`)
      ctx.vary('Accept')
      const parameters = parametersOf(ctx, limits)
      const wanted = parseWanted(parameters, limits)
      const { head } = journal
      ctx.set('Journal-Position', String(head))
      if (type === NDJSON) {
        ctx.set('Content-Type', NDJSON)
        ctx.body = Readable.from(lines(options, wanted, head))
        return
      }
      if (type === EVENT_STREAM) {
        const after = ctx.get('Last-Event-ID')
        const from = after === '' ? wanted.from : parsePosition(after, 'Last-Event-ID') + 1
        ctx.set('Content-Type', EVENT_STREAM)
        ctx.set('Cache-Control', 'no-store')
        ctx.body = Readable.from(live(options, { ...wanted, from }, principalOf(ctx)))
        return
      }
      const limit = wanted.limit ?? Math.min(DEFAULT_LIMIT, limits.pageSize)
      const events: string[] = []
      let characters = 0
      let next: Position | undefined
      for await (const { position, text } of matching(options, wanted, head)) {
        characters += text.length + 1
        if (events.length === limit || (events.length > 0 && characters > PAGE_CHARACTERS)) {
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
      for await (const event of matching(options, { from: position }, position)) {
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

async function* lines(source: Source, wanted: Wanted, head: Position): AsyncGenerator<string> {
  let left = wanted.limit ?? Number.POSITIVE_INFINITY
  for await (const { text } of matching(source, wanted, head)) {
    if (left-- === 0) return
    yield `${text}\n`
  }
}

/**
 * All that match, then what comes (WHATWG HTML, "Server-sent events"). It reads the journal at the pace of
 * whoever reads it: nothing is kept in memory for a slow one.
 */
async function* live(options: EventsOptions, wanted: Wanted, reader: Principal | undefined): AsyncGenerator<string> {
  const { journal, arrivals, gate } = options
  let left = wanted.limit ?? Number.POSITIVE_INFINITY
  let { from } = wanted
  yield ': the journal\n\n'
  for (let looks = 1; !arrivals.ended && reader && gate.isValid(reader); looks++) {
    const { head } = journal
    for await (const { position, text } of matching(options, { ...wanted, from }, head)) {
      yield `id: ${position}\ndata: ${text}\n\n`
      if (--left === 0 || !gate.isValid(reader)) return
    }
    from = Math.max(from, head + 1)
    if (journal.head === head) await arrivals.wait(LOOK_MS)
    if (looks % LOOKS_A_SIGN === 0) yield ': nothing new\n\n'
  }
}

async function* matching(
  { journal, history }: Source,
  wanted: Wanted,
  head: Position,
): AsyncGenerator<{ readonly position: Position; readonly text: string }> {
  for await (const recorded of candidates(journal, history, wanted, head)) {
    if (!isWithin(recorded, wanted)) continue
    for (const [index, event] of recorded.events.entries()) {
      if (!concerns(event, wanted)) continue
      const position = recorded.position + index
      yield { position, text: eventText(recorded, event, position) }
    }
  }
}

/** An item's events are found by its history; all others by reading on. */
async function* candidates(
  journal: Source['journal'],
  history: History,
  { from, collection, id }: Wanted,
  head: Position,
): AsyncGenerator<Recorded> {
  if (collection === undefined || id === undefined) {
    yield* journal.read(Math.max(1, from), head)
    return
  }
  yield* history.eventsOf(journal, collection, id, from, head)
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
  const { item, ids, ...fields } = rest as { item?: Document; ids?: unknown }
  const text = JSON.stringify({ position, type, collection, ...fields, time, actor, requestId, ids })
  return item ? `${text.slice(0, -1)},"item":${item.text}}` : text
}
