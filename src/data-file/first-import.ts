import type { Position } from '../events/event.ts'
import { isPartKey, type Journal, lastPosition } from '../events/journal.ts'
import { isDataFileEdit } from './merged-edits.ts'

/** Finds the first import of the data file in the journal. */
export class FirstImport {
  readonly #journal: Pick<Journal, 'read'>
  #end: Position | undefined

  constructor(journal: Pick<Journal, 'read'>) {
    this.#journal = journal
  }

  /** The position of its last event; 0 if the journal begins with another write. */
  async end(): Promise<Position> {
    if (this.#end !== undefined) return this.#end
    let end = 0
    let key: string | undefined
    for await (const recorded of this.#journal.read(1)) {
      // It is one write, or several whose keys are part keys except for that of the last one (docs/journal.md, J24).
      const mayContinue = key === undefined || isPartKey(key) || recorded.key === key
      if (!mayContinue || !isDataFileEdit(recorded)) {
        this.#end = end
        break
      }
      key = recorded.key
      end = lastPosition(recorded)
    }
    return end
  }
}
