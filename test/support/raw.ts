import { connect, type Socket } from 'node:net'
import { once, within } from './deadline.ts'
import type { Scope } from './directory.ts'

export interface RawResponse {
  readonly status: number
  /** By names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** A connection over which a test sends bytes as they are, and that takes the responses apart. */
export class RawConnection {
  readonly socket: Socket
  /** The error with which the connection ended, if there was one. */
  failure: Error | undefined
  /** The statuses of all responses so far, also 1xx, as they came. */
  readonly order: number[] = []
  #heard = ''
  #more = () => {}
  #taken = 0

  constructor(socket: Socket) {
    this.socket = socket
    socket.on('data', (bytes) => {
      this.#heard += bytes.toString('latin1')
      this.#more()
    })
    for (const end of ['end', 'close']) socket.on(end, () => this.#more())
    socket.on('error', (error) => {
      this.failure = error
    })
  }

  /** The next response, but for 1xx; undefined when the connection ends before it. `method` HEAD says that it has no body. */
  next(method = 'GET'): Promise<RawResponse | undefined> {
    return within(`the next response to a ${method} over a connection`, this.#next(method))
  }

  async #next(method: string): Promise<RawResponse | undefined> {
    for (;;) {
      const isOver = this.socket.readableEnded || this.socket.closed
      const found = responseAt(this.#heard, this.#taken, method, isOver)
      if (found) {
        this.#taken = found.end
        this.order.push(found.response.status)
        if (found.response.status >= 200) return found.response
      } else if (isOver) return undefined
      else await new Promise<void>((resolve) => (this.#more = resolve))
    }
  }

  /** The statuses below 200 so far. */
  get informational(): readonly number[] {
    const untaken = /^(?:HTTP\/1\.1 1\d\d .*\r\n\r\n)+/.exec(this.rest)?.[0] ?? ''
    return [
      ...this.order.filter((status) => status < 200),
      ...[...untaken.matchAll(/ (1\d\d) /g)].map(([, code]) => Number(code)),
    ]
  }

  /** The bytes after the responses that were taken. */
  get rest(): string {
    return this.#heard.slice(this.#taken)
  }
}

export async function openRaw(t: Scope, url: string): Promise<RawConnection> {
  const { hostname, port } = new URL(url)
  const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true })
  t.after(async () => void socket.destroy())
  const connection = new RawConnection(socket)
  await once(socket, 'connect')
  return connection
}

/** Closes with the other side: most tests want an end to be one. */
export async function openClosing(t: Scope, url: string): Promise<RawConnection> {
  const connection = await openRaw(t, url)
  connection.socket.once('end', () => connection.socket.end())
  return connection
}

function responseAt(heard: string, from: number, method: string, isOver: boolean) {
  const headEnd = heard.indexOf('\r\n\r\n', from)
  if (headEnd < 0) return undefined
  const [statusLine = '', ...lines] = heard.slice(from, headEnd).split('\r\n')
  const status = Number(statusLine.split(' ')[1])
  const headers = Object.fromEntries(
    lines.map((line) => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
    }),
  )
  const begin = headEnd + 4
  const found = (end: number, body: string) => ({ end, response: { status, headers, body } })
  if (method === 'HEAD' || status < 200 || status === 204 || status === 304) return found(begin, '')
  if (headers['transfer-encoding'] === 'chunked') return chunked(heard, begin, found)
  const length = headers['content-length']
  if (length === undefined) return isOver ? found(heard.length, heard.slice(begin)) : undefined
  const end = begin + Number(length)
  return heard.length < end ? undefined : found(end, heard.slice(begin, end))
}

function chunked<Found>(heard: string, begin: number, found: (end: number, body: string) => Found): Found | undefined {
  let body = ''
  for (let at = begin; ; ) {
    const lineEnd = heard.indexOf('\r\n', at)
    if (lineEnd < 0) return undefined
    const size = Number.parseInt(heard.slice(at, lineEnd), 16)
    const next = lineEnd + 2 + size + 2
    if (heard.length < next) return undefined
    if (size === 0) return found(next, body)
    body += heard.slice(lineEnd + 2, next - 2)
    at = next
  }
}
