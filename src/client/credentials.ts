import { Problem } from './problem.ts'

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

/** Provides the credentials that are valid now. */
export class Session {
  readonly #credentials: Credentials
  readonly #login: (username: string, password: string) => Promise<IssuedToken>
  #sent: Promise<SentCredentials> | undefined
  /** By `performance.now()`. */
  #renewAtMs = Number.POSITIVE_INFINITY

  /** `issued`: the token of a login with these credentials. */
  constructor(
    credentials: Credentials,
    login: (username: string, password: string) => Promise<IssuedToken>,
    issued?: IssuedToken,
  ) {
    this.#credentials = credentials
    this.#login = login
    if (issued) this.#sent = Promise.resolve(this.#keep(issued))
  }

  /** The credentials to send now. Rejects with the reason why there is no token; the next call tries again. */
  current(): Promise<SentCredentials> {
    if (performance.now() >= this.#renewAtMs) this.#sent = undefined
    if (this.#sent) return this.#sent
    const sent = this.#obtain()
    this.#sent = sent
    sent.catch(() => {
      if (this.#sent === sent) this.#sent = undefined
    })
    return sent
  }

  /** The credentials of a new connection. The last connection may have ended with its token. */
  forConnection(): Promise<SentCredentials> {
    if (typeof this.#credentials.token === 'function') this.#sent = undefined
    return this.current()
  }

  /** The server rejected what was sent. Returns whether `current` provides something else. */
  async rejected(sent: SentCredentials): Promise<boolean> {
    const { token, apiKey } = this.#credentials
    const isRenewable =
      apiKey === undefined && (typeof token === 'function' || (token === undefined && sent.token !== undefined))
    if (isRenewable && (await this.#sent?.catch(() => undefined)) === sent) this.#sent = undefined
    return isRenewable
  }

  async #obtain(): Promise<SentCredentials> {
    const { token, apiKey, username, password } = this.#credentials
    if (apiKey !== undefined) return { apiKey }
    if (typeof token === 'function') return { token: await token() }
    if (token !== undefined) return { token }
    if (username === undefined || password === undefined) return {}
    try {
      return this.#keep(await this.#login(username, password))
    } catch (error) {
      if (error instanceof Problem && NO_TOKENS.includes(error.status)) return { username, password }
      throw error
    }
  }

  #keep({ token, expiresInSeconds }: IssuedToken): SentCredentials {
    this.#renewAtMs = performance.now() + RENEWED_AT * 1000 * expiresInSeconds
    return { token }
  }
}

/** The statuses of `POST /token` of a server without the scheme `token`. */
const NO_TOKENS: readonly number[] = [404, 405]
