import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { decoyOf, digest, hashPassword, isPasswordHash, verifyPassword } from './passwords.ts'
import type { Role } from './roles.ts'
import type { Token } from './tokens.ts'

export interface User {
  readonly name: string
  /** A hash; plain text is accepted with a warning. */
  readonly password: string
  readonly role: Role
}

/** Several keys may have the same name, so that a key can be replaced while the old one is still in use. */
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
  /** Identifies the user or the API key as long as its name, secret and role stay. Missing if authentication is off. */
  readonly account?: symbol
  /** Present if the client authenticated with a token, which may expire or be revoked. */
  readonly token?: Token
}

interface UserAccount {
  readonly user: User
  readonly hash: string
  readonly principal: Principal
  /** The keyed digest of the password, once it was verified: scrypt is too slow to run for each request. */
  verified?: string
}

interface KeyAccount {
  readonly apiKey: ApiKey
  readonly digest: Buffer
  readonly principal: Principal
}

/** The users and API keys. Comparisons take the same time for a wrong secret as for an unknown name. */
export class Accounts {
  readonly #users: ReadonlyMap<string, UserAccount>
  readonly #apiKeys: readonly KeyAccount[]
  /** The hash of a random password, checked for unknown names. */
  readonly #decoy: string
  readonly #valid: ReadonlySet<symbol | undefined>
  readonly #digestKey: Buffer

  private constructor(
    users: readonly UserAccount[],
    apiKeys: readonly KeyAccount[],
    decoy: string,
    digestKey: Buffer = randomBytes(32),
  ) {
    this.#digestKey = digestKey
    this.#users = new Map(users.map((account) => [account.user.name, account]))
    this.#apiKeys = apiKeys
    this.#decoy = decoy
    this.#valid = new Set([...users, ...apiKeys].map(({ principal }) => principal.account))
  }

  /** Principals of `earlier` stay valid if their user or API key is the same. */
  static async open(
    users: readonly User[],
    apiKeys: readonly ApiKey[],
    earlier = new Accounts([], [], ''),
  ): Promise<Accounts> {
    const opened = await Promise.all(users.map((user) => earlier.#sameUser(user) ?? openUser(user)))
    const keys = apiKeys.map((apiKey) => earlier.#sameKey(apiKey) ?? openKey(apiKey))
    return new Accounts(opened, keys, await decoyOf(opened.map(({ hash }) => hash)), earlier.#digestKey)
  }

  /** Whether the user or the API key of a principal is still there, unchanged. */
  has({ account }: Principal): boolean {
    return account === undefined || this.#valid.has(account)
  }

  user(name: string): Principal | undefined {
    return this.#users.get(name)?.principal
  }

  byKey(brought: string): Principal | undefined {
    const sent = digest(brought)
    let found: Principal | undefined
    for (const apiKey of this.#apiKeys) if (timingSafeEqual(apiKey.digest, sent)) found ??= apiKey.principal
    return found
  }

  /** The user of a password that was verified before. Undefined does not mean that the password is wrong. */
  byVerifiedPassword(name: string, password: string): Principal | undefined {
    const sent = this.#keyedDigest(password)
    const account = this.#users.get(name)
    return account?.verified === sent ? account.principal : undefined
  }

  async byPassword(name: string, password: string): Promise<Principal | undefined> {
    const known = this.byVerifiedPassword(name, password)
    if (known) return known
    const account = this.#users.get(name)
    const isRight = await verifyPassword(password, account?.hash ?? this.#decoy)
    if (!account || !isRight) return undefined
    account.verified = this.#keyedDigest(password)
    return account.principal
  }

  #sameUser(user: User): UserAccount | undefined {
    const account = this.#users.get(user.name)
    return account?.user.password === user.password && account.user.role === user.role ? account : undefined
  }

  #sameKey({ name, key, role }: ApiKey): KeyAccount | undefined {
    return this.#apiKeys.find(({ apiKey }) => apiKey.name === name && apiKey.key === key && apiKey.role === role)
  }

  #keyedDigest(password: string): string {
    return createHmac('sha256', this.#digestKey).update(password).digest('base64')
  }
}

async function openUser(user: User): Promise<UserAccount> {
  const hash = isPasswordHash(user.password) ? user.password : await hashPassword(user.password)
  return { user, hash, principal: principalOf(user) }
}

function openKey(apiKey: ApiKey): KeyAccount {
  return { apiKey, digest: digest(apiKey.key), principal: principalOf(apiKey) }
}

function principalOf({ name, role }: User | ApiKey): Principal {
  return { actor: name, role, account: Symbol(name) }
}
