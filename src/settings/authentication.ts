import { SCHEMES, type Scheme } from '../access/access.ts'
import type { ApiKey, User } from '../access/accounts.ts'
import { isPasswordHash, looksLikeHash } from '../access/passwords.ts'
import { ROLES, type Role } from '../access/roles.ts'
import type { JsonObject, JsonValue } from '../json/value.ts'
import type { SettingValues } from './values.ts'

export interface AuthenticationSettings {
  readonly enabled: boolean
  readonly schemes: readonly Scheme[]
  readonly users: readonly User[]
  readonly apiKeys: readonly ApiKey[]
  readonly token: { readonly secret: string | undefined; readonly expiresInSeconds: number }
}

const SECRET_BYTES = 32
/** Actor names with a meaning of their own. */
const RESERVED = ['anonymous', 'data-file']

/** Checks that the authentication settings are consistent. Messages never contain secrets. */
export function readAuthentication(values: SettingValues, mistakes: string[]): AuthenticationSettings {
  const enabled = values.get('Authentication.Enabled')
  const types = values.get('Authentication.AuthenticationType')
  const schemes = types.flatMap((type) => SCHEMES.find((scheme) => scheme === type.toLowerCase()) ?? [])
  if (schemes.length < types.length || schemes.length === 0) {
    mistakes.push(
      `Authentication.AuthenticationType must be one or more of ${SCHEMES.join(', ')}, not ${types.join(', ')}.`,
    )
  }
  const users = values.get('Authentication.Users').map((entry, index): User => {
    const { name, secret, role } = parseEntry(entry, `Authentication.Users[${index}]`, 'Username', 'Password', mistakes)
    if (looksLikeHash(secret) && !isPasswordHash(secret)) {
      mistakes.push(`Authentication.Users[${index}].Password is not a valid hash, or its cost is too high.`)
    }
    return { name, password: secret, role }
  })
  const apiKeys = values.get('Authentication.ApiKeys').map((entry, index): ApiKey => {
    const { name, secret, role } = parseEntry(entry, `Authentication.ApiKeys[${index}]`, 'Name', 'Key', mistakes)
    return { name, key: secret, role }
  })
  const key = values.get('Authentication.ApiKey')
  if (key !== undefined) apiKeys.push({ name: 'apikey', key, role: 'admin' })
  for (const [what, names] of [
    ['Users', users.map(({ name }) => name)],
    ['ApiKeys', apiKeys.map(({ name }) => name)],
  ] as const) {
    for (const name of names.filter((one) => RESERVED.includes(one))) {
      mistakes.push(`Authentication.${what}: the name ${JSON.stringify(name)} is a reserved one.`)
    }
  }
  for (const { name } of users.filter((one, index) => users.findIndex(({ name }) => name === one.name) < index)) {
    mistakes.push(`Authentication.Users: the name ${JSON.stringify(name)} is used twice.`)
  }
  for (const { name } of apiKeys.filter((one, index) => apiKeys.findIndex(({ key }) => key === one.key) < index)) {
    mistakes.push(`Authentication.ApiKeys: the key of ${JSON.stringify(name)} is given twice.`)
  }
  const secret = values.get('Authentication.Token.Secret')
  if (secret !== undefined && Buffer.byteLength(secret) < SECRET_BYTES) {
    mistakes.push(`Authentication.Token.Secret must have at least ${SECRET_BYTES} bytes.`)
  }
  checkAccounts({ enabled, schemes, users, apiKeys }, mistakes)
  const token = { secret, expiresInSeconds: values.get('Authentication.Token.ExpiresInSeconds') }
  return { enabled, schemes: [...new Set(schemes)], users, apiKeys, token }
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

function parseEntry(
  entry: JsonValue,
  where: string,
  nameKey: string,
  secretKey: string,
  mistakes: string[],
): { name: string; secret: string; role: Role } {
  const { [nameKey]: name, [secretKey]: secret, Role: role = 'admin', ...others } = entry as JsonObject
  for (const [key, value] of [
    [nameKey, name],
    [secretKey, secret],
  ]) {
    if (value === '') mistakes.push(`${where}.${key} must be text, and it is empty.`)
    else if (typeof value !== 'string') mistakes.push(`${where}.${key} must be text.`)
  }
  const found = ROLES.find((one) => one === role)
  if (!found) mistakes.push(`${where}.Role must be one of ${ROLES.join(', ')}.`)
  const [other] = Object.keys(others)
  if (other !== undefined)
    mistakes.push(`${where} has an unknown key ${other}; there are ${nameKey}, ${secretKey}, Role.`)
  return { name: String(name), secret: String(secret), role: found ?? 'reader' }
}
