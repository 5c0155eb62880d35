import { type Access, ANYBODY, type Credentials, type Principal } from './access.ts'
import { networkOf, type TrustedProxies } from './addresses.ts'
import type { Failures } from './failures.ts'
import type { Origins } from './origins.ts'

/** The header fields in which credentials come, as node:http names them. */
export interface RequestFields {
  readonly authorization?: string | undefined
  readonly 'x-api-key'?: string | string[] | undefined
  readonly 'x-forwarded-for'?: string | string[] | undefined
  readonly origin?: string | undefined
  readonly host?: string | undefined
}

export type Refused =
  | { readonly refused: 'Unauthenticated' }
  /** Too much was wrong lately from this address. */
  | { readonly refused: 'TooManyRequests'; readonly waitSeconds: number }

const UNAUTHENTICATED: Refused = { refused: 'Unauthenticated' }

export interface GateOptions {
  /** Undefined: everybody may in. */
  readonly access: Access | undefined
  readonly failures: Failures
  readonly proxies: TrustedProxies
  readonly origins: Origins
}

/** What every door, HTTP or socket, asks before it opens. */
export class Gate {
  readonly access: Access | undefined
  readonly origins: Origins
  readonly #failures: Failures
  readonly #proxies: TrustedProxies
  /** The checks of an address that are under way. */
  readonly #running = new Map<string, Set<Promise<unknown>>>()

  constructor({ access, failures, proxies, origins }: GateOptions) {
    this.access = access
    this.origins = origins
    this.#failures = failures
    this.#proxies = proxies
  }

  /** Of the client, as failures and sockets are counted by it. */
  addressOf(remote: string | undefined, fields: RequestFields): string {
    return networkOf(this.#proxies.clientOf(remote, single(fields['x-forwarded-for'])))
  }

  /** The address is asked for only where it is needed: to find it out costs more than most else. */
  admit(credentials: Credentials, address: () => string): Promise<Principal | Refused> {
    const { access } = this
    if (!access) return Promise.resolve(ANYBODY)
    return this.attempt(address(), () => access.identify(credentials), isAnything(credentials))
  }

  /**
   * Runs a check of credentials; one that fails counts against the address when something was brought. Of any number
   * that come at once no more run than may still fail: the others wait, so that none is looked at beyond the limit.
   */
  async attempt(
    address: string,
    check: () => Promise<Principal | undefined>,
    counts = true,
  ): Promise<Principal | Refused> {
    if (!counts) return (await check()) ?? UNAUTHENTICATED
    for (;;) {
      const waitSeconds = this.#failures.waitSeconds(address)
      if (waitSeconds > 0) return { refused: 'TooManyRequests', waitSeconds }
      const running = this.#running.get(address)
      if (!running || running.size < this.#failures.left(address)) break
      await Promise.race(running)
    }
    return this.#run(address, async () => {
      const principal = await check()
      if (!principal) this.#failures.add(address)
      return principal ?? UNAUTHENTICATED
    })
  }

  async #run<T>(address: string, check: () => Promise<T>): Promise<T> {
    const running = this.#running.get(address) ?? new Set()
    this.#running.set(address, running)
    const result = check()
    const ended = result.then(
      () => {},
      () => {},
    )
    running.add(ended)
    try {
      return await result
    } finally {
      running.delete(ended)
      if (running.size === 0) this.#running.delete(address)
    }
  }

  isValid(principal: Principal): boolean {
    return this.access?.isValid(principal) ?? true
  }
}

export function isRefused(admitted: Principal | Refused): admitted is Refused {
  return 'refused' in admitted
}

export function credentialsOf(fields: RequestFields, accessToken?: string | undefined): Credentials {
  return { authorization: fields.authorization, apiKey: single(fields['x-api-key']), accessToken }
}

function isAnything({ authorization, apiKey, accessToken }: Credentials): boolean {
  return authorization !== undefined || apiKey !== undefined || accessToken !== undefined
}

function single(field: string | string[] | undefined): string | undefined {
  return Array.isArray(field) ? field.join(', ') : field
}
