import { type Access, ANYBODY, type Credentials, type Principal } from './access.ts'
import type { TrustedProxies } from './addresses.ts'
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

  constructor({ access, failures, proxies, origins }: GateOptions) {
    this.access = access
    this.origins = origins
    this.#failures = failures
    this.#proxies = proxies
  }

  addressOf(remote: string | undefined, fields: RequestFields): string {
    return this.#proxies.clientOf(remote, single(fields['x-forwarded-for']))
  }

  admit(credentials: Credentials, address: string): Promise<Principal | Refused> {
    const { access } = this
    if (!access) return Promise.resolve(ANYBODY)
    return this.attempt(address, () => access.identify(credentials), isAnything(credentials))
  }

  /** Runs a check of credentials; one that fails counts against the address when something was brought. */
  async attempt(
    address: string,
    check: () => Promise<Principal | undefined>,
    counts = true,
  ): Promise<Principal | Refused> {
    const waitSeconds = counts ? this.#failures.waitSeconds(address) : 0
    if (waitSeconds > 0) return { refused: 'TooManyRequests', waitSeconds }
    const principal = await check()
    if (principal) return principal
    if (counts) this.#failures.add(address)
    return { refused: 'Unauthenticated' }
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
