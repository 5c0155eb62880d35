const LOCAL = ['localhost', '127.0.0.1', '[::1]']

/** Header fields in which a browser names the page that sent a request. */
export interface PageFields {
  readonly origin?: string | undefined
  readonly host?: string | undefined
  /** Fetch Metadata; only browsers send it, and no page can set it. */
  readonly 'sec-fetch-site'?: string | string[] | undefined
}

/**
 * Which pages may call, over HTTP and over sockets alike: those of the same origin, and those that the settings
 * name; where these name none, also the pages of this machine.
 */
export class Origins {
  readonly #named: ReadonlySet<string> | undefined

  constructor(named: readonly string[] | undefined) {
    this.#named = named && new Set(named)
  }

  /** No Origin at all means: not from a page of another origin. `host` is the request's Host. */
  allows(origin: string | undefined, host: string | undefined): boolean {
    if (origin === undefined || this.#named?.has('*')) return true
    const url = URL.canParse(origin) ? new URL(origin) : undefined
    if (!url || url.origin === 'null') return false
    if (url.host === host) return true
    return this.#named ? this.#named.has(url.origin) : LOCAL.includes(url.hostname)
  }

  /**
   * Whether a page of an origin that is not allowed sent the request. A browser sends forms and images without a CORS preflight,
   * some of them without an Origin.
   */
  isForeign({ origin, host, 'sec-fetch-site': site }: PageFields): boolean {
    // Also where a proxy changed the Host, or the page's referrer policy made the Origin `null`.
    if (site === 'same-origin') return false
    return origin === undefined ? site === 'cross-site' && !this.#named?.has('*') : !this.allows(origin, host)
  }
}
