import { directoryOf, type Files } from '../files/files.ts'
import type { Schedule } from '../runtime/schedule.ts'

/** A change is reported when the file has not changed for so long. */
const QUIET_MS = 200

/** Watches a file, and calls back once it has not changed for a while. */
export class FileWatcher {
  readonly #files: Files
  readonly #path: string
  readonly #schedule: Schedule
  readonly #settled: () => Promise<void>
  #timer: ReturnType<Schedule> | undefined
  #watcher: { close(): void } | undefined

  constructor(files: Files, path: string, schedule: Schedule, settled: () => Promise<void>) {
    this.#files = files
    this.#path = path
    this.#schedule = schedule
    this.#settled = settled
  }

  /** Whether a change is to be reported soon. */
  get isWaiting(): boolean {
    return this.#timer !== undefined
  }

  watch(): void {
    const name = this.#path.slice(this.#path.lastIndexOf('/') + 1)
    this.#watcher = this.#files.watch(directoryOf(this.#path), (changed) => {
      if (changed === name) this.changed()
    })
  }

  /** The file has, or may have, changed. */
  changed(): void {
    this.#timer?.cancel()
    this.#timer = this.#schedule(() => {
      this.#timer = undefined
      return this.#settled()
    }, QUIET_MS)
  }

  close(): void {
    this.#watcher?.close()
    this.#timer?.cancel()
  }
}
