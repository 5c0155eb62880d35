import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { Semaphore } from '../runtime/semaphore.ts'
import { decoyOf, digest, hashPassword, isPasswordHash, verifyPassword } from './passwords.ts'
import type { Role } from './roles.ts'
import type { Token, Tokens } from './tokens.ts'

export const SCHEMES = ['token', 'basic', 'apikey'] as const
export type Scheme = (typeof SCHEMES)[number]

export interface User {
  readonly name: string
  /** A hash; plain text is accepted with a warning. */
  readonly password: string
  readonly role: Role
}

export interface ApiKey {
  readonly name: string
  readonly key: string
  readonly role: Role
}

/** An authenticated client. */
export interface Principal {
  /** The name that events record as `actor`. */
  readonly actor: string
  readonly role: Role
  /** Present if the client authenticated with a token, which may expire or be revoked. */
  readonly token?: Token
}

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

export interface AccessOptions {
  readonly schemes: readonly Scheme[]
  readonly users: readonly User[]
  readonly apiKeys: readonly ApiKey[]
  readonly tokens: Tokens
}

const REMEMBERED = 1000
/** Passwords checked at a time. scrypt runs in Node's pool of four threads, which also writes the journal. */
const CHECKS_AT_ONCE = 2

/** Authenticates clients. Comparisons take the same time for a wrong secret as for an unknown name. */
export class Access {
  readonly schemes: readonly Scheme[]
  readonly tokens: Tokens
  readonly #users: ReadonlyMap<string, User>
  readonly #apiKeys: readonly { readonly digest: Buffer; readonly principal: Principal }[]
  /** The hash of a random password, checked for unknown names. */
  readonly #decoy: string
  /** Keyed digests of verified passwords, since scrypt is too slow to run for each request. */
  readonly #verified = new Set<string>()
  readonly #digestKey = randomBytes(32)
  readonly #turns = new Semaphore(CHECKS_AT_ONCE)

  private constructor({ schemes, users, apiKeys, tokens }: AccessOptions, decoy: string) {
    this.schemes = schemes
    this.tokens = tokens
    this.#users = new Map(users.map((user) => [user.name, user]))
    this.#apiKeys = apiKeys.map(({ name, key, role }) => ({ digest: digest(key), principal: { actor: name, role } }))
    this.#decoy = decoy
  }

  static async open(options: AccessOptions): Promise<Access> {
    const users = await Promise.all(
      options.users.map(async (user) =>
        isPasswordHash(user.password) ? user : { ...user, password: await hashPassword(user.password) },
      ),
    )
    return new Access({ ...options, users }, await decoyOf(users.map(({ password }) => password)))
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
    switch (presented?.scheme) {
      case 'apikey':
        return this.#byKey(presented.key)
      case 'basic':
        return this.#byVerifiedPassword(presented.name, this.#digest(presented.name, presented.password))
      case 'token':
        return this.#byToken(this.tokens.verified(presented.jwt))
      default:
        return undefined
    }
  }

  /** Undefined if the credentials are wrong for every active scheme. */
  async identify(credentials: Credentials): Promise<Principal | undefined> {
    const presented = this.#read(credentials)
    switch (presented?.scheme) {
      case 'basic':
        return this.byPassword(presented.name, presented.password)
      case 'token':
        return this.#byToken(await this.tokens.verify(presented.jwt))
      default:
        return this.recognize(credentials)
    }
  }

