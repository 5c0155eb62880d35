import type { Duplex } from 'node:stream'

interface Answer {
  readonly status: string
  readonly title: string
  readonly detail: string
}

/** What a request was that is no HTTP, by the error's code; it never reaches the app. */
const ANSWERS: Readonly<Record<string, Answer>> = {
  HPE_HEADER_OVERFLOW: {
    status: '431 Request Header Fields Too Large',
    title: 'The headers are too large',
    detail: 'The request line and the headers together exceed Limits.HeaderBytes.',
  },
  ERR_HTTP_REQUEST_TIMEOUT: {
    status: '408 Request Timeout',
    title: 'The request took too long',
    detail: 'The headers, or the whole request, came later than Limits.HeaderSeconds and Limits.RequestSeconds allow.',
  },
}
const MALFORMED: Answer = {
  status: '400 Bad Request',
  title: 'The request is not HTTP',
  detail: 'It cannot be read as HTTP/1.1 (RFC 9112).',
}

export function answerClientError(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const { status, title, detail } = ANSWERS[error.code ?? ''] ?? MALFORMED
  const problem = { type: 'urn:recollect:problem:Malformed', title, status: Number.parseInt(status, 10), detail }
  const body = JSON.stringify(problem)
  socket.end(
    `HTTP/1.1 ${status}\r\nContent-Type: application/problem+json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
    () => socket.destroy(),
  )
}
