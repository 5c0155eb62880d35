import { directoryOf, type Files } from '../files/files.ts'
import type { Schedule } from '../runtime/schedule.ts'

/** A change is reported when the file has not changed for so long. */
const QUIET_MS = 200

/** Watches a file and the symbolic links that lead to it, and calls back once they have not changed for a while. */
export class FileWatcher {
  readonly #files: Files
  readonly #path: string
  readonly #schedule: Schedule
  readonly #settled: () => Promise<void>
  #timer: ReturnType<Schedule> | undefined
  #watchers: readonly { close(): void }[] = []
  #isClosed = false

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

  async watch(): Promise<void> {
    const { links, target } = await this.#files.follow(this.#path)
    if (this.#isClosed) return
    const names = new Map<string, Set<string>>()
    for (const path of [...links, target]) {
      const directory = directoryOf(path)
      const known = names.get(directory) ?? new Set()
      names.set(directory, known.add(path.slice(path.lastIndexOf('/') + 1)))
    }
    const before = this.#watchers
    this.#watchers = [...names].flatMap(([directory, known]) => this.#watchIn(directory, known))
    for (const watcher of before) watcher.close()
  }

  #watchIn(directory: string, names: ReadonlySet<string>): readonly { close(): void }[] {
    try {
      return [
        this.#files.watch(directory, (changed) => {
          if (names.has(changed)) this.changed()
        }),
      ]
    } catch (error) {
      // A dangling link: its own change is seen.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
      throw error
    }
  }

  /** The file has, or may have, changed. */
  changed(): void {
    this.#timer?.cancel()
    this.#timer = this.#schedule(async () => {
      this.#timer = undefined
      // A changed link leads elsewhere. What prevents following it is reported when the file is read.
      await this.watch().catch(() => {})
      await this.#settled()
    }, QUIET_MS)
  }

  close(): void {
    this.#isClosed = true
    for (const watcher of this.#watchers) watcher.close()
    this.#timer?.cancel()
  }
}
