import type { Bucket } from './bucket.ts'
import type { Register } from './election.ts'

export interface Revocation {
  readonly id: string
  readonly expiresAt: number
}

/**
 * The secret and the revocations of tokens, shared by all nodes, so that a token issued or revoked by one is so for
 * all.
 */
export function tokensIn(bucket: Bucket, newSecret: () => string, now: () => Date) {
  const revoked = bucket.register('revoked')
  return {
    secret: async (): Promise<Uint8Array> =>
      Buffer.from(await change(bucket.register('token-secret'), (secret) => secret ?? newSecret())),
    revocations: {
      read: async (): Promise<readonly Revocation[]> => parse((await revoked.get())?.text),
      write: async (list: readonly Revocation[]): Promise<void> => {
        await change(revoked, (text) => {
          const merged = new Map([...parse(text), ...list].map((one) => [one.id, one]))
          const at = now().getTime()
          return JSON.stringify([...merged.values()].filter(({ expiresAt }) => expiresAt > at))
        })
      },
      follow: (changed: (list: readonly Revocation[]) => void): Promise<void> =>
        bucket.watch('revoked', (text) => changed(parse(text))),
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
