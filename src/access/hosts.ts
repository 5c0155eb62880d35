const LOOPBACK = /^(?:(?:[a-z\d-]+\.)*localhost|127(?:\.\d{1,3}){3}|\[::1\])$/

/** Host fields that are remembered, so that a request costs no more than a look into a set. */
const REMEMBERED = 100

/**
 * By which names the server may be asked. A page whose own name is made to point to this machine (DNS rebinding) is of the
 * same origin as the server for its browser; only its Host tells them apart.
 */
export class Hosts {
  readonly #named: ReadonlySet<string> | undefined
  readonly #accepted = new Set<string>()

  /** Names beside those of this machine; undefined: every name. */
  constructor(named: readonly string[] | undefined) {
    this.#named = named?.includes('*') ? undefined : named && new Set(named.map((name) => name.toLowerCase()))
  }

  /** Whether to answer a request with this Host. Browsers always send one; the port does not matter. */
  accepts(host: string | undefined): boolean {
    if (!this.#named || host === undefined || host === '' || this.#accepted.has(host)) return true
    const name = host.toLowerCase().replace(/:\d*$/, '').replace(/\.$/, '')
    if (!LOOPBACK.test(name) && !this.#named.has(name)) return false
    if (this.#accepted.size >= REMEMBERED) this.#accepted.clear()
    this.#accepted.add(host)
    return true
  }
}
