import type { Files } from '../files/files.ts'
import type { Schedule } from '../runtime/turns.ts'

interface FileWatcherOptions {
  readonly files: Pick<Files, 'stat'>
  readonly path: string
  readonly schedule: Schedule
  /** How often to look at the file, in milliseconds. */
  readonly lookMs: number
  /** Called when the file has changed and stays the same. */
  readonly settled: () => Promise<void>
}

/** A change is reported when the file has not changed for so long. */
const QUIET_MS = 200

/**
 * Looks for changes of a file, or of a symbolic link to it, by its metadata. `fs.watch` would report most of them at
 * once, but none on network file systems, nor edits from outside in a mount of Docker Desktop, nor when no watch is left.
 */
export class FileWatcher {
  readonly #options: FileWatcherOptions
  #timer: ReturnType<Schedule> | undefined
  /** The signature at the last look. */
  #seen: string | undefined
  #isChanging = false
  #isClosed = false

  constructor(options: FileWatcherOptions) {
    this.#options = options
  }

  /** Whether a change is to be reported soon. */
  get isChanging(): boolean {
    return this.#isChanging
  }

  async begin(): Promise<void> {
    this.#seen = await this.#signature()
    this.#lookAgain()
  }

  /** The file has, or may have, changed. */
  changed(): void {
    this.#isChanging = true
    if (this.#timer) this.#lookAfter(QUIET_MS)
  }

  close(): void {
    this.#isClosed = true
    this.#timer?.cancel()
  }

  #lookAgain(): void {
    this.#lookAfter(this.#isChanging ? QUIET_MS : this.#options.lookMs)
  }

  #lookAfter(delayMs: number): void {
    this.#timer?.cancel()
    if (!this.#isClosed) this.#timer = this.#options.schedule(() => void this.#look(), delayMs)
  }

  async #look(): Promise<void> {
    this.#timer = undefined
    const signature = await this.#signature()
    if (this.#isClosed) return
    if (signature !== this.#seen) {
      this.#seen = signature
      this.#isChanging = true
    } else if (this.#isChanging) {
      this.#isChanging = false
      await this.#options.settled()
    }
    this.#lookAgain()
  }

  /** Undefined if the file is missing or cannot be reached. Why it cannot is reported when it is read. */
  async #signature(): Promise<string | undefined> {
    const { files, path } = this.#options
    const found = await files.stat(path).catch(() => undefined)
    return found?.signature
  }
}
