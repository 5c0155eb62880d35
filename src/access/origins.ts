/**
 * The origins whose pages may call the server, over HTTP and sockets: its own origin and those in the settings. Without
 * such a setting, pages from localhost may call as well.
 */
export class Origins {
  readonly #named: ReadonlySet<string> | undefined

  constructor(named: readonly string[] | undefined) {
    this.#named = named && new Set(named.map((one) => parseOrigin(one) ?? one))
  }

  /** A request without Origin does not come from a page of another origin. `host` is the request's Host. */
  allows(origin: string | undefined, host: string | undefined): boolean {
    if (origin === undefined || this.#named?.has('*')) return true
    const sent = parseOrigin(origin)
    if (sent === undefined) return false
    if (this.#named?.has(sent)) return true
    if (!/^https?:/.test(sent)) return false
    const url = new URL(sent)
    return url.host === host || (!this.#named && LOCAL.includes(url.hostname))
  }

  /**
   * Whether a page of a forbidden origin sent the request. Browsers send forms and images without a CORS preflight,
   * some of them without an Origin.
   */
  isForeign({ origin, host, 'sec-fetch-site': site }: PageFields): boolean {
    // Sec-Fetch-Site also holds where a proxy changed the Host, or a referrer policy set the Origin to `null`.
    if (site === 'same-origin') return false
    return origin === undefined ? site === 'cross-site' && !this.#named?.has('*') : !this.allows(origin, host)
  }
}

/** Header fields by which a browser identifies the page that sent a request. */
export interface PageFields {
  readonly origin?: string | undefined
  readonly host?: string | undefined
  /** Fetch Metadata: sent by browsers only, and scripts cannot set it. */
  readonly 'sec-fetch-site'?: string | string[] | undefined
}

const LOCAL = ['localhost', '127.0.0.1', '[::1]']

/**
 * An origin as browsers send it: in lower case and, for http and https, with the host in punycode and without the
 * default port. Undefined if the text is no origin.
 */
export function parseOrigin(text: string): string | undefined {
  if (text === OPAQUE) return text
  const url = ORIGIN.test(text) && URL.canParse(text) ? new URL(text) : undefined
  return url && `${url.protocol}//${url.host.toLowerCase()}`
}

/** The form of an origin. Only `file://`, which some web views send, has no host. */
const ORIGIN = /^(?:[a-z][a-z\d+.-]*:\/\/[^\s/?#@*,;'"\\]+|file:\/\/)$/i
/** Sent for local files, sandboxed iframes and redirects, so it identifies no page. */
const OPAQUE = 'null'

/**
 * The host names that the server answers to. This prevents DNS rebinding: a page whose name resolves to this machine
 * has the same origin as the server, and differs in its Host only.
 */
export class Hosts {
  readonly #named: ReadonlySet<string> | undefined

  /** Names besides those of this machine; undefined accepts every name. */
  constructor(named: readonly string[] | undefined) {
    this.#named = named?.includes('*') ? undefined : named && new Set(named.map((name) => parseHost(name) ?? name))
  }

  /** Whether to answer a request with this Host. The port is ignored. Browsers always send a Host. */
  accepts(host: string | undefined): boolean {
    if (!this.#named || host === undefined || host === '') return true
    const name = host.toLowerCase().replace(/:\d*$/, '').replace(/\.$/, '')
    return LOOPBACK.test(name) || this.#named.has(name)
  }
}

const LOOPBACK = /^(?:(?:[a-z\d-]+\.)*localhost|127(?:\.\d{1,3}){3}|\[::1\])$/

/** A host without a port as browsers send it: in lower case and punycode; undefined if the text is none. */
export function parseHost(text: string): string | undefined {
  const url = HOST.test(text) && URL.canParse(`http://${text}`) ? new URL(`http://${text}`) : undefined
  return url?.hostname.replace(/\.$/, '')
}

/** A name or an IPv4 address, or an IPv6 address in brackets. */
const HOST = /^(?:[^\s/?#@:*[\]\\.]+(?:\.[^\s/?#@:*[\]\\.]+)*\.?|\[[a-f\d:.]+\])$/i
