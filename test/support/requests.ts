import { type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from 'node:http'
import { connect } from 'node:net'
import { within } from './deadline.ts'

export interface Reply {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  /** The body's JSON, as whatever the test expects it to be. */
  json<T = unknown>(): T
}

export interface Sent {
  readonly headers?: OutgoingHttpHeaders
  readonly body?: string | Uint8Array
}

/** Sends a path exactly as it is written: `fetch` would resolve `..` and `%2E%2E` before it sends them. */
export async function send(url: string, method: string, path: string, sent: Sent = {}): Promise<Reply> {
  try {
    return await sendOnce(url, method, path, sent)
  } catch (error) {
    if (!(error instanceof Ended)) throw error
    return sendOnce(url, method, path, sent)
  }
}

/** The server has ended a connection from before, as it may after it refused a body, in the moment when it was used again. */
class Ended extends Error {}

function sendOnce(url: string, method: string, path: string, { headers, body }: Sent): Promise<Reply> {
  const { hostname, port } = new URL(url)
  return within(
    `the response to ${method} ${path.slice(0, 200)}`,
    new Promise<Reply>((resolve, reject) => {
      const sent = request({ hostname, port, method, path, headers: headers ?? {} }, (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.on('error', reject)
        response.on('end', () => {
          const text = Buffer.concat(chunks).toString()
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            text,
            json: <T>() => JSON.parse(text) as T,
          })
        })
      })
      sent.on('error', (error: NodeJS.ErrnoException) => {
        reject(sent.reusedSocket && error.code === 'ECONNRESET' ? new Ended(error.message) : error)
      })
      sent.end(body)
    }),
  )
}

/** Sends JSON. */
export function sendJson(
  url: string,
  method: string,
  path: string,
  body: unknown,
  headers: OutgoingHttpHeaders = {},
): Promise<Reply> {
  const sent = { headers: { 'Content-Type': 'application/json', ...headers }, body: JSON.stringify(body) }
  return send(url, method, path, sent)
}

/** The position of the last event. */
export async function headOf(url: string): Promise<number> {
  return Number((await send(url, 'GET', '/api')).headers['journal-position'])
}

/**
 * Writes bytes to the port as they are, and gathers what comes back until the server closes: for what no client
 * sends. A client that hangs up waits for no answer.
 */
export function sendBytes(url: string, bytes: string | Uint8Array, { hangUp = false } = {}): Promise<string> {
  const { hostname, port } = new URL(url)
  return within(
    'the end of a connection that the server closes',
    new Promise<string>((resolve, reject) => {
      let answer = ''
      const socket = connect(Number(port), hostname, () => (hangUp ? socket.end(bytes) : socket.write(bytes)))
      socket.setEncoding('latin1')
      socket.on('data', (text) => {
        answer += text
      })
      socket.on('error', reject)
      socket.on('close', () => resolve(answer))
    }),
  )
}

/** Headers that make the fast front leave a request to Koa. */
export const THROUGH_KOA = { Origin: 'http://localhost' }

/** The same, as a header line without its end. */
export const KOA_LINE = 'Origin: http://localhost'
