import type { Duplex } from 'node:stream'

interface Answer {
  readonly status: string
  readonly title: string
}

/** What a request was that is no HTTP, by the error's code; it never reaches the app. */
const ANSWERS: Readonly<Record<string, Answer>> = {
  HPE_HEADER_OVERFLOW: { status: '431 Request Header Fields Too Large', title: 'The headers are too large' },
  ERR_HTTP_REQUEST_TIMEOUT: { status: '408 Request Timeout', title: 'The request took too long' },
}
const MALFORMED: Answer = { status: '400 Bad Request', title: 'The request is not HTTP' }

export function answerClientError(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const { status, title } = ANSWERS[error.code ?? ''] ?? MALFORMED
  const body = JSON.stringify({ type: 'urn:recollect:problem:Malformed', title, status: Number.parseInt(status, 10) })
  socket.end(
    `HTTP/1.1 ${status}\r\nContent-Type: application/problem+json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
    () => socket.destroy(),
  )
}
