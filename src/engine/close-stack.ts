/** Resources to be released, the last one first. */
export class CloseStack {
  readonly #all: (() => Promise<unknown>)[] = []

  add(close: () => Promise<unknown>): void {
    this.#all.push(close)
  }

  /** Releases all, also after an error, and rejects with the first one. A second call does nothing. */
  async close(): Promise<void> {
    const errors: unknown[] = []
    for (let close = this.#all.pop(); close; close = this.#all.pop()) {
      await close().catch((error: unknown) => void errors.push(error))
    }
    if (errors.length > 0) throw errors[0]
  }
}
