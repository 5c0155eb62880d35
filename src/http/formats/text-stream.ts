import { Readable } from 'node:stream'

/** A stream of text that is created as fast as the client reads. */
export class TextStream extends Readable {
  readonly #next: () => Promise<string | undefined>
  readonly #release: () => void
  #pending: Promise<unknown> = Promise.resolve()

  /** `next` returns the next part, or undefined at the end. `release` is called once, after the last `next`. */
  constructor(next: () => Promise<string | undefined>, release: () => void) {
    super({ highWaterMark: 1 })
    this.#next = next
    this.#release = release
  }

  override _read(): void {
    const made = this.#next()
    this.#pending = made.then(
      (text) => {
        this.push(text === undefined ? null : text)
      },
      (error) => {
        this.destroy(error as Error)
      },
    )
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    // A part in progress may still read.
    void this.#pending.finally(this.#release)
    done(error)
  }
}
