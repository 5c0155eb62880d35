import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import { Access } from '../access/access.ts'
import { TrustedProxies } from '../access/addresses.ts'
import { FailureLog } from '../access/failure-log.ts'
import { Failures } from '../access/failures.ts'
import { Gate } from '../access/gate.ts'
import { Hosts } from '../access/hosts.ts'
import { Origins } from '../access/origins.ts'
import { isPasswordHash } from '../access/passwords.ts'
import type { Revocation, RevocationStore, Tokens } from '../access/tokens.ts'
import { type Files, isOutOfSpace, replace } from '../files/files.ts'
import { Corruption, Refusal } from '../runtime/errors.ts'
import type { Settings } from '../settings/settings.ts'
import { type Address, isPublic } from '../settings/urls.ts'

const SECRET_BYTES = 32
/** Minimum length of an API key that cannot be guessed. */
const KEY_BYTES = 16

/** Persistent data of tokens. */
export interface TokenStorage {
  /** Created if missing. */
  readonly secret: () => Promise<Uint8Array>
  readonly revocations: RevocationStore
}

/**
 * Stores the tokens' secret and revocations in the journal's directory. A guest (a replay) reads them, but keeps its
 * own in memory only.
 */
export function tokensInDirectory(files: Files, directory: string, isGuest: boolean): TokenStorage {
  const store = revocations(files, `${directory}/revoked.json`)
  return {
    secret: () => keptSecret(files, `${directory}/token.secret`, isGuest),
    revocations: isGuest ? { ...store, write: async () => {} } : store,
  }
}

export interface GateDependencies {
  /** For the expiry of tokens. */
  readonly now: () => Date
  /** For lock-outs; monotonic. */
  readonly elapsedMs: () => number
  readonly log: Logger
}

/** Creates the gate from the settings. */
export async function openGate(
  settings: Settings,
  keeping: TokenStorage,
  { now, elapsedMs, log }: GateDependencies,
): Promise<Gate> {
  const { authentication, cors, limits } = settings
  const { enabled, schemes, users, apiKeys, token } = authentication
  const tokens = async (): Promise<Tokens> => {
    const secret = token.secret === undefined ? await keeping.secret() : Buffer.from(token.secret)
    const { Tokens } = await import('../access/tokens.ts')
    return Tokens.open(secret, token.expiresInSeconds, now, keeping.revocations)
  }
  const failureLog = new FailureLog(log, elapsedMs)
  return new Gate({
    access: enabled ? await Access.open({ schemes, users, apiKeys, tokens: await tokens() }) : undefined,
    failures: new Failures(limits.failuresPerMinute, elapsedMs),
    proxies: new TrustedProxies(limits.trustedProxies),
    origins: new Origins(cors.origins),
    hosts: hostsOf(settings),
    failed: (address, claim) => failureLog.add(address, claim),
  })
}

/**
 * Without authentication, Host names protect against DNS rebinding. Names of public addresses are unknown unless
 * `Http.Hosts` lists them.
 */
function hostsOf({ authentication, hosts, urls }: Settings): Hosts {
  if (authentication.enabled || (hosts.length === 0 && urls.some(isPublic))) return new Hosts(undefined)
  return new Hosts([...hosts, ...urls.flatMap(nameOf)])
}

/** In the syntax of a Host header. */
function nameOf({ host }: Address): readonly string[] {
  return host === undefined ? [] : [host.includes(':') ? `[${host}]` : host]
}

/** Warnings for the operator about insecure settings. */
export function warningsOf({ authentication, urls }: Settings, isReadOnly = false): readonly string[] {
  const warnings: string[] = []
  if (!authentication.enabled && urls.some(isPublic)) {
    warnings.push(
      `Authentication is off on an address that others can reach: everybody there may read${isReadOnly ? '' : ' and change'} everything.`,
    )
  }
  for (const { name, password } of authentication.enabled ? authentication.users : []) {
    if (isPasswordHash(password)) continue
    warnings.push(
      `The password of ${name} stands in the settings in plain text; recollect hash-password makes a hash of it.`,
    )
  }
  for (const { name, key } of authentication.enabled ? authentication.apiKeys : []) {
    if (Buffer.byteLength(key) >= KEY_BYTES) continue
    warnings.push(
      `The API key of ${name} has less than ${KEY_BYTES} bytes: wrong keys lock nobody out, so it can be guessed. openssl rand -base64 32 makes one.`,
    )
  }
  return warnings
}

async function keptSecret(files: Files, path: string, isGuest: boolean): Promise<Uint8Array> {
  const kept = await files.read(path)
  if (kept && kept.length >= SECRET_BYTES) return kept
  if (kept)
    throw new Corruption(`${path} is too short for a secret. Remove it to have a new one made; all tokens end then.`)
  const secret = Buffer.from(randomBytes(SECRET_BYTES).toString('base64url'))
  if (!isGuest) await replace(files, path, secret)
  return secret
}

/** Undefined unless the list is complete: losing an entry would make a token valid again. */
function parseRevocations(text: string): readonly Revocation[] | undefined {
  try {
    const list = JSON.parse(text) as unknown
    const isRight = (one: unknown): boolean => {
      const { id, expiresAt } = Object(one) as Partial<Revocation>
      return typeof id === 'string' && typeof expiresAt === 'number'
    }
    return Array.isArray(list) && list.every(isRight) ? list : undefined
  } catch {
    return undefined
  }
}

function revocations(files: Files, path: string): RevocationStore {
  return {
    async read() {
      const bytes = await files.read(path)
      if (!bytes) return []
      const list = parseRevocations(bytes.toString())
      if (list) return list
      throw new Corruption(
        `${path} is damaged: it is not known any more which tokens were revoked. Remove it and ${path.replace(/revoked\.json$/, 'token.secret')} to end all tokens.`,
      )
    },
    async write(list) {
      try {
        await replace(files, path, Buffer.from(`${JSON.stringify(list)}\n`))
      } catch (error) {
        if (!isOutOfSpace(error)) throw error
        throw new Refusal(
          'DiskFull',
          'The disk is full: the token has ended, but could not be noted to stay so after a restart.',
        )
      }
    },
  }
}
