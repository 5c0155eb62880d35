import { BlockList, isIP } from 'node:net'

/** Whose word about a client's address counts: addresses and networks (`10.0.0.0/8`). Throws on anything else. */
export class TrustedProxies {
  readonly #list = new BlockList()

  constructor(entries: readonly string[]) {
    for (const entry of entries) {
      const [address = '', prefix, ...others] = entry.split('/')
      const version = isIP(address)
      const bits = version === 4 ? 32 : 128
      const length = prefix === undefined ? bits : /^\d{1,3}$/.test(prefix) ? Number(prefix) : Number.NaN
      if (version === 0 || !(length <= bits) || others.length > 0)
        throw new Error(`${entry} is neither an address nor a network`)
      this.#list.addSubnet(address, length, version === 4 ? 'ipv4' : 'ipv6')
    }
  }

  /**
   * The client's address: the connection's, or, when that is a trusted proxy's, the last one in X-Forwarded-For
   * that is not.
   */
  clientOf(remote: string | undefined, forwardedFor: string | undefined): string {
    const chain = [...(forwardedFor ?? '').split(',').map((part) => plain(part.trim())), plain(remote ?? '')]
    for (let index = chain.length - 1; index > 0; index--) {
      if (!this.#trusts(chain[index] as string)) return chain[index] as string
      if (isIP(chain[index - 1] as string) === 0) return chain[index] as string
    }
    return chain[0] as string
  }

  /** Whether a connection comes from one of them. */
  has(remote: string): boolean {
    return this.#trusts(plain(remote))
  }

  #trusts(address: string): boolean {
    const version = isIP(address)
    return version !== 0 && this.#list.check(address, version === 4 ? 'ipv4' : 'ipv6')
  }
}

/**
 * What is counted as one address: whoever has one of IPv6 has its whole network of 64 bits, and would be somebody
 * else with each try.
 */
export function networkOf(address: string): string {
  if (isIP(address) !== 6) return address
  const [before = [], after] = address.split('::').map((half) => half.split(':').filter((group) => group !== ''))
  // An IPv4 address at the end stands for two groups.
  const width = [...before, ...(after ?? [])].reduce((sum, group) => sum + (group.includes('.') ? 2 : 1), 0)
  const groups = [...before, ...Array<string>(8 - width).fill('0'), ...(after ?? [])]
  const network = groups.slice(0, 4).map((group) => Number.parseInt(group, 16).toString(16))
  return `${network.join(':')}::/64`
}

export function isLoopback(remote: string): boolean {
  const address = plain(remote)
  return address === '::1' || (isIP(address) === 4 && address.startsWith('127.'))
}

/** An IPv4 address without the IPv6 coat that a dual-stack socket gives it. */
function plain(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, '')
}
