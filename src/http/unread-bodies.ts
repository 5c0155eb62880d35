import { type IncomingMessage, ServerResponse } from 'node:http'
import { lingerAtEnd } from './lingering-close.ts'

/** A body up to this length is read to its end when the response does not depend on it, so that the connection can be used again. */
const DISCARDED_BYTES = 1024 * 1024

/**
 * A response that may be sent before its request's body was read: most refusals are. The connection is then usable for
 * the next request, or the response says `Connection: close`.
 */
export class BodyAwareResponse extends ServerResponse<IncomingMessage> {
  override writeHead(status: number, ...rest: unknown[]): this {
    const { req } = this
    // Otherwise it was read, or there was none.
    if (!req.complete || (req.readableDidRead && !req.readableEnded)) this.#leaveBody(req)
    return super.writeHead(status, rest[0] as string, rest[1] as [])
  }

  #leaveBody(request: IncomingMessage): void {
    if (!request.complete && !(lengthOf(request) <= DISCARDED_BYTES)) {
      this.shouldKeepAlive = false
      lingerAtEnd(request.socket)
    }
    this.once('finish', () => {
      // Whatever was reading it may have stopped in the middle.
      request.unpipe()
      request.resume()
    })
  }
}

/** How long the body will be, as far as the headers tell. */
function lengthOf({ headers }: IncomingMessage): number {
  if (headers['transfer-encoding'] !== undefined) return Number.POSITIVE_INFINITY
  return Number(headers['content-length'] ?? 0)
}
