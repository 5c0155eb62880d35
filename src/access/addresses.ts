import { BlockList, isIP } from 'node:net'

/** Addresses and networks (`10.0.0.0/8`) whose X-Forwarded-For header is trusted; throws on other entries. */
export class TrustedProxies {
  readonly #list = new BlockList()

  constructor(entries: readonly string[]) {
    for (const entry of entries) {
      const [address = '', prefix, ...others] = entry.split('/')
      const version = isIP(address)
      const bits = version === 4 ? 32 : 128
      const length = prefix === undefined ? bits : /^\d{1,3}$/.test(prefix) ? Number(prefix) : Number.NaN
      if (version === 0 || !(length <= bits) || others.length > 0)
        throw new Error(`${entry} is neither an address nor a network such as 10.0.0.0/8`)
      this.#list.addSubnet(address, length, version === 4 ? 'ipv4' : 'ipv6')
    }
  }

  /** The client's address: that of the connection, or the last one in X-Forwarded-For that is not a trusted proxy. */
  clientOf(remote: string | undefined, forwardedFor: string | undefined): string {
    const chain = [...(forwardedFor ?? '').split(',').map((part) => plain(part.trim())), plain(remote ?? '')]
    for (let index = chain.length - 1; index > 0; index--) {
      if (!this.#trusts(chain[index] as string)) return chain[index] as string
      if (isIP(chain[index - 1] as string) === 0) return chain[index] as string
    }
    return chain[0] as string
  }

  has(remote: string): boolean {
    return this.#trusts(plain(remote))
  }

  #trusts(address: string): boolean {
    const version = isIP(address)
    return version !== 0 && this.#list.check(address, version === 4 ? 'ipv4' : 'ipv6')
  }
}

/** The address by which rate limits count a client: its /64 network, as a client can use all of that. */
export function networkOf(address: string): string {
  if (isIP(address) !== 6) return address
  // A zone may contain dots and colons.
  const [withoutZone = ''] = address.split('%', 1)
  // `::` stands for as many groups of zeros as are missing to eight.
  const [before = [], after = []] = withoutZone
    .split('::')
    .map((half) => half.split(':').filter((group) => group !== ''))
  // An IPv4 address at the end stands for two groups.
  const width = [...before, ...after].reduce((sum, group) => sum + (group.includes('.') ? 2 : 1), 0)
  const groups = [...before, ...Array<string>(8 - width).fill('0'), ...after]
  const network = groups.slice(0, 4).map((group) => Number.parseInt(group, 16).toString(16))
  return `${network.join(':')}::/64`
}

export function isLoopback(remote: string): boolean {
  const address = plain(remote)
  return address === '::1' || (isIP(address) === 4 && address.startsWith('127.'))
}

/** Removes the `::ffff:` prefix of an IPv4-mapped IPv6 address. */
function plain(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, '')
}

/** Counts the sockets, streams or connections that each address holds open. */
export class PerAddress {
  /** The limit for one address. */
  readonly most: number
  readonly #held = new Map<string, number>()

  constructor(most: number) {
    this.most = most
  }

  isFull(address: string): boolean {
    return (this.#held.get(address) ?? 0) >= this.most
  }

  /** Counts one more; the returned function ends it. */
  enter(address: string): () => void {
    this.#held.set(address, (this.#held.get(address) ?? 0) + 1)
    return () => {
      const held = (this.#held.get(address) ?? 1) - 1
      if (held > 0) this.#held.set(address, held)
      else this.#held.delete(address)
    }
  }
}
