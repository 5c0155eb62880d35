import type { IncomingMessage, ServerResponse } from 'node:http'
import { BodyAwareResponse } from './unread-bodies.ts'

/** First segments of paths that the server has itself: whether a proxy stripped a base path that begins so cannot be told. */
const OWN = [
  ...['api', 'events', 'admin', 'health', 'metrics', 'token', 'logout', 'openapi.json', 'swagger'],
  ...['ws', 'socket.io', 'pages', 'client', 'uplot'],
]

const MOST_CHARACTERS = 256
/** Characters that mean nothing in HTML, in JSON and in the header `Link`. */
const PATH = /^(?:\/(?!\.{1,2}(?:\/|$))[\w.~@+:-]+)*\/?$/

/** `/recollect` of `/recollect/`; empty for the root, undefined for what is no path. */
export function parseBasePath(text: string): string | undefined {
  if (text.length > MOST_CHARACTERS || !PATH.test(text)) return undefined
  return text.endsWith('/') ? text.slice(0, -1) : text
}

export function isOwnPath(path: string): boolean {
  return OWN.includes(path.split('/')[1] ?? '')
}

/** The path below which clients see the server: the setting, or what a trusted proxy names in X-Forwarded-Prefix. */
export class BasePath {
  readonly #setting: string
  readonly #isTrusted: (remote: string) => boolean

  /** `setting` is empty, or begins with a slash and ends without one. */
  constructor(setting: string, isTrusted: (remote: string) => boolean) {
    this.#setting = setting
    this.#isTrusted = isTrusted
  }

  /** Removes the base path from the URL, unless a proxy has done so, and returns it. */
  strip(request: IncomingMessage): string {
    const base = this.#forwarded(request) ?? this.#setting
    if (base === '' || isOwnPath(base)) return base
    const url = originForm(request.url ?? '')
    if (url.startsWith(`${base}/`)) request.url = url.slice(base.length)
    return base
  }

  #forwarded({ headers, socket }: IncomingMessage): string | undefined {
    const sent = headers['x-forwarded-prefix']
    if (sent === undefined || !this.#isTrusted(socket.remoteAddress ?? '')) return undefined
    // A proxy that appends its value has got the others from its client.
    const last = String(sent).split(',').at(-1) as string
    return parseBasePath(last.trim())
  }
}

/** A request target may name its host, too (RFC 9112 §3.2.2): only the path matters, also when the host is not a valid one. */
export function originForm(target: string): string {
  const path = target.replace(/^[a-z][a-z\d+.-]*:\/\/[^/?#]*/i, '')
  return path === target || path.startsWith('/') ? path : `/${path}`
}

/** A response whose `Location` and `Link` lead below the base path. Those who set them need not know it. */
export class BasedResponse extends BodyAwareResponse {
  basePath = ''

  override writeHead(status: number, ...rest: unknown[]): this {
    if (this.basePath !== '') {
      for (const name of ['Location', 'Link']) {
        const value = this.getHeader(name)
        if (typeof value === 'string') this.setHeader(name, this.#below(name, value))
      }
      const [headers] = rest
      if (Array.isArray(headers)) {
        rest[0] = headers.map((value, at) => (at % 2 === 1 ? this.#below(headers[at - 1], value) : value))
      }
    }
    return super.writeHead(status, ...rest)
  }

  #below(name: string, value: string): string {
    if (name === 'Location') return value.startsWith('/') ? this.basePath + value : value
    return name === 'Link' ? value.replace(/(^|, )<\//g, `$1<${this.basePath}/`) : value
  }
}

/** The path as the client sent it to the proxy. */
export function publicPath(response: ServerResponse, path: string): string {
  return ((response as Partial<BasedResponse>).basePath ?? '') + path
}
