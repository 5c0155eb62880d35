import { type IncomingHttpHeaders, type IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { Collection } from '../../src/collections/collection.ts'
import type { Position } from '../../src/events/event.ts'
import { HttpRequest } from '../../src/http/exchange.ts'
import { jsonWriter } from '../../src/http/formats/writers.ts'
import type { CollectionSnapshot } from '../../src/query/collection-snapshot.ts'
import type { Page } from '../../src/query/page.ts'
import type { Queries } from '../../src/query/queries.ts'
import type { Query } from '../../src/query/query.ts'
import { MemoryBudget } from '../../src/runtime/memory.ts'
import type { Asker, Turn } from '../../src/runtime/turns.ts'

/** A GET by an admin who waits for the response. */
export function apiRequest(path: string, querystring = '', headers: IncomingHttpHeaders = {}): HttpRequest {
  const url = querystring === '' ? path : `${path}?${querystring}`
  const request = { method: 'GET', url, headers, socket: { destroyed: false, readableEnded: false } }
  const incoming = request as IncomingMessage
  const asked = new HttpRequest(incoming, new ServerResponse(incoming), new MemoryBudget(), {
    path,
    querystring,
    base: '',
    requestId: 'r',
    neededRole: 'reader',
    bytes: () => Promise.reject(new Error('there is no body')),
    fields: () => Promise.reject(new Error('there is no body')),
  })
  asked.client = { actor: 'ada', role: 'admin' }
  return asked
}

/** A text that is no stream. */
export function whole(text: string | Buffer | Readable | undefined): string {
  if (text instanceof Readable) throw new Error('a stream is not there in one piece')
  return String(text ?? '')
}

interface Answer {
  /** A JSON array. */
  readonly text: string
  readonly total: number
  readonly at: Position
  readonly position: Position
  readonly exists: boolean
}

/** The page that a client gets as JSON. */
export async function answerOf(
  queries: Queries,
  source: Collection | CollectionSnapshot,
  query: Query,
  asker?: Asker,
): Promise<Answer> {
  const snapshot = source instanceof Collection ? queries.hold(source) : source
  const { at, position, exists } = snapshot
  const writer = jsonWriter(query.fields)
  const use = async ({ total, open }: Page, turn: Turn): Promise<Answer> => {
    const next = open()
    const texts: string[] = []
    for (let items = await next(turn); items; items = await next(turn)) {
      if (items.length > 0) texts.push(await writer.part(items, turn))
    }
    return { text: `${writer.begin}${texts.join(writer.between)}${writer.end}`, total, at, position, exists }
  }
  try {
    return await queries.page(snapshot, query, use, asker)
  } finally {
    if (snapshot !== source) snapshot.release()
  }
}
