import { setImmediate } from 'node:timers/promises'
import type { Principal } from '../access/accounts.ts'
import type { Gate } from '../access/gate.ts'
import type { Position } from '../events/event.ts'
import type { Document } from '../json/document.ts'
import type { Arrivals } from '../projections/arrivals.ts'
import { type EventFilter, type FoundEvent, type SearchSource, search, timeRange } from '../projections/event-search.ts'

export interface StreamOptions extends SearchSource {
  readonly arrivals: Arrivals
  readonly gate: Gate
}

/** The text format of a stream of events. */
export interface StreamFormat {
  readonly begin: string
  readonly event: (position: Position, text: string) => string
  /** Sent while there are no events, so that proxies keep the connection open; undefined: nothing is sent. */
  readonly sign: string | undefined
}

export interface StreamRequest {
  readonly wanted: EventFilter & { readonly limit?: number }
  readonly form: StreamFormat
  /** Whether the stream continues with new events. */
  readonly follows: boolean
  readonly reader: Principal
  /** Whether the client has disconnected. */
  readonly isGone: () => boolean
}

/** How often to check that the reader's credentials are still valid. */
const LOOK_MS = 500
const SIGN_MS = 15_000
/** Events are sent in chunks of about this length: for small ones, sending costs more than finding. */
const PART_CHARACTERS = 16 * 1024

/**
 * Yields all matching events, then, if requested, new ones. Reads the journal as fast as the client reads; for a slow
 * client it holds the result of one search turn, and no open file.
 */
export async function* stream(options: StreamOptions, streamed: StreamRequest): AsyncGenerator<string> {
  const { journal, arrivals, gate } = options
  const { wanted, form, follows, reader, isGone } = streamed
  const mayRead = (): boolean => gate.isValid(reader)
  // Even an empty first chunk sends the headers.
  yield form.begin
  let saidAt = performance.now()
  let left = wanted.limit ?? Number.POSITIVE_INFINITY
  let { first: from, last } = await timeRange(options, wanted)
  do {
    const { head } = journal
    const upTo = Math.min(head, last ?? head)
    const found = search(options, { ...wanted, from }, upTo, { isGone, most: left })
    for await (const { text, count } of parts(found, form, left)) {
      yield text
      // A client that reads without delay does not keep the event loop.
      await setImmediate()
      saidAt = performance.now()
      left -= count
      if (left === 0 || (follows && !mayRead())) return
    }
    if (!follows) return
    from = Math.max(from, head + 1)
    if (journal.head === head) await arrivals.wait(LOOK_MS)
    if (form.sign !== undefined && performance.now() - saidAt >= SIGN_MS) {
      yield form.sign
      saidAt = performance.now()
    }
  } while (!arrivals.ended && !isGone() && mayRead())
}

async function* parts(
  found: AsyncIterable<FoundEvent>,
  form: StreamFormat,
  most: number,
): AsyncGenerator<{ readonly text: string; readonly count: number }> {
  let text = ''
  let count = 0
  let all = 0
  for await (const one of found) {
    text += form.event(one.position, eventText(one))
    count++
    all++
    if (text.length < PART_CHARACTERS && all < most) continue
    yield { text, count }
    if (all >= most) return
    text = ''
    count = 0
  }
  if (count > 0) yield { text, count }
}

/** An event as JSON. */
export function eventText({ recorded, event, position }: FoundEvent): string {
  const { time, actor, requestId } = recorded
  const { type, collection, ...rest } = event
  const { item, ids, ...fields } = rest as { item?: Document; ids?: unknown }
  const text = JSON.stringify({ position, type, collection, ...fields, time, actor, requestId, ids })
  return item ? `${text.slice(0, -1)},"item":${item.text}}` : text
}