  /** The identity that the credentials claim, whether they are right or not. */
  claimOf(credentials: Credentials): Claim {
    const { authorization = '', apiKey, accessToken } = credentials
    if (apiKey !== undefined && this.#has('apikey')) return { scheme: 'apikey' }
    const [, scheme = '', rest = ''] = schemeOf(authorization)
    if (scheme.toLowerCase() === 'basic') return this.claimOfUser(namedIn(rest)?.name)
    return { ...this.claimOfUser(this.tokens.claimedUser(scheme === '' ? (accessToken ?? '') : rest)), scheme: 'token' }
  }

  /** Unknown names are not included: a password may have been typed into the wrong field. */
  claimOfUser(name: string | undefined): Claim {
    return { scheme: 'password', ...(name !== undefined && this.#users.has(name) && { actor: name }) }
  }

  async byPassword(name: string, password: string): Promise<Principal | undefined> {
    const digest = this.#digest(name, password)
    const known = this.#byVerifiedPassword(name, digest)
    if (known) return known
    const user = this.#users.get(name)
    const isRight = await this.#turns.run(async () => {
      // Another request may have verified the same password meanwhile.
      return this.#verified.has(digest) || verifyPassword(password, user?.password ?? this.#decoy)
    })
    if (!user || !isRight) return undefined
    if (this.#verified.size >= REMEMBERED) this.#verified.clear()
    this.#verified.add(digest)
    return { actor: user.name, role: user.role }
  }

  /** Whether the token of an authenticated client is still valid. */
  isValid({ token }: Principal): boolean {
    return token === undefined || this.tokens.isValid(token)
  }

  /** One challenge for each scheme (RFC 9110 §11.6.1). */
  challenges(): readonly string[] {
    const challenge = {
      token: 'Bearer realm="Recollect"',
      basic: 'Basic realm="Recollect", charset="UTF-8"',
      apikey: 'ApiKey realm="Recollect"',
    }
    return this.schemes.map((scheme) => challenge[scheme])
  }

  #has(scheme: Scheme): boolean {
    return this.schemes.includes(scheme)
  }

  /** The credentials for an active scheme. An API key takes precedence over the Authorization header. */
  #read({ authorization, apiKey, accessToken }: Credentials): PresentedCredentials | undefined {
    if (apiKey !== undefined && this.#has('apikey')) return { scheme: 'apikey', key: apiKey }
    const [, scheme = '', rest = ''] = schemeOf(authorization ?? '')
    switch (scheme.toLowerCase()) {
      case 'basic': {
        const named = this.#has('basic') ? namedIn(rest) : undefined
        return named && { scheme: 'basic', ...named }
      }
      case 'bearer':
        return this.#has('token') ? { scheme: 'token', jwt: rest } : undefined
      default:
        return accessToken !== undefined && this.#has('token') ? { scheme: 'token', jwt: accessToken } : undefined
    }
  }

  #byKey(brought: string): Principal | undefined {
    const sent = digest(brought)
    let found: Principal | undefined
    for (const apiKey of this.#apiKeys) if (timingSafeEqual(apiKey.digest, sent)) found ??= apiKey.principal
    return found
  }

  #byVerifiedPassword(name: string, digest: string): Principal | undefined {
    const user = this.#users.get(name)
    return user && this.#verified.has(digest) ? { actor: user.name, role: user.role } : undefined
  }

  #byToken(token: Token | undefined): Principal | undefined {
    const user = token && this.#users.get(token.user)
    return user && { actor: user.name, role: user.role, token }
  }

  #digest(name: string, password: string): string {
    return createHmac('sha256', this.#digestKey)
      .update(JSON.stringify([name, password]))
      .digest('base64')
  }
}

type PresentedCredentials =
  | { readonly scheme: 'apikey'; readonly key: string }
  | { readonly scheme: 'basic'; readonly name: string; readonly password: string }
  | { readonly scheme: 'token'; readonly jwt: string }

/** Splits an Authorization header into scheme and rest. */
function schemeOf(authorization: string): readonly string[] {
  return /^([A-Za-z]+) +(.*)$/s.exec(authorization) ?? []
}

/** Decodes Basic credentials (RFC 7617). */
function namedIn(encoded: string): { readonly name: string; readonly password: string } | undefined {
  if (!/^[A-Za-z\d+/]+=*$/.test(encoded)) return undefined
  const text = Buffer.from(encoded, 'base64').toString()
  const colon = text.indexOf(':')
  return colon < 0 ? undefined : { name: text.slice(0, colon), password: text.slice(colon + 1) }
}
