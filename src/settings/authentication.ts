import { SCHEMES, type Scheme } from '../access/access.ts'
import type { ApiKey, User } from '../access/accounts.ts'
import { isPasswordHash, looksLikeHash } from '../access/passwords.ts'
import { ROLES, type Role } from '../access/roles.ts'
import type { Schema } from './schema.ts'

export interface AuthenticationSettings {
  readonly enabled: boolean
  readonly schemes: readonly Scheme[]
  readonly users: readonly User[]
  readonly apiKeys: readonly ApiKey[]
  readonly token: { readonly secret: string | undefined; readonly expiresInSeconds: number }
}

/** Checks that names and keys are unique. Messages never contain secrets. */
export function checkUnique({ users, apiKeys }: AuthenticationSettings, mistakes: string[]): void {
  for (const { name } of users.filter((one, index) => users.findIndex(({ name }) => name === one.name) < index)) {
    mistakes.push(`Authentication.Users: the name ${JSON.stringify(name)} is used twice.`)
  }
  for (const { name } of apiKeys.filter((one, index) => apiKeys.findIndex(({ key }) => key === one.key) < index)) {
    mistakes.push(`Authentication.ApiKeys: the key of ${JSON.stringify(name)} is given twice.`)
  }
}

/** Checks that each active scheme has users or keys. */
export function checkAccounts(
  { enabled, schemes, users, apiKeys }: Omit<AuthenticationSettings, 'token'>,
  mistakes: string[],
): void {
  if (!enabled) return
  if (schemes.some((scheme) => scheme !== 'apikey') && users.length === 0) {
    mistakes.push('Authentication.Users is needed for the schemes token and basic.')
  }
  if (schemes.includes('apikey') && apiKeys.length === 0) {
    mistakes.push('Authentication.ApiKey or Authentication.ApiKeys is needed for the scheme apikey.')
  }
}

export const USERS = {
  items: accountSchema('Username', 'Password', (password) =>
    looksLikeHash(password) && !isPasswordHash(password) ? ['is not a valid hash, or its cost is too high'] : [],
  ),
  read: (users: readonly { readonly Username: string; readonly Password: string; readonly Role?: Role }[]) =>
    users.map(({ Username: name, Password: password, Role: role = 'admin' }): User => ({ name, password, role })),
}

export const API_KEYS = {
  items: accountSchema('Name', 'Key', () => []),
  read: (keys: readonly { readonly Name: string; readonly Key: string; readonly Role?: Role }[]) =>
    keys.map(({ Name: name, Key: key, Role: role = 'admin' }): ApiKey => ({ name, key, role })),
}

/** Messages contain no value of an account, as a secret may be in a wrong place. */
function accountSchema(name: string, secret: string, mistakes: (secret: string) => readonly string[]): Schema {
  const isSecret = true
  const expects = 'text, and neither empty nor anonymous nor data-file nor retention, which are actors of their own'
  return {
    type: 'object',
    properties: {
      [name]: { type: 'string', pattern: '^(?!(?:anonymous|data-file|retention)$).', expects, isSecret },
      [secret]: { type: 'string', minLength: 1, expects: 'text, and not empty', isSecret, mistakes },
      Role: { enum: ROLES, isSecret },
    },
    required: [name, secret],
    additionalProperties: false,
    isSecret,
  }
}

/** Schemes are named in any case. */
export const SCHEME_NAMES = {
  mistakes: (types: readonly string[]) => {
    const areKnown = types.every((type) => SCHEMES.some((scheme) => scheme === type.toLowerCase()))
    return areKnown && types.length > 0 ? [] : [`must be one or more of ${SCHEMES.join(', ')}, not ${types.join(', ')}`]
  },
}

const SECRET_BYTES = 32

export const TOKEN_SECRET = {
  mistakes: (secret: string) =>
    Buffer.byteLength(secret) < SECRET_BYTES ? [`must have at least ${SECRET_BYTES} bytes`] : [],
}
