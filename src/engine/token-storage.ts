import { randomBytes } from 'node:crypto'
import { Low } from 'lowdb'
import type { Revocation, RevocationStore } from '../access/tokens.ts'
import { type Files, isOutOfSpace, JsonFile, replace } from '../files/files.ts'
import { Corruption, Refusal } from '../runtime/errors.ts'

const SECRET_BYTES = 32

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
  const store = revocationsIn(files, `${directory}/revoked.json`)
  return {
    secret: () => secretIn(files, `${directory}/token.secret`, isGuest),
    revocations: isGuest ? { ...store, write: async () => {} } : store,
  }
}

export function newSecret(): string {
  return randomBytes(SECRET_BYTES).toString('base64url')
}

async function secretIn(files: Files, path: string, isGuest: boolean): Promise<Uint8Array> {
  const stored = await files.read(path)
  if (stored && stored.length >= SECRET_BYTES) return stored
  if (stored)
    throw new Corruption(`${path} is too short for a secret. Remove it to have a new one made; all tokens end then.`)
  const secret = Buffer.from(newSecret())
  if (!isGuest) await replace(files, path, secret)
  return secret
}

function revocationsIn(files: Files, path: string): RevocationStore {
  const low = new Low<readonly Revocation[]>(new JsonFile(files, path), [])
  return {
    async read() {
      await low.read().catch((error: unknown) => {
        throw error instanceof SyntaxError ? damaged(path) : error
      })
      if (!areRevocations(low.data)) throw damaged(path)
      return low.data
    },
    async write(list) {
      low.data = list
      try {
        await low.write()
      } catch (error) {
        if (!isOutOfSpace(error)) throw error
        throw new Refusal(
          'DiskFull',
          'The disk is full: the token has ended, but could not be noted to stay so after a restart.',
          [],
          { cause: error },
        )
      }
    },
  }
}

function damaged(path: string): Corruption {
  return new Corruption(
    `${path} is damaged: it is not known any more which tokens were revoked. Remove it and ${path.replace(/revoked\.json$/, 'token.secret')} to end all tokens.`,
  )
}

/** Whether the list is complete: losing an entry would make a token valid again. */
function areRevocations(list: unknown): boolean {
  const isRevocation = (one: unknown): boolean => {
    const { id, expiresAt } = Object(one) as Partial<Revocation>
    return typeof id === 'string' && typeof expiresAt === 'number'
  }
  return Array.isArray(list) && list.every(isRevocation)
}
