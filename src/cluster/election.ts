/**
 * The election of a leader by a lease in a register that all nodes share.
 *
 * | The lease | A round of the election |
 * |---|---|
 * | of this node | renews it; if another revision is found, reads the lease, and renews it if it is still that of this node |
 * | of another node, which renews it | notes when its revision changed |
 * | of another node, not renewed for `TAKEOVER_AFTER_MS` | takes it over |
 * | released, or never written | takes it |
 *
 * A node that cannot lead releases its lease, and takes none.
 */

/** A value that several nodes update by compare-and-set. */
export interface Register {
  /** Undefined if nothing was ever written. Throws if there is no response. */
  get(): Promise<{ readonly text: string; readonly revision: number } | undefined>
  /**
   * Writes if the current revision is `after` (0: none), and returns the new revision; undefined if it is another.
   * Throws if the outcome is unknown.
   */
  put(text: string, after: number): Promise<number | undefined>
}

/** The stored value: who leads. */
interface Lease {
  readonly node: string
  /** The leader has released the lease: others need not wait. */
  readonly released?: true
}

interface ElectionOptions {
  readonly register: Register
  /** Unique to this process. */
  readonly node: string
  readonly elapsedMs: () => number
}

/**
 * A node takes over a lease that it has not seen renewed for this long. Clocks are never compared: each node measures a
 * duration of its own, and a clock may run a quarter faster than the leader's.
 */
export const TAKEOVER_AFTER_MS = 5000
/** Allowance for late rounds and for the takeover itself. */
const ROUNDS_MS = 2000
/** How long the leader relies on a renewal, from the moment it was sent. */
const RELIED_ON_MS = 4000

/** Elects a leader by a lease in a shared register. Call `round` every second. */
export class Election {
  readonly #options: ElectionOptions
  /** Revision of this node's own lease, unless it is known to be replaced. */
  #revision: number | undefined
  #reliedOnUntil = 0
  #seen: { readonly revision: number; readonly since: number; readonly lease: Lease } | undefined

  constructor(options: ElectionOptions) {
    this.#options = options
  }

  /** The leader, as far as this node knows; undefined if there is none, or it is about to change. */
  get leader(): string | undefined {
    if (this.#revision !== undefined) return this.#options.node
    return this.#seen && !this.#seen.lease.released ? this.#seen.lease.node : undefined
  }

  /** This node holds the lease, and no other node can have taken it over. */
  get isHeld(): boolean {
    return this.#revision !== undefined && this.#options.elapsedMs() < this.#reliedOnUntil
  }

  /** Another node's lease was renewed recently. */
  get isFresh(): boolean {
    return this.#seen !== undefined && this.#options.elapsedMs() - this.#seen.since < TAKEOVER_AFTER_MS + ROUNDS_MS
  }

  /** Renews the lease or tries to get it, unless `canLead` is false. Throws if the register does not respond. */
  async round(canLead = true): Promise<void> {
    const { register, node, elapsedMs } = this.#options
    if (!canLead) await this.release()
    if (this.#revision !== undefined) {
      if (await this.#take(this.#revision)) return
      // The lease may still be this node's: the response to a renewal may have been lost.
    }
    const found = await register.get()
    const lease = found && (JSON.parse(found.text) as Lease)
    if (!found || !lease) {
      if (canLead) await this.#take(0)
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
    const isFree = lease.released || elapsedMs() - this.#seen.since >= TAKEOVER_AFTER_MS
    if (canLead && isFree) await this.#take(found.revision)
  }

  /** Releases the lease, so that another node can take it at once. */
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
