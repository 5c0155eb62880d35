/** Counts the sockets, streams or connections that each address holds open. */
export class PerAddress {
  /** The limit for one address. */
  readonly most: number
  readonly #held = new Map<string, number>()

  constructor(most: number) {
    this.most = most
  }

  isFull(address: string): boolean {
    return (this.#held.get(address) ?? 0) >= this.most
  }

  /** Counts one more; the returned function ends it. */
  enter(address: string): () => void {
    this.#held.set(address, (this.#held.get(address) ?? 0) + 1)
    return () => {
      const held = (this.#held.get(address) ?? 1) - 1
      if (held > 0) this.#held.set(address, held)
      else this.#held.delete(address)
    }
  }
}
