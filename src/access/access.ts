import { Semaphore } from '../runtime/turns.ts'
import { Accounts, type ApiKey, type Principal, type User } from './accounts.ts'
import type { Token, Tokens } from './tokens.ts'

export const SCHEMES = ['token', 'basic', 'apikey'] as const
export type Scheme = (typeof SCHEMES)[number]

/** The credentials of a request or socket; undefined members were not sent. */
export interface Credentials {
  readonly authorization?: string | undefined
  readonly apiKey?: string | undefined
  /** A bearer token from elsewhere than the Authorization header. */
  readonly accessToken?: string | undefined
}

/** The identity that wrong credentials claimed. */
export interface Claim {
  readonly scheme: 'password' | 'token' | 'apikey'
  /** The named user, if it exists. */
  readonly actor?: string
}

/** The principal of every client when authentication is off. */
export const ANYBODY: Principal = { actor: 'anonymous', role: 'admin' }

interface AccessOptions {
  readonly schemes: readonly Scheme[]
  readonly users: readonly User[]
  readonly apiKeys: readonly ApiKey[]
  readonly tokens: Tokens
}

/** Passwords checked at a time. scrypt runs in Node's pool of four threads, which also writes the journal. */
const CHECKS_AT_ONCE = 2

/** Authenticates clients by the active schemes. */
export class Access {
  readonly schemes: readonly Scheme[]
  readonly tokens: Tokens
  #accounts: Accounts
  readonly #checks = new Semaphore(CHECKS_AT_ONCE)

  private constructor({ schemes, tokens }: AccessOptions, accounts: Accounts) {
    this.schemes = schemes
    this.tokens = tokens
    this.#accounts = accounts
  }

  static async open(options: AccessOptions): Promise<Access> {
    return new Access(options, await Accounts.open(options.users, options.apiKeys))
  }

