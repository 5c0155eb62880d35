import { Readable } from 'node:stream'

/** A stream of text at its reader's pace. */
export class TextStream extends Readable {
  readonly #next: () => Promise<string | undefined>
  readonly #release: () => void
  #pending: Promise<unknown> = Promise.resolve()

  /** `next` makes the text that follows, undefined at the end; `release` is called once, when it makes none any more. */
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
    // What is being made may still read.
    void this.#pending.finally(this.#release)
    done(error)
  }
}
