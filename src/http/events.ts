import { Readable } from 'node:stream'
import type { PerAddress } from '../access/per-address.ts'
import { isEventType, type Position } from '../events/event.ts'
import { readInstant } from '../json/instant.ts'
import {
  checkReadable,
  type EventFilter,
  newestFirst,
  type SearchLimits,
  search,
  timeRange,
} from '../projections/event-search.ts'
import { LongText } from '../query/page-text.ts'
import type { Parameter, QueryLimits } from '../query/query.ts'
import { Refusal } from '../runtime/errors.ts'
import { NDJSON_TYPE } from './answers.ts'
import type { ApiRequest, ApiResource, Reply } from './api.ts'
import { JSON_TYPE } from './bodies.ts'
import { eventText, type Form, type StreamOptions, stream } from './event-streams.ts'
import { ACCESS_TOKEN } from './guard.ts'
import { type HttpQueryLimits, parametersOf } from './requests.ts'

export interface EventsOptions extends StreamOptions {
  readonly limits: HttpQueryLimits
  /** Counts the open streams by address. */
  readonly streams: PerAddress
  /** How long a stream waits for the position in Last-Event-ID. */
  readonly waitSeconds: number
}

const EVENT_STREAM = 'text/event-stream'
const DEFAULT_LIMIT = 512
/** Retry-After for a client with too many streams. */
const RETRY_SECONDS = 5
/** A page of very large events ends earlier: the longest string has about twice this length. */
const PAGE_CHARACTERS = 2 ** 28
/** Approximate number of characters encoded and sent at once. */
const PIECE_CHARACTERS = 2 ** 18

/** `/events`: the journal, oldest first; pages also newest first. */
export function eventResources(options: EventsOptions): readonly ApiResource[] {
  const { journal, limits } = options
  const events: ApiResource = {
    path: '/events',
    routes: {
      GET: async (request, reply) => {
        const type = request.accepts([JSON_TYPE, NDJSON_TYPE, EVENT_STREAM])
        if (!type)
          throw new Refusal('NotAcceptable', `Events are available as ${JSON_TYPE}, ${NDJSON_TYPE} or ${EVENT_STREAM}.`)
        reply.vary('Accept')
        const parameters = parametersOf(request, limits)
        const wanted = parseWanted(parameters, limits)
        reply.position = journal.head
        if (wanted.order === 'desc' && type !== JSON_TYPE) {
          throw new Refusal('Invalid', `Only pages support order=desc, as ${JSON_TYPE}.`)
        }
        if (type === JSON_TYPE) await replyPage(request, reply, parameters, wanted)
        else if (type === NDJSON_TYPE) await replyStream(request, reply, type, wanted, wanted.follow ?? false)
        else {
          const after = String(request.headers['last-event-id'] ?? '')
          const from = after === '' ? wanted.from : (await arrived(parsePosition(after, 'Last-Event-ID'))) + 1
          reply.set('Cache-Control', 'no-store')
          await replyStream(request, reply, type, { ...wanted, from }, wanted.follow ?? true)
        }
      },
    },
  }

  const event: ApiResource = {
    path: '/events/:position',
    routes: {
      GET: async (request, reply) => {
        const type = request.accepts([JSON_TYPE, NDJSON_TYPE])
        if (!type) throw new Refusal('NotAcceptable', `An event is available as ${JSON_TYPE} or ${NDJSON_TYPE}.`)
        reply.vary('Accept')
        const position = parsePosition(request.path.slice('/events/'.length).replace(/\/$/, ''), 'The position')
        for await (const found of search(options, { from: position }, position, askerOf(request))) {
          const text = eventText(found)
          reply.json(type === NDJSON_TYPE ? `${text}\n` : text)
          reply.set('Content-Type', type)
          return
        }
        throw new Refusal('NotFound', `There is no event at position ${position}; the last one is ${journal.head}.`)
      },
    },
  }

  return [events, event]

  async function replyPage(
    request: ApiRequest,
    reply: Reply,
    parameters: readonly Parameter[],
    wanted: Asked,
  ): Promise<void> {
    if (wanted.follow) {
      throw new Refusal('Invalid', `Pages do not support follow=true, which is for ${NDJSON_TYPE} and ${EVENT_STREAM}.`)
    }
    const { head } = journal
    const limit = wanted.limit ?? Math.min(DEFAULT_LIMIT, limits.pageSize)
    const isNewestFirst = wanted.order === 'desc'
    const asked = isNewestFirst ? { ...wanted, from: 1 } : wanted
    const { first, last = head } = await timeRange(options, asked)
    const range = { ...wanted, from: first }
    const found = isNewestFirst
      ? newestFirst(options, range, Math.min(wanted.from, head, last), askerOf(request))
      : search(options, range, Math.min(head, last), { ...askerOf(request), most: limit + 1 })
    const page = new PageText()
    for await (const one of found) {
      const text = eventText(one)
      if (page.size === limit || (page.size > 0 && page.characters + text.length > PAGE_CHARACTERS)) {
        const rest = parameters.filter(({ name }) => name !== 'from').map(({ raw }) => raw)
        reply.set('Link', `</events?${[`from=${one.position}`, ...rest].join('&')}>; rel="next"`)
        break
      }
      page.add(text)
    }
    reply.json(page.end())
  }

  async function replyStream(
    request: ApiRequest,
    reply: Reply,
    type: keyof typeof FORMS,
    wanted: Asked,
    follows: boolean,
  ): Promise<void> {
    await checkReadable(options, wanted.from)
    const address = options.gate.addressOf(request.remoteAddress, request.headers)
    if (options.streams.isFull(address)) {
      reply.set('Retry-After', String(RETRY_SECONDS))
      throw new Refusal(
        'TooManyRequests',
        `This address has ${options.streams.most} streams of events open already (Limits.StreamsPerAddress).`,
      )
    }
    const isGone = (): boolean => body.destroyed || request.isGone()
    const streamed = { wanted, form: FORMS[type], follows, reader: request.principal, isGone }
    const body: Readable = Readable.from(stream(options, streamed))
    body.once('close', options.streams.enter(address))
    reply.stream(type, body)
  }

  /** Waits for a position that a cluster node may not have yet, and throws if it does not arrive. */
  async function arrived(position: Position): Promise<Position> {
    const { arrivals, waitSeconds } = options
    const deadline = performance.now() + waitSeconds * 1000
    while (journal.head < position) {
      const left = deadline - performance.now()
      if (left <= 0 || arrivals.ended) {
        const why = `Last-Event-ID ${position} is beyond the last position, ${journal.head}`
        throw new Refusal(
          'Invalid',
          `${why}: it is of another journal, or of one that was longer. Read from the beginning.`,
        )
      }
      await arrivals.wait(left)
    }
    return position
  }
}

