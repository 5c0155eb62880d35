import type { IncomingMessage } from 'node:http'
import type { Credentials, Principal } from '../access/access.ts'
import { credentialsOf, type Gate, isRefused } from '../access/gate.ts'
import { PerAddress } from '../access/per-address.ts'

export type Admission =
  | { readonly type: 'refused'; readonly status: string; readonly reason: string }
  /** Without principal: no credentials were sent yet, and they must be before any data is sent. */
  | { readonly type: 'opened'; readonly principal: Principal | undefined }

export type Identification =
  | { readonly principal: Principal }
  | { readonly error: 'Unauthenticated' | 'TooManySockets' }

const MISDIRECTED: Admission = { type: 'refused', status: '421 Misdirected Request', reason: 'Misdirected' }
const UNAVAILABLE: Admission = { type: 'refused', status: '503 Service Unavailable', reason: 'Unavailable' }
const FORBIDDEN: Admission = { type: 'refused', status: '403 Forbidden', reason: 'Forbidden' }
const FULL: Admission = { type: 'refused', status: '429 Too Many Requests', reason: 'TooManySockets' }

/** Unauthenticated connections per address. They do not count towards the limit of authenticated ones. */
const STRANGERS_PER_ADDRESS = 32

/** Admits sockets before the upgrade: checks host, origin, credentials and the number of sockets per address. */
export class Door {
  readonly #gate: Gate
  readonly #isReady: () => boolean
  readonly #known: PerAddress
  readonly #strangers = new PerAddress(STRANGERS_PER_ADDRESS)
  readonly #admitted = new WeakMap<IncomingMessage, PerAddress>()
  readonly #places = new WeakMap<IncomingMessage, Place>()

  constructor(gate: Gate, perAddress: number, isReady: () => boolean) {
    this.#gate = gate
    this.#isReady = isReady
    this.#known = new PerAddress(perAddress)
  }

  async open(request: IncomingMessage): Promise<Admission> {
    const { headers } = request
    if (!this.#isReady()) return UNAVAILABLE
    if (!this.#gate.hosts.accepts(headers.host)) return MISDIRECTED
    if (this.#gate.origins.isForeign(headers)) return FORBIDDEN
    const address = this.#addressOf(request)
    if (this.#known.isFull(address)) return FULL
    const credentials = credentialsOf(headers, accessTokenOf(request))
    const admitted = await this.#gate.admit(credentials, () => address)
    if (!isRefused(admitted)) return this.#opened(request, this.#known, admitted)
    if (admitted.refused === 'TooManyRequests') {
      return { type: 'refused', status: '429 Too Many Requests', reason: admitted.refused }
    }
    const broughtNothing = Object.values(credentials).every((one) => one === undefined)
    if (broughtNothing) return this.#opened(request, this.#strangers, undefined)
    return { type: 'refused', status: '401 Unauthorized', reason: admitted.refused }
  }

  #opened(request: IncomingMessage, room: PerAddress, principal: Principal | undefined): Admission {
    // Checking a password takes time, so the limit may have been reached meanwhile.
    if (room.isFull(this.#addressOf(request))) return FULL
    this.#admitted.set(request, room)
    return { type: 'opened', principal }
  }

  /** Authenticates a Socket.IO client by its headers, or else by the `auth` of its handshake. */
  async identify(request: IncomingMessage, auth: unknown): Promise<Identification> {
    const address = this.#addressOf(request)
    const byRequest = credentialsOf(request.headers, accessTokenOf(request))
    const isByRequest = Object.values(byRequest).some((one) => one !== undefined)
    const admitted = await this.#gate.admit(isByRequest ? byRequest : credentialsOfAuth(auth), () => address)
    if (isRefused(admitted)) return { error: 'Unauthenticated' }
    return this.#places.get(request)?.moveTo(this.#known) ? { principal: admitted } : { error: 'TooManySockets' }
  }

  /** Counts an open socket until the returned function is called. Undefined if the limit was reached meanwhile. */
  enter(request: IncomingMessage): (() => void) | undefined {
    const place = Place.take(this.#admitted.get(request) ?? this.#strangers, this.#addressOf(request))
    if (!place) return undefined
    this.#places.set(request, place)
    return () => place.leave()
  }

  #addressOf(request: IncomingMessage): string {
    return this.#gate.addressOf(request.socket.remoteAddress, request.headers)
  }
}

/** Counts a socket as unauthenticated, then as authenticated. */
class Place {
  readonly #address: string
  #among: PerAddress
  #leave: (() => void) | undefined

  private constructor(among: PerAddress, address: string) {
    this.#among = among
    this.#address = address
    this.#leave = among.enter(address)
  }

  static take(among: PerAddress, address: string): Place | undefined {
    return among.isFull(address) ? undefined : new Place(among, address)
  }

  /** Returns false if the target's limit is reached. */
  moveTo(among: PerAddress): boolean {
    if (this.#among === among) return true
    if (!this.#leave || among.isFull(this.#address)) return false
    this.#leave()
    this.#among = among
    this.#leave = among.enter(this.#address)
    return true
  }

  leave(): void {
    this.#leave?.()
    this.#leave = undefined
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
