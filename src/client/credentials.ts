import { hasStatus, problem, retryDelayMs } from './problem.ts'

/** Credentials for one of the schemes that the server accepts; empty if it needs none. */
export interface Credentials {
  /** A token, or a function that gets one. The function is called for each new connection, and when the server rejects the last token. */
  readonly token?: string | (() => string | Promise<string>)
  readonly apiKey?: string
  /** With `password`: requests tokens, and new ones before they expire. A server that issues none gets Basic credentials. */
  readonly username?: string
  readonly password?: string
}

/** The credentials that a request or a connection sends. */
export type SentCredentials = Omit<Credentials, 'token'> & { readonly token?: string }

/** The response of `POST /token`. */
export interface IssuedToken {
  readonly token: string
  readonly expiresInSeconds: number
}

/** A token is renewed when this share of its lifetime has passed. */
const RENEWED_AT = 0.9

/** Credentials, and until when they are used. The times are by `performance.now()`. */
interface Held {
  readonly sent: SentCredentials
  renewAtMs: number
  readonly endsAtMs: number
}

/** Provides the credentials that are valid now. */
export class Session {
  readonly #credentials: Credentials
  readonly #login: (username: string, password: string) => Promise<IssuedToken>
  #held: Held | undefined
  /** The request for other credentials, which all that need them wait for. */
  #renewal: Promise<SentCredentials> | undefined

  /** `issued`: the token of a login with these credentials. */
  constructor(
    credentials: Credentials,
    login: (username: string, password: string) => Promise<IssuedToken>,
    issued?: IssuedToken,
  ) {
    this.#credentials = credentials
    this.#login = login
    this.#held = issued ? expiring(issued) : given(credentials)
  }

  /** The last token, unless the server rejected it. */
  get token(): string | undefined {
    return this.#held?.sent.token
  }

  /** The credentials to send now. Rejects with the reason why there is no token; the next call tries again. */
  async current(): Promise<SentCredentials> {
    const held = this.#held
    const now = performance.now()
    if (!held || now >= held.endsAtMs) return this.#renew()
    if (now >= held.renewAtMs) {
      // A token that is still valid is used until there is another one.
      this.#renew().catch((error: unknown) => {
        // The server counts wrong passwords, and locks out an address with too many.
        held.renewAtMs = hasStatus(error, 401) ? Number.POSITIVE_INFINITY : performance.now() + retryDelayMs(error)
      })
    }
    return held.sent
  }

  /** The credentials of a new connection. The last connection may have ended with its token. */
  async forConnection(): Promise<SentCredentials> {
    if (typeof this.#credentials.token === 'function') return this.#renew()
    const sent = await this.current()
    // A connection ends with its token, so it waits for a newer one.
    return this.#renewal?.catch(() => sent) ?? sent
  }

  /** The server rejected what was sent. Returns whether `current` provides something else. */
  async rejected(sent: SentCredentials): Promise<boolean> {
    if (given(this.#credentials)) return false
    if (this.#held?.sent === sent) this.#held = undefined
    if (sent.password === undefined) return true
    // The server may issue tokens by now.
    try {
      return (await this.current()).password === undefined
    } catch (error) {
      // The next call says why there is none. A wrong password is not sent again, as the server counts them.
      return !hasStatus(error, 401)
    }
  }

  #renew(): Promise<SentCredentials> {
    this.#renewal ??= this.#obtain().finally(() => {
      this.#renewal = undefined
    })
    return this.#renewal
  }

  async #obtain(): Promise<SentCredentials> {
    const { token, username = '', password = '' } = this.#credentials
    const held =
      typeof token === 'function' ? lasting({ token: await token() }) : await this.#loggedIn(username, password)
    this.#held = held
    return held.sent
  }

  async #loggedIn(username: string, password: string): Promise<Held> {
    try {
      return expiring(await this.#login(username, password))
    } catch (error) {
      if (!hasStatus(error, 404, 405)) throw error
      if (NO_TOKENS.includes(error.code)) return lasting({ username, password })
      // That of a proxy says nothing about what was requested.
      throw problem('Unavailable', 503, `POST /token did not reach the server: its response is ${error.status}.`)
    }
  }
}

/** The problems by which a server without the scheme `token` responds to `POST /token`. */
const NO_TOKENS: readonly string[] = ['NotFound', 'MethodNotAllowed']

/** Credentials that are sent as they are; undefined if some must be obtained. */
function given({ token, apiKey, username, password }: Credentials): Held | undefined {
  if (apiKey !== undefined) return lasting({ apiKey })
  if (typeof token === 'string') return lasting({ token })
  if (token === undefined && (username === undefined || password === undefined)) return lasting({})
  return undefined
}

function lasting(sent: SentCredentials): Held {
  return { sent, renewAtMs: Number.POSITIVE_INFINITY, endsAtMs: Number.POSITIVE_INFINITY }
}

function expiring({ token, expiresInSeconds }: IssuedToken): Held {
  const now = performance.now()
  const lifetimeMs = 1000 * expiresInSeconds
  return { sent: { token }, renewAtMs: now + RENEWED_AT * lifetimeMs, endsAtMs: now + lifetimeMs }
}
