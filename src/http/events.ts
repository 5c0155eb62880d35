import { Readable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import type { PerAddress } from '../access/addresses.ts'
import type { Gate } from '../access/gate.ts'
import { JournalDamage } from '../events/damage.ts'
import type { Position } from '../events/event.ts'
import type { Journal } from '../events/journal.ts'
import type { Document } from '../json/document.ts'
import type { Arrivals } from '../projections/arrivals.ts'
import { type ChangedEvent, withChanges } from '../projections/event-changes.ts'
import { type EventAggregation, eventRows } from '../projections/event-rows.ts'
import {
  checkReadable,
  type EventFilter,
  newestFirst,
  type SearchLimits,
  type SearchSource,
  search,
  timeRange,
} from '../projections/event-search.ts'
import type { Views } from '../projections/views.ts'
import { parseFlag } from '../query/parameter.ts'
import type { Parameter } from '../query/query.ts'
import { Refusal } from '../runtime/errors.ts'
import { HighWaterMark, type Memory, textBytes } from '../runtime/memory.ts'
import type { Turns } from '../runtime/turns.ts'
import type { ApiOptions } from './api-options.ts'
import {
  CHANGES,
  type EventParameters,
  parametersOfEvent,
  parseAggregation,
  parseEventParameters,
  type SelectedEvents,
} from './event-parameters.ts'
import type { HttpRequest, Reply, Resource } from './exchange.ts'
import { EVENT_MEDIA_TYPES, EVENT_STREAM, JSON_TYPE, NDJSON_TYPE } from './media-types.ts'
import { type BuildProgress, checkBuilt } from './pipeline.ts'
import { askerOf, type HttpQueryLimits, parametersOf, parsePosition } from './requests.ts'

interface EventsOptions extends SearchSource {
  readonly journal: SearchSource['journal'] & Pick<Journal, 'id'>
  readonly arrivals: Arrivals
  readonly gate: Gate
  readonly limits: HttpQueryLimits & Pick<ApiOptions['limits'], 'scanSeconds'>
  readonly views: Views
  readonly building: () => BuildProgress
  readonly turns: Turns
  /** Counts the open streams by address. */
  readonly streams: PerAddress
  /** How long a stream waits for the position in Last-Event-ID. */
  readonly waitSeconds: number
}

const DEFAULT_LIMIT = 512
/** Retry-After for a client with too many streams. */
const RETRY_SECONDS = 5
/** A page of long events ends earlier. */
const PAGE_CHARACTERS = 2 ** 20

/** `/events`: the journal, oldest first; pages also newest first. */
export function eventResources(options: EventsOptions): readonly Resource[] {
  const events = new EventReads(options)
  return [
    { path: '/events', routes: { GET: (request, reply) => events.list(request, reply) } },
    { path: '/events/:position', routes: { GET: (request, reply) => events.get(request, reply) } },
  ]
}

class EventReads {
  readonly #options: EventsOptions

  constructor(options: EventsOptions) {
    this.#options = options
  }

  /** A page or a stream of events, by the type that the client accepts. */
  async list(request: HttpRequest, reply: Reply): Promise<void> {
    const { journal, limits } = this.#options
    const type = request.accepts(EVENT_MEDIA_TYPES)
    if (!type)
      throw new Refusal('NotAcceptable', `Events are available as ${JSON_TYPE}, ${NDJSON_TYPE} or ${EVENT_STREAM}.`)
    reply.vary('Accept')
    const parameters = parametersOf(request, limits)
    const { journal: known = journal.id, ...parsed } = parseEventParameters(parameters, limits)
    const aggregation = parseAggregation(parsed, limits.pageSize)
    if (parsed.order === 'desc' && type !== JSON_TYPE) {
      throw new Refusal('Invalid', `Only pages support order=desc, as ${JSON_TYPE}.`)
    }
    if (parsed.order === 'desc' && parsed.from === 'now') {
      throw new Refusal('Invalid', 'from=now asks for new events, and order=desc for past ones: leave out one of them.')
    }
    if (known !== journal.id) {
      const why = `The journal is ${journal.id}, and not ${JSON.stringify(known)}: its positions are other ones`
      throw new Refusal('Conflict', `${why}. Read from the beginning.`)
    }
    if (aggregation) return this.#replyCounts(request, reply, aggregation)
    const isEventStream = type === EVENT_STREAM
    const from = await this.#firstOf(parsed, isEventStream ? request.headers['last-event-id'] : undefined)
    reply.position = journal.head
    const selected = { ...parsed, from: parsed.order === 'desc' ? from : Math.min(from, journal.head + 1) }
    if (type === JSON_TYPE) return this.#replyPage(request, reply, parameters, selected)
    if (isEventStream) reply.set('Cache-Control', 'no-store')
    return this.#replyStream(request, reply, type, selected, selected.follow ?? isEventStream)
  }

  /** The first position that is wanted, which may be the highest number: the newest or new ones. */
  async #firstOf({ from, order }: EventParameters, lastEventId: unknown = ''): Promise<Position> {
    if (lastEventId !== '') {
      const last = parsePosition(String(lastEventId), 'Last-Event-ID')
      await this.#await(last, `Last-Event-ID ${last}`)
      return last + 1
    }
    if (from === 'now') return Number.MAX_SAFE_INTEGER
    if (order === 'desc') return from ?? Number.MAX_SAFE_INTEGER
    if (from !== undefined) await this.#await(from - 1, `from=${from}`)
    return from ?? 1
  }

  /** The event at a position. */
  async get(request: HttpRequest, reply: Reply): Promise<void> {
    const type = request.accepts([JSON_TYPE, NDJSON_TYPE])
    if (!type) throw new Refusal('NotAcceptable', `An event is available as ${JSON_TYPE} or ${NDJSON_TYPE}.`)
    reply.vary('Accept')
    const position = parsePosition(request.path.slice('/events/'.length).replace(/\/$/, ''), 'The position')
    const changes = parseFlag(parametersOfEvent(request, this.#options.limits), CHANGES)
    for await (const found of find(this.#options, { from: position, changes }, position, searchLimitsOf(request))) {
      const text = eventText(found, this.#options.journal.id)
      return reply.send(type, type === NDJSON_TYPE ? `${text}\n` : text)
    }
    const { head } = this.#options.journal
    throw new Refusal('NotFound', `There is no event at position ${position}; the last one is ${head}.`)
  }

  async #replyCounts(request: HttpRequest, reply: Reply, aggregation: EventAggregation): Promise<void> {
    const { views, building, turns, limits } = this.#options
    if (!request.accepts([JSON_TYPE])) {
      throw new Refusal('NotAcceptable', `Numbers of events are available as ${JSON_TYPE}.`)
    }
    checkBuilt(building())
    views.eventCounts.check()
    const { scanSeconds } = limits
    const asker = askerOf(request, scanSeconds, request.memoryFor('queries'), () => {
      const why = `The events could not be counted within ${scanSeconds} s (Limits.ScanSeconds)`
      return new Refusal('Unavailable', `${why}: ask for a shorter time.`)
    })
    const { rows, position } = await turns.run((turn) => eventRows(views, aggregation, turn), asker)
    reply.position = position
    reply.json(JSON.stringify(rows))
  }

  async #replyPage(
    request: HttpRequest,
    reply: Reply,
    parameters: readonly Parameter[],
    selected: SelectedEvents,
  ): Promise<void> {
    const options = this.#options
    const { journal, limits } = options
    if (selected.follow) {
      throw new Refusal('Invalid', `Pages do not support follow=true, which is for ${NDJSON_TYPE} and ${EVENT_STREAM}.`)
    }
    const { head } = journal
    const limit = selected.limit ?? Math.min(DEFAULT_LIMIT, limits.pageSize)
    const isNewestFirst = selected.order === 'desc'
    const range = await timeRange(options, isNewestFirst ? { ...selected, from: 1 } : selected)
    const { first, last = head } = range
    const filter = { ...selected, from: first }
    const { memory, ...asker } = searchLimitsOf(request)
    const searchLimits = { ...asker, memory, most: limit + 1 }
    const to = Math.min(isNewestFirst ? selected.from : head, head, last)
    const found = find(options, filter, to, searchLimits)
    const { texts, next } = await pageOf(found, { limit, memory, journal: journal.id, step: isNewestFirst ? -1 : 1 })
    if (next !== undefined) {
      const rest = parameters.filter(({ name }) => name !== 'from').map(({ raw }) => raw)
      reply.set('Link', `</events?${[`from=${next}`, ...rest].join('&')}>; rel="next"`)
    }
    // The response is held from here on.
    memory.release()
    reply.json(`[${texts.join(',')}]`)
  }

  async #replyStream(
    request: HttpRequest,
    reply: Reply,
    type: keyof typeof FORMS,
    selected: SelectedEvents,
    follows: boolean,
  ): Promise<void> {
    const options = this.#options
    await checkReadable(options, selected.from)
    const address = options.gate.addressOf(request.remoteAddress, request.headers)
    if (options.streams.isFull(address)) {
      reply.set('Retry-After', String(RETRY_SECONDS))
      throw new Refusal(
        'TooManyRequests',
        `This address has ${options.streams.most} streams of events open already (Limits.StreamsPerAddress).`,
      )
    }
    const body = Readable.from(stream(options, request, selected, FORMS[type], follows))
    body.once('close', options.streams.enter(address))
    if (follows) reply.forbidCompression()
    reply.send(type, body)
  }

  /** Waits for a position that a cluster node may not have yet, and throws if it does not arrive. */
  async #await(position: Position, sent: string): Promise<void> {
    const { journal, arrivals, waitSeconds } = this.#options
    if (await arrivals.waitUntil(() => journal.head >= position, waitSeconds)) return
    const why = `${sent} is beyond the last position, ${journal.head}`
    throw new Refusal(
      'Invalid',
      `${why}: it is of another journal, or of one that was longer. Read from the beginning.`,
    )
  }
}

