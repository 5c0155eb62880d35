import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { PROBLEM_TYPE, PROBLEMS } from './problems.ts'
import { closeLingering } from './unread-bodies.ts'

const RETRY_SECONDS = 5

interface ClientErrorResponse {
  readonly status: number
  readonly reason: string
  readonly title: string
  readonly detail: string
  /** The end of the problem's type, if not `Malformed`. */
  readonly code?: string
}

function malformed(detail: string): ClientErrorResponse {
  return { status: 400, reason: 'Bad Request', title: 'The request is not HTTP', detail }
}

/** Responses to malformed requests by error code of Node's parser. Such requests never reach the app. */
const ANSWERS: Readonly<Record<string, ClientErrorResponse>> = {
  HPE_INVALID_URL: malformed(
    'The address in the request line has characters that URLs do not allow (RFC 3986). Percent-encode them as UTF-8: %C3%A9 for \u00e9.',
  ),
  HPE_HEADER_OVERFLOW: {
    status: 431,
    reason: 'Request Header Fields Too Large',
    title: 'The headers are too large',
    detail: 'The request line and the headers together exceed Limits.HeaderBytes.',
  },
  ERR_HTTP_REQUEST_TIMEOUT: {
    status: 408,
    reason: 'Request Timeout',
    title: 'The request took too long',
    detail: 'The headers, or the whole request, came later than Limits.HeaderSeconds and Limits.RequestSeconds allow.',
  },
}

const URI_TOO_LONG: ClientErrorResponse = {
  ...PROBLEMS.UriTooLong,
  code: 'UriTooLong',
  reason: 'URI Too Long',
  detail: 'The request line exceeds Limits.HeaderBytes.',
}

/** Responds to a request that Node's parser rejected, and closes the connection. */
export function answerClientError(error: ParseError, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const known = ANSWERS[error.code ?? ''] ?? malformed('It cannot be read as HTTP/1.1 (RFC 9112).')
  const answer = known.status === 431 && isInRequestLine(error) ? URI_TOO_LONG : known
  socket.write(rawResponse(answer.status, answer.reason, problem(answer)))
  // After a timeout the rest of the request may still arrive, and must not be executed.
  if (answer.status === 408) socket.destroySoon()
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
  const body = JSON.stringify({ type: 'urn:recollect:problem:Unavailable', title, status: 503, detail })
  return rawResponse(503, 'Service Unavailable', body, [`Retry-After: ${RETRY_SECONDS}`])
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

function problem({ code = 'Malformed', title, status, detail }: ClientErrorResponse): string {
  return JSON.stringify({ type: `urn:recollect:problem:${code}`, title, status, detail })
}

/** A response with a problem document on a connection that no HTTP server answers, and that is closed after it. */
function rawResponse(status: number, reason: string, body: string, headers: readonly string[] = []): string {
  const lines = [
    `HTTP/1.1 ${status} ${reason}`,
    `Content-Type: ${PROBLEM_TYPE}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    ...headers,
    'Connection: close',
  ]
  return `${lines.join('\r\n')}\r\n\r\n${body}`
}
