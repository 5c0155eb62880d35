import type { IncomingMessage, ServerResponse } from 'node:http'
import { BodyAwareResponse } from './unread-requests.ts'

/**
 * First segments of the server's own paths. If a base path begins with one of them, it is impossible to tell whether a
 * proxy has stripped it.
 */
export const OWN_PATHS: readonly string[] = [
  ...['api', 'events', 'admin', 'health', 'metrics', 'token', 'logout', 'openapi.json', 'swagger'],
  ...['ws', 'socket.io', 'assets', 'client', 'uplot'],
]

const MOST_CHARACTERS = 256
/** Characters without special meaning in HTML, in JSON and in the `Link` header. */
const PATH = /^(?:\/(?!\.{1,2}(?:\/|$))[\w.~@+:-]+)*\/?$/

/** `/recollect` for `/recollect/`; empty for the root, undefined for an invalid path. */
export function parseBasePath(text: string): string | undefined {
  if (text.length > MOST_CHARACTERS || !PATH.test(text)) return undefined
  return text.endsWith('/') ? text.slice(0, -1) : text
}

export function isOwnPath(path: string): boolean {
  return OWN_PATHS.includes(path.split('/')[1] ?? '')
}

/** The path below which clients reach the server: the setting, or X-Forwarded-Prefix of a trusted proxy. */
export class BasePath {
  readonly #setting: string
  readonly #isTrusted: (remote: string) => boolean

  /** `setting` is empty, or begins with a slash and does not end with one. */
  constructor(setting: string, isTrusted: (remote: string) => boolean) {
    this.#setting = setting
    this.#isTrusted = isTrusted
  }

  /** Removes the base path from the URL, unless a proxy has done so, and returns it. */
  strip(request: IncomingMessage): string {
    const base = this.#forwarded(request) ?? this.#setting
    if (base === '' || isOwnPath(base)) return base
    const { url = '' } = request
    if (url.startsWith(`${base}/`)) request.url = url.slice(base.length)
    return base
  }

  #forwarded({ headers, socket }: IncomingMessage): string | undefined {
    const sent = headers['x-forwarded-prefix']
    if (sent === undefined || !this.#isTrusted(socket.remoteAddress ?? '')) return undefined
    // Only the last value was written by the trusted proxy; earlier ones may come from the client.
    const last = String(sent).split(',').at(-1) as string
    return parseBasePath(last.trim())
  }
}

/** Reduces a request target in absolute form to its path. Its authority replaces the Host (RFC 9112 §3.2.2). */
export function toOriginForm(request: IncomingMessage): void {
  const { url = '', headers } = request
  if (url.startsWith('/')) return
  const [scheme, authority] = /^[a-z][a-z\d+.-]*:\/\/([^/?#]*)/i.exec(url) ?? []
  if (scheme === undefined) return
  const path = url.slice(scheme.length)
  request.url = path.startsWith('/') ? path : `/${path}`
  if (authority) headers.host = authority
}

/** Adds the base path to `Location` and `Link`, so that routes need not know it. */
export class BasedResponse extends BodyAwareResponse {
  basePath = ''

  override writeHead(status: number, ...rest: unknown[]): this {
    if (this.basePath !== '') {
      for (const name of ['Location', 'Link']) {
        const value = this.getHeader(name)
        if (typeof value === 'string') this.setHeader(name, below(this.basePath, name, value))
      }
      const [headers] = rest
      if (Array.isArray(headers)) {
        rest[0] = headers.map((value, at) => (at % 2 === 1 ? below(this.basePath, headers[at - 1], value) : value))
      }
    }
    return super.writeHead(status, ...rest)
  }
}

function below(basePath: string, name: string, value: string): string {
  if (name === 'Location') return value.startsWith('/') ? basePath + value : value
  return name === 'Link' ? value.replace(/(^|, )<\//g, `$1<${basePath}/`) : value
}

export function basePathOf(response: ServerResponse): string {
  return (response as Partial<BasedResponse>).basePath ?? ''
}
