import type { Adapter } from 'lowdb'
import { type Files, replace } from './files.ts'

/** A small JSON document for lowdb, whose own adapter does not sync. */
export class JsonFile<Content> implements Adapter<Content> {
  readonly #files: Files
  readonly #path: string

  constructor(files: Files, path: string) {
    this.#files = files
    this.#path = path
  }

  /**
   * Null if the file does not exist.
   * @throws {SyntaxError} when it holds no JSON object or array; otherwise the content is not checked.
   */
  async read(): Promise<Content | null> {
    const bytes = await this.#files.read(this.#path)
    if (!bytes) return null
    const content = JSON.parse(bytes.toString()) as Content
    // lowdb would take null and other falsy values for a missing file.
    if (typeof content !== 'object' || content === null) throw new SyntaxError(`${this.#path} holds no document`)
    return content
  }

  write(content: Content): Promise<void> {
    return replace(this.#files, this.#path, Buffer.from(`${JSON.stringify(content)}\n`))
  }
}
