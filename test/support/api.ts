import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { ApiRequest } from '../../src/http/api.ts'

/** A GET by an admin who waits for the response. */
export function apiRequest(path: string, querystring = '', headers: IncomingHttpHeaders = {}): ApiRequest {
  const url = querystring === '' ? path : `${path}?${querystring}`
  const request = { method: 'GET', url, headers, socket: { destroyed: false, readableEnded: false } }
  return new ApiRequest(request as IncomingMessage, {
    path,
    querystring,
    base: '',
    principal: { actor: 'ada', role: 'admin' },
    requestId: 'r',
    bytes: () => Promise.reject(new Error('there is no body')),
  })
}
