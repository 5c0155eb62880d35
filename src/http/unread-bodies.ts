import { type IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { allowNoContinue, beforeFirstRead, closeAfterLastResponse } from './node-http-internals.ts'

/** Up to this length, an unread body is discarded after the response, so that the connection can be reused. */
const DISCARDED_BYTES = 1024 * 1024

/**
 * A response that may be sent before the request's body is read, as most errors are. Keeps the connection usable, or
 * sets `Connection: close`.
 */
export class BodyAwareResponse extends ServerResponse<IncomingMessage> {
  /** Whether the client waits for `100 Continue` before it sends the body. */
  awaitsContinue = false

  override writeHead(status: number, ...rest: unknown[]): this {
    const { req } = this
    // Otherwise the body was read, or there is none.
    if (!req.complete || (req.readableDidRead && !req.readableEnded)) leaveBody(this, req)
    return super.writeHead(status, rest[0] as string, rest[1] as [])
  }
}

/** Sends `100 Continue` as soon as the body is read, unless the response is sent before. */
export function continueWhenRead(request: IncomingMessage, response: BodyAwareResponse): void {
  response.awaitsContinue = true
  allowNoContinue(response)
  beforeFirstRead(request, () => {
    if (response.headersSent || request.complete) return
    response.awaitsContinue = false
    response.writeContinue()
  })
}

function leaveBody(response: BodyAwareResponse, request: IncomingMessage): void {
  // A client that waits for `100 Continue` may still send its body, or not (RFC 9110 §10.1.1).
  if (!request.complete && (response.awaitsContinue || !(lengthOf(request) <= DISCARDED_BYTES))) {
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

/** How long a client may take to read the last response and to close its side. */
const LINGER_MS = 2000

/**
 * Ends a connection whose client may still be sending. Closing it with unread bytes would reset it, and a reset can
 * destroy the response before the client has read it (RFC 9112 §9.6). So only the sending side is closed at first.
 */
export function closeLingering(socket: Socket): void {
  socket.end()
  socket.resume()
  const timer = setTimeout(() => socket.destroy(), LINGER_MS)
  socket.once('close', () => clearTimeout(timer))
}

/** Makes Node end the connection with `closeLingering` after its last response. */
export function lingerAtEnd(socket: Socket): void {
  closeAfterLastResponse(socket, () => closeLingering(socket))
}
