import type { IncomingMessage } from 'node:http'
import type { Credentials, Principal } from '../access/access.ts'
import { credentialsOf, type Gate, isRefused } from '../access/gate.ts'
import { PerAddress } from '../access/per-address.ts'

export type Opened =
  | { readonly type: 'refused'; readonly status: string; readonly reason: string }
  /** No principal: nothing was brought yet, and must be before anything is told. */
  | { readonly type: 'opened'; readonly principal: Principal | undefined }

const FORBIDDEN: Opened = { type: 'refused', status: '403 Forbidden', reason: 'Forbidden' }
const FULL: Opened = { type: 'refused', status: '429 Too Many Requests', reason: 'TooManySockets' }

/** Decides over sockets, before the upgrade: whose page asks, who is asking, and how many an address holds. */
export class Door {
  readonly #gate: Gate
  readonly #held: PerAddress

  constructor(gate: Gate, perAddress: number) {
    this.#gate = gate
    this.#held = new PerAddress(perAddress)
  }

  async open(request: IncomingMessage): Promise<Opened> {
    const { headers } = request
    if (!this.#gate.origins.allows(headers.origin, headers.host)) return FORBIDDEN
    const address = this.#addressOf(request)
    if (this.#held.isFull(address)) return FULL
    const credentials = credentialsOf(headers, accessTokenOf(request))
    const admitted = await this.#gate.admit(credentials, () => address)
    // A password takes its time to be checked, and others have come in meanwhile.
    if (this.#held.isFull(address)) return FULL
    if (!isRefused(admitted)) return { type: 'opened', principal: admitted }
    if (admitted.refused === 'TooManyRequests') {
      return { type: 'refused', status: '429 Too Many Requests', reason: admitted.refused }
    }
    const broughtNothing = Object.values(credentials).every((one) => one === undefined)
    if (broughtNothing) return { type: 'opened', principal: undefined }
    return { type: 'refused', status: '401 Unauthorized', reason: admitted.refused }
  }

  /** Who a Socket.IO client is: by its headers, else by the `auth` of its handshake. */
  async identify(request: IncomingMessage, auth: unknown): Promise<Principal | undefined> {
    const address = this.#addressOf(request)
    const byRequest = credentialsOf(request.headers, accessTokenOf(request))
    const isByRequest = Object.values(byRequest).some((one) => one !== undefined)
    const admitted = await this.#gate.admit(isByRequest ? byRequest : credentialsOfAuth(auth), () => address)
    return isRefused(admitted) ? undefined : admitted
  }

  /** Counts a socket to its address until the function that it returns is called. */
  enter(request: IncomingMessage): () => void {
    return this.#held.enter(this.#addressOf(request))
  }

  #addressOf(request: IncomingMessage): string {
    return this.#gate.addressOf(request.socket.remoteAddress, request.headers)
  }
}

function accessTokenOf({ url = '' }: IncomingMessage): string | undefined {
  const question = url.indexOf('?')
  return question < 0 ? undefined : (new URLSearchParams(url.slice(question)).get('access_token') ?? undefined)
}

/** `{token}`, `{apiKey}`, or `{username, password}`. */
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
