import { type KV, Kvm } from '@nats-io/kv'
import type { NatsConnection } from '@nats-io/transport-node'
import type { Revocation } from '../access/tokens.ts'
import { newSecret, type TokenStorage } from '../engine/token-storage.ts'
import type { Register } from './election.ts'
import { isWrongSequence } from './jetstream.ts'

const ANSWER_MS = 2000

/** State shared by the nodes of a cluster, in a NATS key-value bucket beside the stream. */
export class Bucket {
  readonly #kv: KV

  private constructor(kv: KV) {
    this.#kv = kv
  }

  static async open(nc: NatsConnection, stream: string, replicas: number): Promise<Bucket> {
    const kv = await new Kvm(nc).create(`${stream}-cluster`, {
      replicas,
      history: 1,
      timeout: ANSWER_MS,
      // Reads go to the leader of the bucket, whose value is never stale.
      allow_direct: false,
    })
    return new Bucket(kv)
  }

  register(key: string): Register {
    return {
      get: async () => {
        const entry = await this.#kv.get(key)
        return entry ? { text: entry.string(), revision: entry.revision } : undefined
      },
      put: async (text, after) => {
        try {
          return await this.#kv.put(key, text, { previousSeq: after, timeout: ANSWER_MS })
        } catch (error) {
          if (isWrongSequence(error)) return undefined
          throw error
        }
      },
    }
  }

  /** Calls back with each later value of a key until the connection ends. */
  async watch(key: string, changed: (text: string) => void): Promise<void> {
    const entries = await this.#kv.watch({ key })
    void (async () => {
      for await (const entry of entries) if (entry.operation === 'PUT') changed(entry.string())
    })()
  }
}

/** Shares the secret and the revocations with all nodes, so that a token issued or revoked by one is so for all. */
export function tokensInBucket(bucket: Bucket, now: () => Date): TokenStorage {
  const revoked = bucket.register('revoked')
  return {
    secret: async () =>
      Buffer.from(await updateRegister(bucket.register('token-secret'), (secret) => secret ?? newSecret())),
    revocations: {
      read: async () => parseRevocations((await revoked.get())?.text),
      async write(list) {
        await updateRegister(revoked, (text) => {
          const merged = new Map([...parseRevocations(text), ...list].map((one) => [one.id, one]))
          const at = now().getTime()
          return JSON.stringify([...merged.values()].filter(({ expiresAt }) => expiresAt > at))
        })
      },
      follow: (changed) => bucket.watch('revoked', (text) => changed(parseRevocations(text))),
    },
  }
}

function parseRevocations(text: string | undefined): readonly Revocation[] {
  return text === undefined ? [] : (JSON.parse(text) as readonly Revocation[])
}

/** Updates a value by compare-and-set, and retries on conflicts. */
async function updateRegister(register: Register, make: (text: string | undefined) => string): Promise<string> {
  for (;;) {
    const found = await register.get()
    const text = make(found?.text)
    if (text === found?.text || (await register.put(text, found?.revision ?? 0)) !== undefined) return text
  }
}
