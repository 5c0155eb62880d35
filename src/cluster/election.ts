/** A value that several nodes write, each only in place of the one that it has seen. */
export interface Register {
  /** Undefined when nothing was ever written. Throws when nobody answers. */
  get(): Promise<{ readonly text: string; readonly revision: number } | undefined>
  /** The new revision; undefined when the one in place is not `after` (0: nothing). Throws when nobody knows. */
  put(text: string, after: number): Promise<number | undefined>
}

/** What is written: who decides. */
interface Lease {
  readonly node: string
  /** It ended well: nobody needs to wait. */
  readonly released?: true
}

export interface ElectionOptions {
  readonly register: Register
  /** This process, and no other one. */
  readonly node: string
  /** Milliseconds of a clock that nobody sets. */
  readonly elapsedMs: () => number
}

/**
 * A lease that was not renewed for so long, as seen by somebody who looked all the while, is taken over. No clocks are
 * compared: each side measures a duration of its own, and whose clock runs a fifth too slow or too fast is still right.
 */
export const TAKEN_OVER_AFTER_MS = 5000
/** What rounds that are late, and the taking over itself, may add to that. */
const ROUNDS_MS = 2000
/** How long a renewal is relied on, from the moment when it was sent. */
const RELIED_ON_MS = 4000

/** Elects one of the nodes by a lease in a register that all of them see. `round` is to be called every second. */
export class Election {
  readonly #options: ElectionOptions
  /** Of this node's own lease, while it is not known to be another one's. */
  #revision: number | undefined
  #reliedOnUntil = 0
  #seen: { readonly revision: number; readonly since: number; readonly lease: Lease } | undefined

  constructor(options: ElectionOptions) {
    this.#options = options
  }

  /** Who decides, as far as this node knows; undefined when nobody does, or it is about to be another one. */
  get decider(): string | undefined {
    if (this.#revision !== undefined) return this.#options.node
    return this.#seen && !this.#seen.lease.released ? this.#seen.lease.node : undefined
  }

  /** The lease is this node's, and no other node can have got it since. */
  get isHeld(): boolean {
    return this.#revision !== undefined && this.#options.elapsedMs() < this.#reliedOnUntil
  }

  /** Another node's lease was seen to be renewed lately. */
  get isFresh(): boolean {
    return this.#seen !== undefined && this.#options.elapsedMs() - this.#seen.since < TAKEN_OVER_AFTER_MS + ROUNDS_MS
  }

  /**
   * Renews the lease, or sees whether it can be had; without `canDecide` it is another node's. Throws when the register does
   * not answer.
   */
  async round(canDecide = true): Promise<void> {
    const { register, node, elapsedMs } = this.#options
    if (!canDecide) await this.release()
    if (this.#revision !== undefined) {
      if (await this.#take(this.#revision)) return
      // It may be this node's all the same: a renewal whose answer was not heard.
    }
    const found = await register.get()
    const lease = found && (JSON.parse(found.text) as Lease)
    if (!found || !lease) {
      if (canDecide) await this.#take(0)
      return
    }
    if (this.#revision !== undefined && lease.node === node && !lease.released) {
      this.#revision = found.revision
      await this.#take(found.revision)
      return
    }
    this.#revision = undefined
    if (found.revision !== this.#seen?.revision) {
      this.#seen = { revision: found.revision, since: elapsedMs(), lease }
    }
    const isFree = lease.released || elapsedMs() - this.#seen.since >= TAKEN_OVER_AFTER_MS
    if (canDecide && isFree) await this.#take(found.revision)
  }

  /** Lets another node decide at once. */
  async release(): Promise<void> {
    const revision = this.#revision
    this.#revision = undefined
    this.#reliedOnUntil = 0
    if (revision === undefined) return
    const lease: Lease = { node: this.#options.node, released: true }
    await this.#options.register.put(JSON.stringify(lease), revision)
  }

  async #take(after: number): Promise<boolean> {
    const { register, node, elapsedMs } = this.#options
    const sentAt = elapsedMs()
    const lease: Lease = { node }
    const revision = await register.put(JSON.stringify(lease), after)
    if (revision === undefined) return false
    this.#revision = revision
    this.#reliedOnUntil = sentAt + RELIED_ON_MS
    return true
  }
}
