import type { IncomingMessage } from 'node:http'
import type { Credentials } from '../access/access.ts'
import type { Principal } from '../access/accounts.ts'
import { PerAddress } from '../access/addresses.ts'
import { credentialsOf, type Gate, hasCredentials, isRefused, type RefusedAccess } from '../access/gate.ts'

type Admission =
  | { readonly type: 'refused'; readonly status: string; readonly reason: string }
  /** Without principal: no credentials were sent yet, and they must be before any data is sent. */
  | { readonly type: 'opened'; readonly principal: Principal | undefined }

type Identification =
  | { readonly principal: Principal }
  | { readonly error: RefusedAccess['refused'] | 'TooManySockets' }

interface CountedSocket {
  readonly address: string
  readonly group: PerAddress
  readonly leave: () => void
}

const MISDIRECTED: Admission = { type: 'refused', status: '421 Misdirected Request', reason: 'Misdirected' }
const UNAVAILABLE: Admission = { type: 'refused', status: '503 Service Unavailable', reason: 'Unavailable' }
const FORBIDDEN: Admission = { type: 'refused', status: '403 Forbidden', reason: 'Forbidden' }
const FULL: Admission = { type: 'refused', status: '429 Too Many Requests', reason: 'TooManySockets' }

/** Unauthenticated connections per address. They do not count towards the limit of authenticated ones. */
const UNAUTHENTICATED_PER_ADDRESS = 32

/** Admits sockets before the upgrade: checks host, origin, credentials and the number of sockets per address. */
export class SocketGate {
  readonly #gate: Gate
  readonly #isReady: () => boolean
  readonly #authenticated: PerAddress
  readonly #unauthenticated = new PerAddress(UNAUTHENTICATED_PER_ADDRESS)
  readonly #admitted = new WeakMap<IncomingMessage, PerAddress>()
  /** Open sockets, which count as unauthenticated first. */
  readonly #counted = new WeakMap<IncomingMessage, CountedSocket>()

  constructor(gate: Gate, perAddress: number, isReady: () => boolean) {
    this.#gate = gate
    this.#isReady = isReady
    this.#authenticated = new PerAddress(perAddress)
  }

  async admit(request: IncomingMessage): Promise<Admission> {
    const { headers } = request
    if (!this.#isReady()) return UNAVAILABLE
    if (!this.#gate.hosts.accepts(headers.host)) return MISDIRECTED
    if (this.#gate.origins.isForeign(headers)) return FORBIDDEN
    const address = this.#addressOf(request)
    if (this.#authenticated.isFull(address)) return FULL
    const credentials = credentialsOf(headers, accessTokenOf(request))
    const admitted = await this.#gate.admit(credentials, () => address)
    if (!isRefused(admitted)) return this.#opened(request, this.#authenticated, admitted)
    if (admitted.refused === 'TooManyRequests') {
      return { type: 'refused', status: '429 Too Many Requests', reason: admitted.refused }
    }
    if (!hasCredentials(credentials)) return this.#opened(request, this.#unauthenticated, undefined)
    return { type: 'refused', status: '401 Unauthorized', reason: admitted.refused }
  }

  #opened(request: IncomingMessage, group: PerAddress, principal: Principal | undefined): Admission {
    // Checking a password takes time, so the limit may have been reached meanwhile.
    if (group.isFull(this.#addressOf(request))) return FULL
    this.#admitted.set(request, group)
    return { type: 'opened', principal }
  }

  /** Authenticates a Socket.IO client by its headers, or else by the `auth` of its handshake. */
  async authenticate(request: IncomingMessage, auth: unknown): Promise<Identification> {
    const address = this.#addressOf(request)
    const byRequest = credentialsOf(request.headers, accessTokenOf(request))
    const credentials = hasCredentials(byRequest) ? byRequest : credentialsOfAuth(auth)
    const admitted = await this.#gate.admit(credentials, () => address)
    if (isRefused(admitted)) return { error: admitted.refused }
    return this.#countAuthenticated(request) ? { principal: admitted } : { error: 'TooManySockets' }
  }

  /** Counts an open socket until the returned function is called. Undefined if the limit was reached meanwhile. */
  count(request: IncomingMessage): (() => void) | undefined {
    const address = this.#addressOf(request)
    const group = this.#admitted.get(request) ?? this.#unauthenticated
    if (group.isFull(address)) return undefined
    this.#counted.set(request, { address, group, leave: group.enter(address) })
    return () => {
      this.#counted.get(request)?.leave()
      this.#counted.delete(request)
    }
  }

  /** Returns false if the limit of authenticated sockets is reached, or the socket is closed. */
  #countAuthenticated(request: IncomingMessage): boolean {
    const group = this.#authenticated
    const counted = this.#counted.get(request)
    if (counted?.group === group) return true
    if (!counted || group.isFull(counted.address)) return false
    counted.leave()
    this.#counted.set(request, { ...counted, group, leave: group.enter(counted.address) })
    return true
  }

  #addressOf(request: IncomingMessage): string {
    return this.#gate.addressOf(request.socket.remoteAddress, request.headers)
  }
}

function accessTokenOf({ url = '' }: IncomingMessage): string | undefined {
  const question = url.indexOf('?')
  return question < 0 ? undefined : (new URLSearchParams(url.slice(question)).get('access_token') ?? undefined)
}

/** Accepts `{token}`, `{apiKey}` or `{username, password}`. */
function credentialsOfAuth(auth: unknown): Credentials {
  const fields = (typeof auth === 'object' && auth !== null ? auth : {}) as Readonly<Record<string, unknown>>
  const field = (name: string): string | undefined => {
    const value = Object.hasOwn(fields, name) ? fields[name] : undefined
    return typeof value === 'string' ? value : undefined
  }
  const username = field('username')
  const password = field('password')
  const basic =
    username !== undefined && password !== undefined
      ? `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
      : undefined
  return { authorization: basic, apiKey: field('apiKey'), accessToken: field('token') }
}