interface PageLimits {
  /** Events. */
  readonly limit: number
  readonly memory: Memory
  readonly journal: string
  /** From one position to the next. */
  readonly step: 1 | -1
}

/** The events of a page as JSON, and the position where the next page begins; undefined at the end. */
async function pageOf(
  found: AsyncIterable<ChangedEvent>,
  { limit, memory, journal, step }: PageLimits,
): Promise<{ readonly texts: readonly string[]; readonly next: Position | undefined }> {
  const texts: string[] = []
  let characters = 0
  let last = 0
  try {
    for await (const one of found) {
      const text = eventText(one, journal)
      const isFull = texts.length === limit || (texts.length > 0 && characters + text.length > PAGE_CHARACTERS)
      if (isFull) return { texts, next: one.position }
      memory.hold(textBytes(text))
      texts.push(text)
      characters += text.length
      last = one.position
    }
    return { texts, next: undefined }
  } catch (error) {
    // The next page fails.
    if (error instanceof JournalDamage && texts.length > 0) return { texts, next: last + step }
    throw error
  }
}

const FORMS: Readonly<Record<typeof NDJSON_TYPE | typeof EVENT_STREAM, StreamFormat>> = {
  // No heartbeat, since not every parser accepts empty lines.
  [NDJSON_TYPE]: { begin: () => '', event: (_position, text) => `${text}\n`, heartbeat: undefined },
  // WHATWG HTML, "Server-sent events".
  [EVENT_STREAM]: {
    // An id without data is no event. A client that connects again continues there.
    begin: (before, journal) => `: journal ${journal}\nid: ${before}\n\n`,
    event: (position, text) => `id: ${position}\ndata: ${text}\n\n`,
    heartbeat: (last) => `: nothing new\nid: ${last}\n\n`,
  },
}

