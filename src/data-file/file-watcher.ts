import { directoryOf, type Files } from '../files/files.ts'
import type { LimitedLog } from '../runtime/limited-log.ts'
import type { Schedule } from '../runtime/schedule.ts'

export interface FileWatcherOptions {
  readonly files: Files
  readonly path: string
  readonly schedule: Schedule
  readonly log: LimitedLog
  /** Called when the file, or a link to it, has changed and is quiet again. */
  readonly settled: () => Promise<void>
}

/** A change is reported when the file has not changed for so long. */
const QUIET_MS = 200
/**
 * How often to compare the metadata of the file. Network and FUSE file systems may report no changes, and a mount of
 * Docker Desktop reports only those that are made inside the container.
 */
const LOOK_MS = 2000

/** Watches a file and the symbolic links that lead to it, and calls back once they have not changed for a while. */
export class FileWatcher {
  readonly #options: FileWatcherOptions
  #timer: ReturnType<Schedule> | undefined
  #lookTimer: ReturnType<Schedule> | undefined
  /** The signature at the last look. */
  #seen: string | undefined
  /** It differed at the last look from the one before. */
  #isChanging = false
  #watchers: readonly { close(): void }[] = []
  #isClosed = false

  constructor(options: FileWatcherOptions) {
    this.#options = options
  }

  /** Whether a change is to be reported soon. */
  get isWaiting(): boolean {
    return this.#timer !== undefined
  }

  async begin(): Promise<void> {
    await this.#watch()
    this.#seen = await this.#signature()
    if (!this.#isClosed) this.#lookAfter(LOOK_MS)
  }

  async #watch(): Promise<void> {
    const { files, path } = this.#options
    const { links, target } = await files.follow(path)
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
    const { files, log } = this.#options
    try {
      return [
        files.watch(directory, (changed) => {
          if (names.has(changed)) this.changed()
        }),
      ]
    } catch (error) {
      // A dangling link: its own change is seen.
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') {
        log.warn({ err: error, directory }, 'the system cannot report edits of the data file; they are noticed later')
      }
      return []
    }
  }

  #lookAfter(delayMs: number): void {
    this.#lookTimer = this.#options.schedule(() => void this.#look(), delayMs)
  }

  /** A file that is being written is looked at more often, until it stays the same. */
  async #look(): Promise<void> {
    const signature = await this.#signature()
    if (this.#isClosed) return
    const isChanging = signature !== this.#seen
    if (this.#isChanging && !isChanging) this.changed()
    this.#seen = signature
    this.#isChanging = isChanging
    this.#lookAfter(isChanging ? QUIET_MS : LOOK_MS)
  }

  /** Undefined if the file is missing or cannot be reached. Why it cannot is reported when it is read. */
  async #signature(): Promise<string | undefined> {
    const { files, path } = this.#options
    const found = await files.stat(path).catch(() => undefined)
    return found?.signature
  }

  /** The file has, or may have, changed. */
  changed(): void {
    this.#timer?.cancel()
    this.#timer = this.#options.schedule(async () => {
      this.#timer = undefined
      // A changed link leads elsewhere. What prevents following it is reported when the file is read.
      await this.#watch().catch(() => {})
      await this.#options.settled()
    }, QUIET_MS)
  }

  close(): void {
    this.#isClosed = true
    for (const watcher of this.#watchers) watcher.close()
    this.#timer?.cancel()
    this.#lookTimer?.cancel()
  }
}
