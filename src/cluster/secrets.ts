import type { Bucket } from './bucket.ts'
import type { Register } from './election.ts'

export interface Revocation {
  readonly id: string
  readonly expiresAt: number
}

/** What all nodes must know of tokens, so that a token of one is good, and ended, at every other one. */
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

/** Writes what is made of the text in place, however many others do so at once. */
async function change(register: Register, make: (text: string | undefined) => string): Promise<string> {
  for (;;) {
    const found = await register.get()
    const text = make(found?.text)
    if (text === found?.text || (await register.put(text, found?.revision ?? 0)) !== undefined) return text
  }
}
