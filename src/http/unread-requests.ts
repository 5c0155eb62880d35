import { type IncomingMessage, ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { allowNoContinue, beforeFirstRead, closeAfterLastResponse } from './node-http-internals.ts'
import { PROBLEM_TYPE, PROBLEMS } from './problems.ts'

/**
 * Responses to requests that are not read to their end: malformed ones, those beyond a limit, and those whose body nobody
 * reads. Such a response keeps the connection usable, or closes it so that the client can still read it.
 */

const RETRY_SECONDS = 5

interface ClientError {
  readonly status: number
  readonly title: string
  readonly detail: string
  /** The end of the problem's type. */
  readonly code: string
}

function malformed(detail: string): ClientError {
  return { code: 'Malformed', status: 400, title: 'The request is not HTTP', detail }
}

/** Responses to malformed requests by error code of Node's parser. Such requests never reach the app. */
const ERRORS: Readonly<Record<string, ClientError>> = {
  HPE_INVALID_URL: malformed(
    'The address in the request line has characters that URLs do not allow (RFC 3986). Percent-encode them as UTF-8: %C3%A9 for \u00e9.',
  ),
  HPE_HEADER_OVERFLOW: {
    code: 'Malformed',
    status: 431,
    title: 'The headers are too large',
    detail: 'The request line and the headers together exceed Limits.HeaderBytes.',
  },
  ERR_HTTP_REQUEST_TIMEOUT: {
    code: 'Malformed',
    status: 408,
    title: 'The request took too long',
    detail: 'The headers, or the whole request, came later than Limits.HeaderSeconds and Limits.RequestSeconds allow.',
  },
}

const URI_TOO_LONG: ClientError = {
  ...PROBLEMS.UriTooLong,
  code: 'UriTooLong',
  detail: 'The request line exceeds Limits.HeaderBytes.',
}

/** Responds to a request that Node's parser rejected, and closes the connection. */
export function answerClientError(error: ParseError, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const known = ERRORS[error.code ?? ''] ?? malformed('It cannot be read as HTTP/1.1 (RFC 9112).')
  const answered = known.status === 431 && isInRequestLine(error) ? URI_TOO_LONG : known
  socket.write(rawResponse(answered))
  // After a timeout the rest of the request may still arrive, and must not be executed.
  if (answered.status === 408) socket.destroySoon()
  else closeLingering(socket)
}

/** An error of Node's parser: the last chunk of the connection, and how much of it was parsed. */
interface ParseError extends NodeJS.ErrnoException {
  readonly rawPacket?: Buffer
  readonly bytesParsed?: number
}

/**
 * Whether the last line of the chunk is a request line. The parser keeps no earlier chunk, so an address whose beginning
 * came before looks like a header.
 */
function isInRequestLine({ rawPacket, bytesParsed }: ParseError): boolean {
  const parsed = rawPacket?.toString('latin1', 0, bytesParsed) ?? ''
  return /^[A-Z-]+ \S*$/.test(parsed.slice(parsed.lastIndexOf('\n') + 1))
}

/** The bytes of a 503 response that closes the connection. */
export function unavailable(title: string, detail: string): string {
  return rawResponse({ code: 'Unavailable', status: 503, title, detail }, [`Retry-After: ${RETRY_SECONDS}`])
}

/** Checks what RFC 9112 forbids and Node's parser accepts; undefined if the request is valid. */
export function malformation({ httpVersion, rawHeaders }: IncomingMessage): string | undefined {
  if (httpVersion !== '1.1' && httpVersion !== '1.0') {
    return `HTTP/${httpVersion} is not supported; use HTTP/1.1 (RFC 9112).`
  }
  let hosts = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string
    if (name.length === 4 && name.toLowerCase() === 'host') hosts++
  }
  if (hosts > 1) return 'It has more than one Host header; exactly one is allowed (RFC 9112 §3.2).'
  if (hosts === 0 && httpVersion === '1.1') return 'It has no Host header, which HTTP/1.1 requires (RFC 9112 §3.2).'
  return undefined
}

/** Responds with 400 and closes the connection. */
export function refuseMalformed(response: ServerResponse, detail: string): void {
  response.shouldKeepAlive = false
  response.writeHead(400, { 'Content-Type': PROBLEM_TYPE }).end(problem(malformed(detail)))
}

function problem({ code, title, status, detail }: ClientError): string {
  return JSON.stringify({ type: `urn:recollect:problem:${code}`, title, status, detail })
}

/** A response with a problem document on a connection that no HTTP server answers, and that is closed after it. */
function rawResponse(error: ClientError, headers: readonly string[] = []): string {
  const body = problem(error)
  const lines = [
    `HTTP/1.1 ${error.status} ${STATUS_CODES[error.status]}`,
    `Content-Type: ${PROBLEM_TYPE}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    ...headers,
    'Connection: close',
  ]
  return `${lines.join('\r\n')}\r\n\r\n${body}`
}

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
  if (!request.complete && (response.awaitsContinue || !(announcedBytes(request) <= DISCARDED_BYTES))) {
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
function announcedBytes({ headers }: IncomingMessage): number {
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
