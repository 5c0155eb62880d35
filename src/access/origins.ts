const LOCAL = ['localhost', '127.0.0.1', '[::1]']

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
}