/** A JSON array, created in pieces if it is long. */
class PageText {
  size = 0
  characters = 0
  readonly #pieces: string[] = []
  #bytes = 0
  #texts: string[] = []
  #gathered = 0

  add(text: string): void {
    this.size++
    this.characters += text.length + 1
    this.#texts.push(text)
    this.#gathered += text.length
    if (this.#gathered >= PIECE_CHARACTERS) this.#endPiece()
  }

  end(): string | LongText {
    if (this.#pieces.length === 0) return `[${this.#texts.join(',')}]`
    if (this.#texts.length > 0) this.#endPiece()
    return new LongText([...this.#pieces, ']'], this.#bytes + 1)
  }

  #endPiece(): void {
    const piece = `${this.#pieces.length === 0 ? '[' : ','}${this.#texts.join(',')}`
    this.#pieces.push(piece)
    this.#bytes += Buffer.byteLength(piece)
    this.#texts = []
    this.#gathered = 0
  }
}

/** The filter and the amount. */
interface Asked extends EventFilter {
  readonly limit?: number
  readonly follow?: boolean
  readonly order?: 'asc' | 'desc'
}

const FORMS: Readonly<Record<typeof NDJSON_TYPE | typeof EVENT_STREAM, Form>> = {
  // No sign of life, since not every parser accepts empty lines.
  [NDJSON_TYPE]: { begin: '', event: (_position, text) => `${text}\n`, sign: undefined },
  // WHATWG HTML, "Server-sent events".
  [EVENT_STREAM]: {
    begin: ': the journal\n\n',
    event: (position, text) => `id: ${position}\ndata: ${text}\n\n`,
    sign: ': nothing new\n\n',
  },
}

function parseWanted(parameters: readonly Parameter[], limits: QueryLimits): Asked {
  const wanted: { -readonly [name in keyof Asked]: Asked[name] } = { from: 1 }
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

function askerOf(request: ApiRequest): SearchLimits {
  return { isGone: () => request.isGone() }
}

function parsePosition(text: string, what: string): Position {
  if (!/^\d+$/.test(text))
    throw new Refusal('Invalid', `${what} must be a non-negative integer, not ${JSON.stringify(text)}.`)
  return Number(text)
}
