/** Held by a decision that takes several turns of the event loop: until then, the accepted state does not change. */
export class DecisionLock {
  #held: { readonly holder: string; readonly released: Promise<void> } | undefined

  /** The name of the decision that holds the lock, such as `CreateItems`; undefined while it is free. */
  get holder(): string | undefined {
    return this.#held?.holder
  }

  /** Resolves when the holder releases the lock, which another one may hold by then; undefined while it is free. */
  get released(): Promise<void> | undefined {
    return this.#held?.released
  }

  /** `work` may release the lock before its end. */
  async hold<Result>(holder: string, work: (release: () => void) => Promise<Result>): Promise<Result> {
    while (this.#held) await this.#held.released
    let resolve = (): void => {}
    const released = new Promise<void>((resolved) => {
      resolve = resolved
    })
    const held = { holder, released }
    const release = (): void => {
      if (this.#held === held) this.#held = undefined
      resolve()
    }
    this.#held = held
    try {
      return await work(release)
    } finally {
      release()
    }
  }
}
