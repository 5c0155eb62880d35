import { once } from 'node:events'
import { ReadStream } from 'node:fs'
import type { Context } from 'koa'
import { Refusal } from '../runtime/errors.ts'

/** Headers of a file that must not be sent with a problem. */
const OF_FILE = ['Last-Modified', 'Cache-Control', 'ETag']

/** Limits the number of files being sent, each of which keeps a descriptor open. */
export class FileStreams {
  readonly #most: number
  #open = 0

  constructor(most: number) {
    this.#most = most
  }

  /** Runs `serve`, which may set a file stream as body. Waits for the file, so that an error becomes a problem. */
  async run(ctx: Context, serve: () => unknown): Promise<void> {
    if (this.#open >= this.#most) {
      throw new Refusal('Unavailable', `The server is already sending ${this.#most} files; try again later.`)
    }
    this.#open++
    try {
      await serve()
      const { body } = ctx
      if (!(body instanceof ReadStream)) {
        this.#open--
        return
      }
      if (body.pending) await once(body, 'open')
      body.once('close', () => this.#open--)
    } catch (error) {
      this.#open--
      for (const name of OF_FILE) ctx.remove(name)
      throw error
    }
  }
}
