const LOCAL = ['localhost', '127.0.0.1', '[::1]']

/** Header fields by which a browser identifies the page that sent a request. */
export interface PageFields {
  readonly origin?: string | undefined
  readonly host?: string | undefined
  /** Fetch Metadata: sent by browsers only, and scripts cannot set it. */
  readonly 'sec-fetch-site'?: string | string[] | undefined
}

/**
 * The origins whose pages may call the server, over HTTP and sockets: its own origin and those in the settings. Without
 * such a setting, pages from localhost may call as well.
 */
export class Origins {
  readonly #named: ReadonlySet<string> | undefined

  constructor(named: readonly string[] | undefined) {
    this.#named = named && new Set(named)
  }

  /** A request without Origin does not come from a page of another origin. `host` is the request's Host. */
  allows(origin: string | undefined, host: string | undefined): boolean {
    if (origin === undefined || this.#named?.has('*')) return true
    const url = URL.canParse(origin) ? new URL(origin) : undefined
    if (!url || url.origin === 'null') return false
    if (url.host === host) return true
    return this.#named ? this.#named.has(url.origin) : LOCAL.includes(url.hostname)
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
