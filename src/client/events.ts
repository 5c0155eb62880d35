import type { DomainEvent } from '../events/event.ts'
import type { Change } from '../json/changes.ts'
import { queryOf, searchOf } from './parameters.ts'
import { Problem, rethrown } from './problem.ts'
import { pause, positionOf, type Requests } from './requests.ts'

/** An event of the journal (docs/api.md, "Events"). */
export type RecordedEvent<T = Readonly<Record<string, unknown>>> = Recorded & WithItem<DomainEvent, T>

interface Recorded {
  readonly position: number
  /** UUID of the journal that counts the positions. */
  readonly journal: string
  readonly time: string
  readonly actor: string
  readonly requestId: string
}

type WithItem<Event, T> = Event extends { readonly item: unknown } ? Omit<Event, 'item'> & { readonly item: T } : Event

export interface EventsFilter {
  /** The first position; `'now'`: behind the last one. Rejects if the journal is shorter: it is another one, or was set back. */
  readonly from?: number | 'now'
  /** The journal that `from` belongs to, as an event has it. Rejects if the server has another one. */
  readonly journal?: string
  /** Highest number of events. */
  readonly limit?: number
  readonly collection?: string
  readonly id?: string | number
  readonly type?: RecordedEvent['type']
  readonly actor?: string
  readonly requestId?: string
  readonly since?: string | Date
  readonly until?: string | Date
  /** Continues with new events, also through lost connections, until the loop is left. */
  readonly follow?: boolean
  readonly signal?: AbortSignal
}

export interface EventPageFilter extends Omit<EventsFilter, 'follow'> {
  /** Default: `asc`, the oldest first. */
  readonly order?: 'asc' | 'desc'
  /** Tells of each event of an item what it changed. */
  readonly changes?: boolean
}

export interface EventPage<T> {
  /** `changes` is null where the journal is damaged. */
  readonly events: readonly (RecordedEvent<T> & { readonly changes?: readonly Change[] | null })[]
  /** Where the next page begins; undefined at the end. */
  readonly next: number | undefined
  /** The last position of the journal. */
  readonly position: number
}

export interface EventCountsOptions
  extends Pick<EventsFilter, 'collection' | 'type' | 'actor' | 'since' | 'until' | 'signal'> {
  readonly groupBy?: readonly ('type' | 'collection' | 'actor')[]
  /** Such as `15m`, `1h` or `1d`. */
  readonly window?: string
  /** The time zone of the windows, such as `Europe/Helsinki`. */
  readonly tz?: string
}

/** A row: the groups that were asked for, and the number of events. */
export interface EventCount {
  readonly type?: RecordedEvent['type']
  readonly collection?: string
  readonly actor?: string | null
  /** ISO 8601: when the window begins. */
  readonly window?: string
  readonly count: number
}

/** The matching events, oldest first, each exactly once. */
export async function* eventsOf<T>(
  requests: Requests,
  { follow = false, signal, ...filter }: EventsFilter,
): AsyncGenerator<RecordedEvent<T>, void> {
  if (follow) return yield* followed<T>(requests, filter, signal)
  const options = { headers: { Accept: 'application/x-ndjson' }, signal }
  const response = await requests.stream('GET', `/events${searchOf(filter)}`, options)
  for await (const line of linesOf(response)) yield JSON.parse(line) as RecordedEvent<T>
}

/** How lines of a stream begin. The first one is a comment with the UUID of the journal. */
const [JOURNAL, ID, DATA] = [': journal ', 'id: ', 'data: ']

/** Requests the stream again whenever it ends, from behind the last position that it told of. */
async function* followed<T>(
  requests: Requests,
  { limit, ...filter }: Omit<EventsFilter, 'follow' | 'signal'>,
  signal: AbortSignal | undefined,
): AsyncGenerator<RecordedEvent<T>, void> {
  const parameters = new URLSearchParams(queryOf({ ...filter, limit }))
  const options = { headers: { Accept: 'text/event-stream' }, signal }
  const ended = AbortSignal.any(signal ? [signal, requests.closed] : [requests.closed])
  let left = limit
  for (;;) {
    let failure: unknown
    try {
      const response = await requests.stream('GET', `/events?${parameters}`, options)
      if (parameters.get('from') === 'now') parameters.set('from', String(positionOf(response) + 1))
      let id = Number.NaN
      for await (const line of linesOf(response)) {
        if (line.startsWith(JOURNAL)) parameters.set('journal', line.slice(JOURNAL.length))
        else if (line.startsWith(ID)) id = Number(line.slice(ID.length))
        else if (line.startsWith(DATA)) {
          const event = JSON.parse(line.slice(DATA.length)) as RecordedEvent<T>
          yield event
          parameters.set('from', String(event.position + 1))
          if (left !== undefined && --left === 0) return
          if (left !== undefined) parameters.set('limit', String(left))
        }
        // All matching events up to the id were sent, so the server need not search there again.
        else if (line === '' && !Number.isNaN(id)) parameters.set('from', String(id + 1))
      }
    } catch (error) {
      if (isLasting(error) || ended.aborted) throw error
      failure = error
    }
    await pause(ended, failure)
  }
}

/** Whether a stream that is requested again fails again: the filter is wrong, or the journal is damaged there. */
function isLasting(error: unknown): boolean {
  if (!(error instanceof Problem)) return false
  return error.firstUnreadable !== undefined || (error.status < 500 && error.status !== 429)
}

/** The lines that have ended. */
export async function* linesOf({ body }: Response): AsyncGenerator<string, void> {
  if (!body) return
  const decoder = new TextDecoder()
  const reader = body.getReader()
  let rest = ''
  try {
    for (;;) {
      const { done, value } = await reader.read().catch(rethrown)
      if (done) return
      const lines = (rest + decoder.decode(value, { stream: true })).split('\n')
      rest = lines.pop() ?? ''
      yield* lines
    }
  } finally {
    await reader.cancel().catch(() => {})
  }
}
