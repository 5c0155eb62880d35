import { once } from 'node:events'
import { ReadStream } from 'node:fs'
import type { Context } from 'koa'
import { Refusal } from '../errors.ts'

/** Headers of a file, which are none of the problem that is sent instead. */
const OF_FILE = ['Last-Modified', 'Cache-Control', 'ETag']

/** Limits the files that are being sent: each one keeps a descriptor open until its client has read it. */
export class FileStreams {
  readonly #most: number
  #open = 0

  constructor(most: number) {
    this.#most = most
  }

  /** Runs what may make a stream of a file the response's body. Waits until the file is open, as a problem can still be sent. */
  async run(ctx: Context, serve: () => unknown): Promise<void> {
    if (this.#open >= this.#most) {
      throw new Refusal('Unavailable', `The server is sending ${this.#most} files, and sends no more for now.`)
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
