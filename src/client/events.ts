import { type Moment, momentText } from './parameters.ts'
import { Problem } from './problem.ts'
import { journalPosition, type Requests, searchPart } from './requests.ts'

interface EventBase {
  readonly position: number
  /** UUID of the journal that counts the positions. */
  readonly journal: string
  readonly collection: string
  readonly time: string
  readonly actor: string
  readonly requestId: string
}

interface ItemEventBase extends EventBase {
  readonly id: string | number
  readonly revision: number
  /** Position of the item's previous event, 0 if there is none. */
  readonly prior: number
}

/** An event of the journal (docs/api.md, "Events"). */
export type RecordedEvent<T = Readonly<Record<string, unknown>>> =
  | (ItemEventBase & {
      readonly type: 'ItemCreated' | 'ItemReplaced' | 'ItemPatched' | 'ObjectCreated'
      readonly item: T
    })
  | (ItemEventBase & { readonly type: 'ItemDeleted' | 'ObjectDeleted' })
  | (EventBase & { readonly type: 'CollectionCreated' | 'CollectionRemoved' })
  | (EventBase & { readonly type: 'CollectionOrdered'; readonly ids: readonly (string | number)[] })
  | (EventBase & { readonly type: 'IdsReset'; readonly nextId: number })

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
  readonly since?: string | Date
  readonly until?: string | Date
  /** Continues with new events, also through lost connections, until the loop is left. */
  readonly follow?: boolean
  readonly signal?: AbortSignal
}

/** Delay before an interrupted stream is requested again. */
const RETRY_MS = 1000

/** The matching events, oldest first, each exactly once. */
export async function* eventsOf<T>(
  requests: Requests,
  { follow = false, signal, ...filter }: EventsFilter,
): AsyncGenerator<RecordedEvent<T>, void> {
  const left = new AbortController()
  const ended = AbortSignal.any([left.signal, requests.closed, ...(signal ? [signal] : [])])
  try {
    if (follow) yield* followed<T>(requests, filter, ended)
    else yield* eventsIn<T>(await request(requests, filter, 'application/x-ndjson', ended), (line) => line)
  } finally {
    // Leaving the loop early aborts the request.
    left.abort()
  }
}

type Filter = { readonly [Name in keyof Omit<EventsFilter, 'follow' | 'signal'>]: EventsFilter[Name] | undefined }

/** Requests the stream again whenever it ends, from behind the last event on. */
async function* followed<T>(
  requests: Requests,
  filter: Filter,
  signal: AbortSignal,
): AsyncGenerator<RecordedEvent<T>, void> {
  let { from, journal, limit = Number.POSITIVE_INFINITY } = filter
  for (;;) {
    try {
      const wanted = { ...filter, from, journal, limit: Number.isFinite(limit) ? limit : undefined }
      const response = await request(requests, wanted, 'text/event-stream', signal)
      if (from === 'now') from = journalPosition(response) + 1
      for await (const event of eventsIn<T>(response, (line) => (line.startsWith('data: ') ? line.slice(6) : ''))) {
        yield event
        from = event.position + 1
        journal = event.journal
        if (--limit === 0) return
      }
    } catch (error) {
      const isLasting = error instanceof Problem && error.status < 500 && error.status !== 429
      if (isLasting || signal.aborted) throw error
    }
    await pause(RETRY_MS, signal)
  }
}

function request(requests: Requests, filter: Filter, accept: string, signal: AbortSignal): Promise<Response> {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(filter) as [string, Moment | undefined][]) {
    if (value !== undefined) parameters.set(name, momentText(value))
  }
  return requests.stream(`/events${searchPart(parameters)}`, { headers: { Accept: accept }, signal })
}

/** `jsonIn` returns the event of a line as JSON, or an empty text if the line has none. */
async function* eventsIn<T>(
  { body }: Response,
  jsonIn: (line: string) => string,
): AsyncGenerator<RecordedEvent<T>, void> {
  if (!body) return
  const decoder = new TextDecoder()
  const reader = body.getReader()
  let rest = ''
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      const lines = (rest + decoder.decode(value, { stream: true })).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) {
        const json = jsonIn(line)
        if (json !== '') yield JSON.parse(json) as RecordedEvent<T>
      }
    }
  } finally {
    await reader.cancel().catch(() => {})
  }
}

/** Rejects with the signal's reason when the signal aborts. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (): void => {
      clearTimeout(timer)
      reject(signal.reason)
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', end)
      resolve()
    }, ms)
    if (signal.aborted) end()
    else signal.addEventListener('abort', end, { once: true })
  })
}
