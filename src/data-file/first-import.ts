import type { Position } from '../events/event.ts'
import { isPartKey, type Journal, lastPosition } from '../events/journal.ts'
import { isDataFileEdit } from './merged-edits.ts'

/** The last position of the first import of the data file; 0 if the journal begins with another write. */
export async function firstImportEnd(journal: Pick<Journal, 'read'>): Promise<Position> {
  let end = 0
  let key: string | undefined
  for await (const recorded of journal.read(1)) {
    // It is one write, or several whose keys are part keys except for that of the last one (docs/journal.md, J24).
    const mayContinue = key === undefined || isPartKey(key) || recorded.key === key
    if (!mayContinue || !isDataFileEdit(recorded)) break
    key = recorded.key
    end = lastPosition(recorded)
  }
  return end
}