  /** Resolves with a function that replaces all users and API keys at once. */
  async prepare(users: readonly User[], apiKeys: readonly ApiKey[]): Promise<() => void> {
    const accounts = await Accounts.open(users, apiKeys, this.#accounts)
    return () => {
      this.#accounts = accounts
    }
  }

  /** Whether a password must be checked: only passwords are slow to check and can be guessed. */
  asksForPassword({ authorization, apiKey }: Credentials): boolean {
    return !(apiKey !== undefined && this.#has('apikey')) && /^basic /i.test(authorization ?? '') && this.#has('basic')
  }

  /**
   * The principal of an API key, or of a password or token that was verified before. Undefined does not mean that the
   * credentials are wrong.
   */
  recognize(credentials: Credentials): Principal | undefined {
    const presented = this.#read(credentials)
    if (presented?.scheme === 'basic') return this.#accounts.byVerifiedPassword(presented.name, presented.password)
    if (presented?.scheme === 'token') return this.#byToken(this.tokens.verified(presented.jwt))
    return presented?.principal
  }

  /** Undefined if the credentials are wrong for every active scheme. */
  async identify(credentials: Credentials): Promise<Principal | undefined> {
    const presented = this.#read(credentials)
    if (presented?.scheme === 'basic') return this.byPassword(presented.name, presented.password)
    if (presented?.scheme === 'token') return this.#byToken(await this.tokens.verify(presented.jwt))
    return presented?.principal
  }

  /** The identity that the credentials claim, whether they are right or not. */
  claimOf(credentials: Credentials): Claim {
    const { authorization = '', apiKey, accessToken } = credentials
    const [, scheme = '', rest = ''] = schemeOf(authorization)
    const name = scheme.toLowerCase()
    const isKey = apiKey !== undefined || name === 'apikey' || (name === 'bearer' && !this.#has('token'))
    if (isKey && this.#has('apikey')) return { scheme: 'apikey' }
    if (name === 'basic') return this.claimOfUser(namedIn(rest)?.name)
    return { ...this.claimOfUser(this.tokens.claimedUser(scheme === '' ? (accessToken ?? '') : rest)), scheme: 'token' }
  }

  /** Unknown names are not included: a password may have been typed into the wrong field. */
  claimOfUser(name: string | undefined): Claim {
    return { scheme: 'password', ...(name !== undefined && this.#accounts.user(name) && { actor: name }) }
  }

  async byPassword(name: string, password: string): Promise<Principal | undefined> {
    const known = this.#accounts.byVerifiedPassword(name, password)
    // In its turn it looks again: the simultaneous first requests of a client need one check.
    return known ?? this.#checks.run(() => this.#accounts.byPassword(name, password))
  }

  /** Whether a principal is still valid: its token, and its user or API key was not changed. */
  isValid(principal: Principal): boolean {
    const { token } = principal
    return this.#accounts.has(principal) && (token === undefined || this.tokens.isValid(token))
  }

  /** The challenges of the schemes (RFC 9110 §11.6.1). */
  challenges(): readonly string[] {
    return [...new Set(this.schemes.flatMap((scheme) => CHALLENGES[scheme]))]
  }

  #has(scheme: Scheme): boolean {
    return this.schemes.includes(scheme)
  }

  /** The credentials for an active scheme. An API key takes precedence over the Authorization header. */
  #read({ authorization, apiKey, accessToken }: Credentials): PresentedCredentials | undefined {
    if (apiKey !== undefined && this.#has('apikey')) return this.#readKey(apiKey)
    const [, scheme = '', rest = ''] = schemeOf(authorization ?? '')
    switch (scheme.toLowerCase()) {
      case 'basic': {
        const named = this.#has('basic') ? namedIn(rest) : undefined
        return named && { scheme: 'basic', ...named }
      }
      case 'bearer': {
        const key = this.#readKey(rest)
        return this.#has('token') && !key?.principal ? { scheme: 'token', jwt: rest } : key
      }
      case 'apikey':
        return this.#readKey(rest)
      default:
        return accessToken !== undefined && this.#has('token') ? { scheme: 'token', jwt: accessToken } : undefined
    }
  }

  #readKey(key: string): PresentedKey | undefined {
    return this.#has('apikey') ? { scheme: 'apikey', principal: this.#accounts.byKey(key) } : undefined
  }

  #byToken(token: Token | undefined): Principal | undefined {
    const user = token && this.#accounts.user(token.user)
    return user && { ...user, token }
  }
}

export const BASIC_CHALLENGE = 'Basic realm="Recollect", charset="UTF-8"'

/** By scheme. An API key may be sent as a Bearer value, since some clients can send nothing else. */
const CHALLENGES: Readonly<Record<Scheme, readonly string[]>> = {
  token: ['Bearer realm="Recollect"'],
  basic: [BASIC_CHALLENGE],
  apikey: ['Bearer realm="Recollect"', 'ApiKey realm="Recollect"'],
}

interface PresentedKey {
  readonly scheme: 'apikey'
  /** Undefined if there is no such key. */
  readonly principal: Principal | undefined
}

type PresentedCredentials =
  | PresentedKey
  | ({ readonly scheme: 'basic' } & NamedCredentials)
  | { readonly scheme: 'token'; readonly jwt: string }

export interface NamedCredentials {
  readonly name: string
  readonly password: string
}

/** Splits an Authorization header into scheme and rest. */
function schemeOf(authorization: string): readonly string[] {
  return /^([A-Za-z]+) +(.*)$/s.exec(authorization) ?? []
}

/** The name and the password of an Authorization header with Basic credentials (RFC 7617); undefined for others. */
export function basicCredentials(authorization = ''): NamedCredentials | undefined {
  const [, scheme = '', rest = ''] = schemeOf(authorization)
  return scheme.toLowerCase() === 'basic' ? namedIn(rest) : undefined
}

function namedIn(encoded: string): NamedCredentials | undefined {
  if (!/^[A-Za-z\d+/]+=*$/.test(encoded)) return undefined
  const text = Buffer.from(encoded, 'base64').toString()
  const colon = text.indexOf(':')
  return colon < 0 ? undefined : { name: text.slice(0, colon), password: text.slice(colon + 1) }
}
