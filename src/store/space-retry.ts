import { isOutOfSpace } from '../files/files.ts'

/** Delay before the next attempt. */
const FULL_MS = 500

/** Repeats work that fails because the disk is full. */
export class SpaceRetry {
  #isFull = false
  #isEnded = false

  /** Whether work waits for space. */
  get isFull(): boolean {
    return this.#isFull
  }

  get isEnded(): boolean {
    return this.#isEnded
  }

  /**
   * Runs work until there is space for it; returns false if that was given up by `end`.
   * @param hasFailed The first attempt was made before and has failed.
   */
  async run(work: () => void | Promise<void>, hasFailed = false): Promise<boolean> {
    for (let isAgain = hasFailed; ; isAgain = true) {
      if (isAgain) {
        this.#isFull = true
        await new Promise<void>((resolve) => setTimeout(resolve, FULL_MS))
        if (this.#isEnded) return false
      }
      try {
        await work()
        this.#isFull = false
        return true
      } catch (error) {
        if (!isOutOfSpace(error)) throw error
      }
    }
  }

  /** Stops repeating work. */
  end(): void {
    this.#isEnded = true
  }
}