/** The events up to a position in the wanted order, with their changes if those are wanted. */
function find(
  options: EventsOptions,
  { changes, order, ...filter }: Pick<SelectedEvents, 'changes' | 'order'> & EventFilter,
  to: Position,
  limits: SearchLimits,
): AsyncIterable<ChangedEvent> {
  const found = order === 'desc' ? newestFirst(options, filter, to, limits) : search(options, filter, to, limits)
  return changes ? withChanges(options, found, limits) : found
}

/** A search ends when the client disconnects. */
function searchLimitsOf(request: HttpRequest): SearchLimits & { readonly memory: Memory } {
  return { isGone: () => request.isGone(), memory: request.memoryFor('responses') }
}

/** The text format of a stream of events. */
interface StreamFormat {
  readonly begin: (before: Position, journal: string) => string
  readonly event: (position: Position, text: string) => string
  /** Sent while no event up to the last position is left, so that proxies keep the connection open; undefined: nothing is sent. */
  readonly heartbeat: ((last: Position) => string) | undefined
}

/** How often to check that the reader's credentials are still valid. */
const LOOK_MS = 500
const HEARTBEAT_MS = 15_000
/** Events are sent in chunks of about this length: for small ones, sending costs more than finding. */
const PART_CHARACTERS = 16 * 1024
/** Bytes for each character of a longer chunk, besides the event that was found: the chunk, and its copy at the connection. */
const CHUNK_BYTES = 2

