import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { HttpRequest } from '../../src/http/exchange.ts'
import { LongText } from '../../src/query/page-text.ts'

/** A GET by an admin who waits for the response. */
export function apiRequest(path: string, querystring = '', headers: IncomingHttpHeaders = {}): HttpRequest {
  const url = querystring === '' ? path : `${path}?${querystring}`
  const request = { method: 'GET', url, headers, socket: { destroyed: false, readableEnded: false } }
  const asked = new HttpRequest(request as IncomingMessage, {
    path,
    querystring,
    base: '',
    requestId: 'r',
    bytes: () => Promise.reject(new Error('there is no body')),
    fields: () => Promise.reject(new Error('there is no body')),
  })
  asked.client = { actor: 'ada', role: 'admin' }
  return asked
}

/** A text in one piece. */
export function whole(text: string | LongText | Readable | undefined): string {
  if (text instanceof Readable) throw new Error('a stream is not there in one piece')
  return text instanceof LongText ? text.pieces.join('') : (text ?? '')
}
