import type { DataFileOptions } from './data-file-options.ts'
import { contentOf } from './file-content.ts'
import type { FileOnDisk } from './file-on-disk.ts'
import type { ContentMark } from './state-file.ts'

export interface EditCheckOptions extends Pick<DataFileOptions, 'files' | 'path' | 'log'> {
  readonly onDisk: FileOnDisk
  /** Called when an edit is found; returns whether it will be imported automatically. */
  readonly edited: () => boolean
  /** Records the marks in the state file. */
  readonly note: (confirmed: ContentMark | undefined, pending: ContentMark | undefined) => Promise<void>
}

/** Looks for edits: of the data file, and of the file that the server replaced last. */
export class EditCheck {
  readonly #options: EditCheckOptions

  constructor(options: EditCheckOptions) {
    this.#options = options
  }

  async isAnyEdited(): Promise<boolean> {
    return (await this.isFileEdited()) || (await this.isKeptEdited())
  }

  /** Whether the file has content that the server neither wrote nor imported. */
  async isFileEdited(): Promise<boolean> {
    const { files, path, log, edited, onDisk } = this.#options
    const found = (await onDisk.isTouched()) ? await contentOf(files, path) : undefined
    if (!found || onDisk.isAccountedFor(found)) {
      if (onDisk.trouble?.state === 'edited') onDisk.trouble = undefined
      return false
    }
    const isMergedSoon = edited()
    if (onDisk.trouble?.state === 'edited') return true
    if (!isMergedSoon) log.warn(`${path} was edited. It is not written until POST /admin/reload merges the edit.`)
    onDisk.trouble = { state: 'edited', detail: 'The file was edited; POST /admin/reload merges the edit.' }
    return true
  }

  /** Whether the replaced file was edited after the last look at it. Then it is put back, and merged as any edit. */
  async isKeptEdited(): Promise<boolean> {
    const { onDisk, note } = this.#options
    if (!(await onDisk.isKeptEdited())) return false
    const { pending } = onDisk.state ?? {}
    // After a crash, the file that is replaced now is recognized by this hash.
    if (pending) await note(onDisk.origin, { ...pending, replaces: onDisk.content?.hash })
    await onDisk.putBack()
    await this.isFileEdited()
    return true
  }
}
