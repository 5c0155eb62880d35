const LOOPBACK = /^(?:(?:[a-z\d-]+\.)*localhost|127(?:\.\d{1,3}){3}|\[::1\])$/

/** A name or an IPv4 address, or an IPv6 address in brackets. */
const HOST = /^(?:[^\s/?#@:*[\]\\.]+(?:\.[^\s/?#@:*[\]\\.]+)*\.?|\[[a-f\d:.]+\])$/i

/** A host without a port as browsers send it: in lower case and punycode; undefined if the text is none. */
export function parseHost(text: string): string | undefined {
  const url = HOST.test(text) && URL.canParse(`http://${text}`) ? new URL(`http://${text}`) : undefined
  return url?.hostname.replace(/\.$/, '')
}

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
