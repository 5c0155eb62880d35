import type { FileContents } from '../../collections/snapshot.ts'
import { Refusal } from '../../errors.ts'
import type { Position } from '../../events/event.ts'
import { type Journal, lastPosition } from '../../events/journal.ts'
import type { Files } from '../../files/files.ts'
import type { Slices } from '../../slices.ts'
import { collectionsAt, Picture, type Views } from '../views.ts'
import type { Account } from './account.ts'
import { alwaysWritten, type Content, contentOf, readContent } from './adapter.ts'
import { type Doubtful, findOrigin } from './base-search.ts'
import { type Base, FileReading, readingOf } from './reading.ts'
import { holds, lastOf, recent, type Shown } from './shown.ts'
import { isTakenIn } from './taken-in.ts'

export interface EditsOptions {
  readonly files: Files
  /** No symbolic link. */
  readonly path: string
  readonly views: Views
  readonly account: Account
  readonly slices: Slices
  readonly journal: () => Pick<Journal, 'head' | 'read'>
  /** Where there are several data files: tells this one's edits from those of the others. */
  readonly door: string | undefined
}

/** How often to read a file that changes while its edit is searched for. */
const MOST_ATTEMPTS = 5
const NOTHING_SHOWN: Shown = { position: 0, edits: [] }

export interface Edit {
  readonly file: FileContents
  readonly content: Content
  /** The state that the file showed when the editor opened it. */
  readonly base: Base
  readonly origin: Shown
  /** Whether that is the last content before the edit. */
  readonly isLast: boolean
  readonly doubtful: readonly Doubtful[]
}

/** Reads an edit by hand, and finds what it was made from. */
export class Edits {
  readonly #options: EditsOptions

  constructor(options: EditsOptions) {
    this.#options = options
  }

  /** The last content before the edit: a state of the journal, with any edit that was merged since. */
  async baseOf(origin: Position): Promise<Base> {
    if (this.#options.account.base) return this.#options.account.base
    const { views, door } = this.#options
    if (origin === views.position) return views.picture()
    const edits: [Position, Position][] = []
    const journal = this.#options.journal()
    const base = await collectionsAt(views.store.directory, journal, origin, journal.head, (recorded) => {
      if (!isTakenIn(recorded, door)) return false
      edits.push([recorded.position, lastPosition(recorded)])
      return true
    })
    if (edits.length > 0) this.#options.account.show(origin, edits)
    return base
  }

  /** The edited file, and the content that it was edited from. */
  async find(): Promise<Edit> {
    const last = await this.baseOf(this.#options.account.origin?.position ?? 0)
    let edit: Edit | undefined
    try {
      edit = await this.#findFrom(last)
      return edit
    } finally {
      if (edit?.base !== last) this.#release(last)
    }
  }

  async #findFrom(last: Base): Promise<Edit> {
    const { account, views, path } = this.#options
    const journal = this.#options.journal()
    const shown = recent(account.shown)
    for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
      const read = await this.#read(last)
      const { origin, doubtful } = await findOrigin({
        journal,
        slices: this.#options.slices,
        file: read.file,
        base: last,
        shown,
        lastChange: (collection, key) => views.any(collection)?.get(key)?.position ?? 0,
      })
      if (!origin) return { ...read, base: last, origin: shown.at(-1) ?? NOTHING_SHOWN, isLast: true, doubtful }
      const base = await collectionsAt(
        views.store.directory,
        journal,
        origin.position,
        lastOf(origin),
        ({ position }) => holds(origin, position),
      )
      let isFound = false
      try {
        const again = await this.#read(base)
        isFound = again.content.hash === read.content.hash
        if (isFound) return { ...again, base, origin, isLast: false, doubtful }
      } finally {
        if (!isFound) base.close()
      }
    }
    throw alwaysWritten(path)
  }

  /** What the store keeps for it is removed. */
  #release(base: Base): void {
    if (base instanceof Picture && base !== this.#options.account.base) base.close()
  }

  /** The file as it is now; only of one that is not valid all bytes are held at once, to say what is wrong with it. */
  async #read(base: Base): Promise<{ readonly file: FileContents; readonly content: Content }> {
    const { files, path } = this.#options
    try {
      let reading: FileReading | undefined
      const content = await contentOf(files, path, () => {
        reading = new FileReading(base, this.#options.slices)
        return reading
      })
      if (content && reading) return { file: await reading.contents(), content }
    } catch (error) {
      if (error instanceof Refusal && error.code !== 'Invalid') throw error
      const found = await readContent(files, path)
      if (found)
        return { file: await this.#options.slices.run(() => readingOf(found.pieces, base)), content: found.content }
    }
    throw new Refusal('Unavailable', `The data file ${path} went away while it was read.`)
  }
}
