import { randomBytes, scryptSync } from 'node:crypto'
import type { Role } from '../../src/access/roles.ts'
import { type Reply, send } from './requests.ts'

export const ROLES = ['reader', 'writer', 'admin'] as const satisfies readonly Role[]

/** The tokens' secret of every server that is started with `authentication`. */
export const SECRET = 'the secret that tests sign with, of 32 bytes and more'

export function passwordOf(role: Role): string {
  return `${role}: pässword`
}

export function keyOf(role: Role): string {
  return `${role}-key-7f3a91`
}

/** Flags that let in a user `<role>` and an API key `<role>-key` for each role, by the named schemes alone. */
export function authentication(schemes: readonly string[], extra: readonly string[] = []): readonly string[] {
  const users = ROLES.map((role) => ({ Username: role, Password: quickHash(passwordOf(role)), Role: role }))
  const apiKeys = ROLES.map((role) => ({ Name: `${role}-key`, Key: keyOf(role), Role: role }))
  return [
    ...['--Authentication.Enabled', 'true', '--Authentication.AuthenticationType', schemes.join(',')],
    ...['--Authentication.Users', JSON.stringify(users), '--Authentication.ApiKeys', JSON.stringify(apiKeys)],
    ...['--Authentication.Token.Secret', SECRET, ...extra],
  ]
}

/** A hash that costs little to check: tests send many wrong passwords. */
function quickHash(password: string): string {
  const salt = randomBytes(16)
  const key = scryptSync(password, salt, 32, { cost: 1024 })
  return `scrypt$1024$8$1$${salt.toString('base64url')}$${key.toString('base64url')}`
}

export function basic(name: string, password: string): string {
  return `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`
}

/** Asks for a token. */
export function login(url: string, username: string, password: string): Promise<Reply> {
  const headers = { 'Content-Type': 'application/json' }
  return send(url, 'POST', '/token', { headers, body: JSON.stringify({ username, password }) })
}

export async function tokenOf(url: string, role: Role): Promise<string> {
  const reply = await login(url, role, passwordOf(role))
  return reply.json<{ access_token: string }>().access_token
}
