import { type KV, Kvm } from '@nats-io/kv'
import type { NatsConnection } from '@nats-io/transport-node'
import { isWrongSequence } from './connection.ts'
import type { Register } from './election.ts'

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
