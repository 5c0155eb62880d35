import type { Revocation } from '../access/tokens.ts'
import { newSecret, type TokenStorage } from '../engine/token-storage.ts'
import type { Bucket } from './connection.ts'
import type { Register } from './election.ts'

/** Shares the secret and the revocations with all nodes, so that a token issued or revoked by one is so for all. */
export function tokensInBucket(bucket: Bucket, now: () => Date): TokenStorage {
  const revoked = bucket.register('revoked')
  return {
    secret: async () => Buffer.from(await change(bucket.register('token-secret'), (secret) => secret ?? newSecret())),
    revocations: {
      read: async () => parse((await revoked.get())?.text),
      async write(list) {
        await change(revoked, (text) => {
          const merged = new Map([...parse(text), ...list].map((one) => [one.id, one]))
          const at = now().getTime()
          return JSON.stringify([...merged.values()].filter(({ expiresAt }) => expiresAt > at))
        })
      },
      follow: (changed) => bucket.watch('revoked', (text) => changed(parse(text))),
    },
  }
}

function parse(text: string | undefined): readonly Revocation[] {
  return text === undefined ? [] : (JSON.parse(text) as readonly Revocation[])
}

/** Updates a value by compare-and-set, and retries on conflicts. */
async function change(register: Register, make: (text: string | undefined) => string): Promise<string> {
  for (;;) {
    const found = await register.get()
    const text = make(found?.text)
    if (text === found?.text || (await register.put(text, found?.revision ?? 0)) !== undefined) return text
  }
}
