import { type IncomingMessage, ServerResponse } from 'node:http'
import { lingerAtEnd } from './lingering-close.ts'

/** Up to this length, an unread body is discarded after the response, so that the connection can be reused. */
const DISCARDED_BYTES = 1024 * 1024

/**
 * A response that may be sent before the request's body is read, as most errors are. Keeps the connection usable, or
 * sets `Connection: close`.
 */
export class BodyAwareResponse extends ServerResponse<IncomingMessage> {
  override writeHead(status: number, ...rest: unknown[]): this {
    const { req } = this
    // Otherwise the body was read, or there is none.
    if (!req.complete || (req.readableDidRead && !req.readableEnded)) leaveBody(this, req)
    return super.writeHead(status, rest[0] as string, rest[1] as [])
  }
}

function leaveBody(response: ServerResponse, request: IncomingMessage): void {
  if (!request.complete && !(lengthOf(request) <= DISCARDED_BYTES)) {
    response.shouldKeepAlive = false
    lingerAtEnd(request.socket)
  }
  response.once('finish', () => {
    // A reader may have stopped in between.
    request.unpipe()
    request.resume()
  })
}

/** The length of the body according to the headers; infinite if unknown. */
function lengthOf({ headers }: IncomingMessage): number {
  if (headers['transfer-encoding'] !== undefined) return Number.POSITIVE_INFINITY
  return Number(headers['content-length'] ?? 0)
}