/**
 * Yields all matching events, then, if requested, new ones. Reads the journal as fast as the client reads; for a slow
 * client it holds the result of one search turn, and no open file. Ends with an error when a long event does not fit
 * into memory: the client continues after the last event that it got.
 */
async function* stream(
  options: EventsOptions,
  request: HttpRequest,
  wanted: SelectedEvents,
  form: StreamFormat,
  follows: boolean,
): AsyncGenerator<string> {
  const { journal, arrivals, gate } = options
  const { principal } = request
  const asker = searchLimitsOf(request)
  const mark = new HighWaterMark(asker.memory, CHUNK_BYTES * 2 * PART_CHARACTERS)
  // Even an empty first chunk sends the headers.
  yield form.begin(Math.max(0, wanted.from - 1), journal.id)
  let saidAt = performance.now()
  let left = wanted.limit ?? Number.POSITIVE_INFINITY
  let { first: from, last } = await timeRange(options, wanted)
  do {
    const { head } = journal
    const upTo = Math.min(head, last ?? head)
    const found = find(options, { ...wanted, from }, upTo, { ...asker, most: left })
    try {
      for await (const { text, count } of parts(found, form, journal.id)) {
        mark.reach(CHUNK_BYTES * text.length)
        yield text
        // A client that reads without delay does not keep the event loop.
        await setImmediate()
        saidAt = performance.now()
        left -= count
        if (left === 0 || (follows && !gate.isValid(principal))) return
      }
    } catch (error) {
      // A client that continues there learns where the journal is damaged, also if no event before it matches.
      const last = error instanceof JournalDamage ? error.damage.position - 1 : 0
      if (form.heartbeat !== undefined && last >= from) yield form.heartbeat(last)
      throw error
    }
    if (!follows) return
    from = Math.max(from, head + 1)
    if (journal.head === head) await arrivals.wait(LOOK_MS)
    if (form.heartbeat !== undefined && performance.now() - saidAt >= HEARTBEAT_MS) {
      yield form.heartbeat(from - 1)
      saidAt = performance.now()
    }
  } while (!arrivals.ended && !request.isGone() && gate.isValid(principal))
}

/** Joins events to chunks. */
async function* parts(
  found: AsyncIterable<ChangedEvent>,
  form: StreamFormat,
  journal: string,
): AsyncGenerator<{ readonly text: string; readonly count: number }> {
  let text = ''
  let count = 0
  try {
    for await (const one of found) {
      text += form.event(one.position, eventText(one, journal))
      count++
      if (text.length < PART_CHARACTERS) continue
      yield { text, count }
      text = ''
      count = 0
    }
  } catch (error) {
    // A client that continues after these events learns where the journal is damaged.
    if (error instanceof JournalDamage && count > 0) yield { text, count }
    throw error
  }
  if (count > 0) yield { text, count }
}

/** An event as JSON. */
function eventText({ write, event, position, changes }: ChangedEvent, journal: string): string {
  const { time, actor, requestId } = write
  const { type, collection, ...rest } = event
  const { item, ids, ...fields } = rest as { item?: Document; ids?: unknown }
  const text = JSON.stringify({ position, journal, type, collection, ...fields, time, actor, requestId, ids })
  const more = `${changes === undefined ? '' : `,"changes":${changes}`}${item ? `,"item":${item.text}` : ''}`
  return more === '' ? text : `${text.slice(0, -1)}${more}}`
}
