import { LRUCache } from 'lru-cache'
import { type Access, ANYBODY, type Claim, type Credentials } from './access.ts'
import type { Principal } from './accounts.ts'
import { networkOf, type TrustedProxies } from './addresses.ts'
import type { Hosts, Origins, PageFields } from './origins.ts'

interface GateOptions {
  /** Undefined: authentication is off. */
  readonly access: Access | undefined
  readonly failures: Failures
  readonly proxies: TrustedProxies
  readonly origins: Origins
  readonly hosts: Hosts
  /** Called for each failed authentication. */
  readonly failed: (address: string, claim: Claim) => void
}

/** Authenticates HTTP requests and sockets, and limits the rate of failures. */
export class Gate {
  readonly access: Access | undefined
  readonly origins: Origins
  readonly hosts: Hosts
  readonly #failures: Failures
  readonly #proxies: TrustedProxies
  readonly #attempts = new Map<string, Attempts>()
  #attemptsInAll = 0
  readonly #onFailure: GateOptions['failed']

  constructor({ access, failures, proxies, origins, hosts, failed }: GateOptions) {
    this.access = access
    this.origins = origins
    this.hosts = hosts
    this.#failures = failures
    this.#proxies = proxies
    this.#onFailure = failed
  }

  /** The address by which failures and connections of a client are counted. */
  addressOf(remote: string | undefined, fields: RequestFields): string {
    return networkOf(this.#proxies.clientOf(remote, single(fields['x-forwarded-for'])))
  }

  isTrustedProxy(remote: string): boolean {
    return this.#proxies.has(remote)
  }

  /**
   * Authenticates a client: at once if it is known (`Access.recognize`). `address` is called only when it is needed, as
   * computing it is expensive.
   */
  admit(
    credentials: Credentials,
    address: () => string,
  ): Principal | RefusedAccess | Promise<Principal | RefusedAccess> {
    const { access } = this
    if (!access) return ANYBODY
    const isPassword = access.asksForPassword(credentials)
    // An address with too many failures waits, even with the right password.
    const mustWait = isPassword && this.#failures.waitSeconds(address()) > 0
    const recognized = mustWait ? undefined : access.recognize(credentials)
    if (recognized) return recognized
    if (!hasCredentials(credentials)) return UNAUTHENTICATED
    if (isPassword) return this.attempt(address(), access.claimOf(credentials), () => access.identify(credentials))
    return this.#identify(access, credentials, address)
  }

  /** Keys and tokens cannot be guessed and are cheap to check, so failures of others at the address do not block them. */
  async #identify(access: Access, credentials: Credentials, address: () => string): Promise<Principal | RefusedAccess> {
    const principal = await access.identify(credentials)
    if (principal) return principal
    const from = address()
    const waitSeconds = this.#failures.waitSeconds(from)
    if (waitSeconds > 0) return tooMany(waitSeconds)
    this.#count(from, access.claimOf(credentials))
    return UNAUTHENTICATED
  }

  #count(address: string, claim: Claim): void {
    this.#failures.add(address)
    this.#onFailure(address, claim)
  }

  /**
   * Checks a password; a wrong one counts against the address. At most as many checks of one address run at a time as
   * it has failures left, so that simultaneous attempts cannot exceed the limit. The others wait, in bounded number.
   */
  async attempt(
    address: string,
    claim: Claim,
    check: () => Promise<Principal | undefined>,
  ): Promise<Principal | RefusedAccess> {
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
  ): Promise<Principal | RefusedAccess> {
    while (running.size >= this.#failures.left(address)) {
      const waitSeconds = this.#failures.waitSeconds(address)
      if (waitSeconds > 0) return tooMany(waitSeconds)
      await Promise.race(running)
    }
    const result = check().then((principal) => {
      if (!principal) this.#count(address, claim)
      return principal ?? UNAUTHENTICATED
    })
    const ended = result.catch(() => {})
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

export type RefusedAccess =
  | { readonly refused: 'Unauthenticated' }
  /** The address has failed too often lately, or too many of its passwords are being checked. */
  | { readonly refused: 'TooManyRequests'; readonly waitSeconds: number }

export function isRefused(admitted: Principal | RefusedAccess): admitted is RefusedAccess {
  return 'refused' in admitted
}

const UNAUTHENTICATED: RefusedAccess = { refused: 'Unauthenticated' }

function tooMany(waitSeconds: number): RefusedAccess {
  return { refused: 'TooManyRequests', waitSeconds }
}

/** Highest number of passwords being checked or waiting: per address, and in total. */
const ATTEMPTS_PER_ADDRESS = 128
const ATTEMPTS = 1024
/** Retry-After in seconds when those limits are reached. */
const BUSY_SECONDS = 1

interface Attempts {
  /** Checks running or waiting. */
  count: number
  readonly running: Set<Promise<unknown>>
}

/** Header fields that carry credentials, as node:http names them. */
interface RequestFields extends PageFields {
  readonly authorization?: string | undefined
  readonly 'x-api-key'?: string | string[] | undefined
  readonly 'x-forwarded-for'?: string | string[] | undefined
}

export function credentialsOf(fields: RequestFields, accessToken?: string | undefined): Credentials {
  return { authorization: fields.authorization, apiKey: single(fields['x-api-key']), accessToken }
}

/** Whether any credentials were sent. */
export function hasCredentials({ authorization, apiKey, accessToken }: Credentials): boolean {
  return authorization !== undefined || apiKey !== undefined || accessToken !== undefined
}

function single(field: string | string[] | undefined): string | undefined {
  return Array.isArray(field) ? field.join(', ') : field
}

/** Counts failed logins by address within a minute, for a bounded number of addresses. */
export class Failures {
  readonly #limit: number
  readonly #elapsedMs: () => number
  readonly #times = new LRUCache<string, readonly number[]>({ max: ADDRESSES })

  /** `elapsedMs` must be monotonic: setting the clock would shorten or lengthen the wait. */
  constructor(limit: number, elapsedMs: () => number) {
    this.#limit = limit
    this.#elapsedMs = elapsedMs
  }

  add(address: string): void {
    this.#times.set(address, [...this.#recent(address), this.#elapsedMs()].slice(-this.#limit))
  }

  /** How many more failures the address has until it must wait. */
  left(address: string): number {
    return Math.max(0, this.#limit - this.#recent(address).length)
  }

  /** Seconds until the address may try again; 0 if it may now. */
  waitSeconds(address: string): number {
    const recent = this.#recent(address)
    const [oldest] = recent
    if (oldest === undefined || recent.length < this.#limit) return 0
    return Math.max(1, Math.ceil((oldest + WINDOW_MS - this.#elapsedMs()) / 1000))
  }

  #recent(address: string): readonly number[] {
    const since = this.#elapsedMs() - WINDOW_MS
    return (this.#times.get(address) ?? []).filter((time) => time > since)
  }
}

const WINDOW_MS = 60_000
const ADDRESSES = 10_000
