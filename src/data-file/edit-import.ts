import type { ImportOutcome, MergeOutcome } from '../commands/outcome.ts'
import { Ended, Refusal } from '../runtime/errors.ts'
import { LimitedLog, TEN_IN_TEN_SECONDS } from '../runtime/limited-log.ts'
import { type ProgressLog, progressLog } from '../runtime/progress-log.ts'
import type { DoubtfulItem } from './base-search.ts'
import type { DataFileOptions } from './data-file-options.ts'
import { EditMerger, type EditMergerOptions } from './edit-merger.ts'
import type { ContentMark } from './state-file.ts'
import { SMALL_BYTES } from './write-budget.ts'

export interface EditImportOptions
  extends Omit<EditMergerOptions, 'progress'>,
    Pick<DataFileOptions, 'log' | 'elapsedMs'> {
  /** Records that the file shows a state of the journal. */
  readonly confirm: (mark: ContentMark) => Promise<void>
}

const REPLACED = 'an edit of the data file replaced what was written since; the journal has both'

/** Imports edits of the data file, and records what the file shows then. */
export class EditImport {
  readonly #options: EditImportOptions
  readonly #merger: EditMerger
  readonly #log: LimitedLog
  readonly #logProgress: ProgressLog
  #progress: { readonly bytes: number; readonly of: number } | undefined
  #isEnding = false

  constructor(options: EditImportOptions) {
    this.#options = options
    this.#merger = new EditMerger({ ...options, progress: (bytes, of) => this.#report(bytes, of) })
    this.#log = new LimitedLog(options.log, options.elapsedMs)
    this.#logProgress = progressLog(options.log)
  }

  get progress(): { readonly bytes: number; readonly of: number } | undefined {
    return this.#progress
  }

  end(): void {
    this.#isEnding = true
  }

  /**
   * Imports the current file.
   * @throws {Refusal} `Invalid` when the file is invalid.
   */
  async run(isStart = false): Promise<ImportOutcome> {
    const { views, log, path, onDisk, confirm } = this.#options
    const edit = await this.#merger
      .merge(isStart)
      .catch((error) => {
        if (error instanceof Refusal) {
          onDisk.trouble = { state: error.code === 'Invalid' ? 'invalid' : 'edited', detail: error.message }
        }
        throw error
      })
      .finally(() => {
        this.#progress = undefined
      })
    const { basis, events, writes, content, origin, isLast, isShown } = edit
    // If others wrote meanwhile, items had no id, or latest items followed, the written file differs from the edited one.
    const shown = writes.reduce((count, [first, last]) => count + last - first + 1, 0)
    const isAlone = (writes.at(-1)?.[1] ?? basis) === basis + events
    const isUnmixed = basis === (onDisk.origin?.position ?? 0) && isAlone && shown === events
    const isExact = !onDisk.isOff && isLast && isShown && isUnmixed
    onDisk.content = content
    onDisk.trouble = undefined
    const { hash, signature } = content
    onDisk.known = { position: isExact ? basis + events : views.position, hash, signature }
    if (isExact) await confirm(onDisk.known)
    else {
      onDisk.settle()
      onDisk.isMerged = true
      if (events > 0) onDisk.showMerged({ position: origin.position, edits: [...origin.edits, ...writes] })
    }
    const conflicts = withDoubtful(edit.conflicts, edit.doubtful)
    for (const { collection, id } of conflicts) {
      this.#log.warn({ collection, id }, REPLACED, TEN_IN_TEN_SECONDS)
    }
    const basedOn = origin.position
    if (events > 0 || !isLast) log.info({ events, path, basedOn }, 'the data file was imported')
    return { basis, events, conflicts, basedOn }
  }

  #report(bytes: number, of: number): void {
    if (this.#isEnding) throw new Ended()
    if (of < SMALL_BYTES) return
    this.#progress = { bytes, of }
    this.#logProgress({ bytes, of }, 'the data file is being merged')
  }
}

/** The conflicts and the doubtful items, each once. */
function withDoubtful(
  conflicts: MergeOutcome['conflicts'],
  doubtful: readonly DoubtfulItem[],
): MergeOutcome['conflicts'] {
  const named = new Set(conflicts.map(({ collection, id }) => JSON.stringify([collection, id])))
  return [...conflicts, ...doubtful.filter(({ collection, id }) => !named.has(JSON.stringify([collection, id])))]
}
