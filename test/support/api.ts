import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { HttpRequest } from '../../src/http/exchange.ts'

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
