import type { Position } from './event.ts'
import { DIGITS, NEWLINE, OPENING, PREFIX_BYTES } from './record-format.ts'
import { parseRecord, readFrame } from './record-reader.ts'

/** The unit of writes to a disk. */
export const SECTOR = 512
const PREFIX_SHAPE = `${OPENING}${'0'.repeat(DIGITS)}",`

/**
 * Whether the damage at `offset`, where the record of `position` belongs, can be the remains of the last write batch
 * after a crash (docs/journal.md, "Torn or corrupt"). Undefined: torn. Otherwise the reason why it is corruption.
 */
export function whyNotTorn(bytes: Buffer, offset: number, position: Position): string | undefined {
  for (let at = bytes.indexOf(OPENING, offset + 1); at >= 0; at = bytes.indexOf(OPENING, at + 1)) {
    const found = readFrame(bytes, at)
    if (found.kind === 'whole' && parseRecord(bytes, found).flush > position) {
      return 'a later write batch follows it, so it had been synced'
    }
  }
  const rest = bytes.subarray(offset)
  const damaged = readFrame(bytes, offset)
  const firstZero = rest.indexOf(0)
  if (firstZero < 0) {
    if (damaged.kind !== 'cut') return 'its bytes do not match its checksum'
    if (rest.includes(NEWLINE)) return 'a record is cut off, yet others follow it'
    const begun = rest.toString('latin1', 0, PREFIX_BYTES)
    const completed = begun + PREFIX_SHAPE.slice(begun.length)
    return /^\{"frame":"[0-9a-f]{24}",$/.test(completed) ? undefined : 'it does not begin as a record does'
  }
  if (damaged.kind !== 'cut' && offset + firstZero >= (damaged.end ?? offset + PREFIX_BYTES))
    return 'its bytes do not match its checksum'
  for (let from = firstZero; from >= 0 && from < rest.length; ) {
    let to = from
    while (rest[to] === 0) to++
    const begins = from === 0 || (offset + from) % SECTOR === 0
    const ends = to === rest.length || (offset + to) % SECTOR === 0
    if (!begins || !ends) return 'it holds zeros that are not whole sectors'
    from = rest.indexOf(0, to)
  }
  return undefined
}
