import { Access } from '../access/access.ts'
import { TrustedProxies } from '../access/addresses.ts'
import { Failures, Gate } from '../access/gate.ts'
import { Hosts, Origins } from '../access/origins.ts'
import { isPasswordHash } from '../access/passwords.ts'
import type { Tokens } from '../access/tokens.ts'
import type { EngineDependencies } from '../engine/dependencies.ts'
import type { TokenStorage } from '../engine/token-storage.ts'
import { type LimitedLog, TEN_IN_TEN_SECONDS } from '../runtime/limited-log.ts'
import type { Settings } from '../settings/settings.ts'
import { type Address, isPublic } from '../settings/urls.ts'

/** Minimum length of an API key that cannot be guessed. */
const KEY_BYTES = 16

/** The clocks are for the expiry of tokens and for lock-outs. */
export async function openGate(
  settings: Settings,
  storage: TokenStorage,
  { now, elapsedMs, log }: Pick<EngineDependencies, 'now' | 'elapsedMs'> & { readonly log: LimitedLog },
): Promise<Gate> {
  const { authentication, cors, limits } = settings
  const { enabled, schemes, users, apiKeys, token } = authentication
  const tokens = async (): Promise<Tokens> => {
    const secret = token.secret === undefined ? await storage.secret() : Buffer.from(token.secret)
    const { Tokens } = await import('../access/tokens.ts')
    return Tokens.open(secret, token.expiresInSeconds, now, storage.revocations)
  }
  return new Gate({
    access: enabled ? await Access.open({ schemes, users, apiKeys, tokens: await tokens() }) : undefined,
    failures: new Failures(limits.failuresPerMinute, elapsedMs),
    proxies: new TrustedProxies(limits.trustedProxies),
    origins: new Origins(cors.origins),
    hosts: hostsOf(settings),
    failed: (address, claim) => log.warn({ address, ...claim }, 'a login failed', TEN_IN_TEN_SECONDS),
  })
}

/**
 * Without authentication, Host names protect against DNS rebinding. Names of public addresses are unknown unless
 * `Http.Hosts` lists them.
 */
function hostsOf({ authentication, http: { hosts }, urls }: Settings): Hosts {
  if (authentication.enabled || (hosts.length === 0 && urls.some(isPublic))) return new Hosts(undefined)
  return new Hosts([...hosts, ...urls.flatMap(hostHeadersOf)])
}

/** In the syntax of a Host header. */
function hostHeadersOf({ host }: Address): readonly string[] {
  return host === undefined ? [] : [host.includes(':') ? `[${host}]` : host]
}

/** Warnings about settings, for the operator. */
export function warningsOf({ authentication, urls, warnings }: Settings, isReadOnly = false): readonly string[] {
  if (!authentication.enabled) {
    const actions = isReadOnly ? 'read' : 'read and change'
    const open = `Authentication is off on an address that others can reach: everybody there may ${actions} everything.`
    return urls.some(isPublic) ? [...warnings, open] : warnings
  }
  const plain = authentication.users.filter(({ password }) => !isPasswordHash(password))
  const short = authentication.apiKeys.filter(({ key }) => Buffer.byteLength(key) < KEY_BYTES)
  return [
    ...warnings,
    ...plain.map(
      ({ name }) =>
        `The password of ${name} stands in the settings in plain text; recollect hash-password makes a hash of it.`,
    ),
    ...short.map(
      ({ name }) =>
        `The API key of ${name} has less than ${KEY_BYTES} bytes: wrong keys lock nobody out, so it can be guessed. openssl rand -base64 32 makes one.`,
    ),
  ]
}
