import { type Access, ANYBODY, type Credentials, type Principal } from './access.ts'
import { networkOf, type TrustedProxies } from './addresses.ts'
import type { Claim } from './failure-log.ts'
import type { Failures } from './failures.ts'
import type { Hosts } from './hosts.ts'
import type { Origins, PageFields } from './origins.ts'

/** The header fields in which credentials come, as node:http names them. */
export interface RequestFields extends PageFields {
  readonly authorization?: string | undefined
  readonly 'x-api-key'?: string | string[] | undefined
  readonly 'x-forwarded-for'?: string | string[] | undefined
}

export type Refused =
  | { readonly refused: 'Unauthenticated' }
  /** Too much was wrong lately from this address, or too many of its passwords are being checked. */
  | { readonly refused: 'TooManyRequests'; readonly waitSeconds: number }

const UNAUTHENTICATED: Refused = { refused: 'Unauthenticated' }

/** Passwords of one address that may be checked, or wait to be, at a time; and of all together. */
const ATTEMPTS_PER_ADDRESS = 128
const ATTEMPTS = 1024
/** When those that are more may come again. */
const BUSY_SECONDS = 1

interface Attempts {
  /** Being checked or waiting. */
  count: number
  readonly running: Set<Promise<unknown>>
}

function tooMany(waitSeconds: number): Refused {
  return { refused: 'TooManyRequests', waitSeconds }
}

export interface GateOptions {
  /** Undefined: everybody may in. */
  readonly access: Access | undefined
  readonly failures: Failures
  readonly proxies: TrustedProxies
  readonly origins: Origins
  readonly hosts: Hosts
  /** Told of wrong credentials. */
  readonly failed: (address: string, claim: Claim) => void
}

/** What every door, HTTP or socket, asks before it opens. */
export class Gate {
  readonly access: Access | undefined
  readonly origins: Origins
  readonly hosts: Hosts
  readonly #failures: Failures
  readonly #proxies: TrustedProxies
  readonly #attempts = new Map<string, Attempts>()
  #attemptsInAll = 0
  readonly #tellFailed: GateOptions['failed']

  constructor({ access, failures, proxies, origins, hosts, failed }: GateOptions) {
    this.access = access
    this.origins = origins
    this.hosts = hosts
    this.#failures = failures
    this.#proxies = proxies
    this.#tellFailed = failed
  }

  /** Of the client, as failures and sockets are counted by it. */
  addressOf(remote: string | undefined, fields: RequestFields): string {
    return networkOf(this.#proxies.clientOf(remote, single(fields['x-forwarded-for'])))
  }

  isTrustedProxy(remote: string): boolean {
    return this.#proxies.has(remote)
  }

  /**
   * The principal, where it is known at once (`Access.recognize`); undefined where only `admit` can tell. It counts
   * nothing against the address. `address` is called for a password alone, as it costs more than most else.
   */
  recognize(credentials: Credentials, address: () => string): Principal | undefined {
    const { access } = this
    if (!access) return ANYBODY
    // An address that was wrong too often waits, whatever password it comes with.
    if (access.asksForPassword(credentials) && this.#failures.waitSeconds(address()) > 0) return undefined
    return access.recognize(credentials)
  }

  async admit(credentials: Credentials, address: () => string): Promise<Principal | Refused> {
    const { access } = this
    if (!access) return ANYBODY
    const recognized = this.recognize(credentials, address)
    if (recognized) return recognized
    if (!isAnything(credentials)) return UNAUTHENTICATED
    if (access.asksForPassword(credentials)) {
      return this.attempt(address(), access.claimOf(credentials), () => access.identify(credentials))
    }
    // Nobody guesses a key or a token, and a check costs little: what somebody else got wrong keeps no right one out.
    const principal = await access.identify(credentials)
    return principal ?? this.#failed(address(), access.claimOf(credentials))
  }

  #failed(address: string, claim: Claim): Refused {
    const waitSeconds = this.#failures.waitSeconds(address)
    if (waitSeconds > 0) return tooMany(waitSeconds)
    this.#count(address, claim)
    return UNAUTHENTICATED
  }

  #count(address: string, claim: Claim): void {
    this.#failures.add(address)
    this.#tellFailed(address, claim)
  }

  /**
   * Checks a password; a wrong one counts against the address. Of any number that come at once no more are checked than
   * may still be wrong: the others wait, so that none is looked at beyond the limit. Only so many may wait.
   */
  async attempt(
    address: string,
    claim: Claim,
    check: () => Promise<Principal | undefined>,
  ): Promise<Principal | Refused> {
    const waitSeconds = this.#failures.waitSeconds(address)
    if (waitSeconds > 0) return tooMany(waitSeconds)
    const attempts = this.#attempts.get(address) ?? { count: 0, running: new Set() }
    if (attempts.count >= ATTEMPTS_PER_ADDRESS || this.#attemptsInAll >= ATTEMPTS) return tooMany(BUSY_SECONDS)
    this.#attempts.set(address, attempts)
    attempts.count++
    this.#attemptsInAll++
    try {
      return await this.#inTurn(address, attempts, claim, check)
    } finally {
      attempts.count--
      this.#attemptsInAll--
      if (attempts.count === 0) this.#attempts.delete(address)
    }
  }

  async #inTurn(
    address: string,
    { running }: Attempts,
    claim: Claim,
    check: () => Promise<Principal | undefined>,
  ): Promise<Principal | Refused> {
    while (running.size >= this.#failures.left(address)) {
      const waitSeconds = this.#failures.waitSeconds(address)
      if (waitSeconds > 0) return tooMany(waitSeconds)
      await Promise.race(running)
    }
    const result = check().then((principal) => {
      if (!principal) this.#count(address, claim)
      return principal ?? UNAUTHENTICATED
    })
    const ended = result.then(
      () => {},
      () => {},
    )
    running.add(ended)
    try {
      return await result
    } finally {
      running.delete(ended)
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
