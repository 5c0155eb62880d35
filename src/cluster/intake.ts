import type { Recorded } from '../events/journal.ts'
import { after, type Expected, type JournalRecord, misplaced } from '../events/record.ts'
import { joined } from '../events/walk.ts'
import type { CheckedLine } from './message.ts'

/** Complete writes and the lines they consist of. */
export interface Whole {
  readonly writes: readonly Recorded[]
  readonly lines: readonly CheckedLine[]
  /** The chain values of the next record. */
  readonly next: Expected
}

/** Assembles records into complete writes. A write may span messages, and is void if its last record never comes. */
export class Intake {
  #unfinished: { readonly lines: CheckedLine[]; next: Expected } | undefined

  /** Drops the incomplete write, which is void. */
  forget(): void {
    this.#unfinished = undefined
  }

  /** The writes that the lines complete, or a text that tells which rule a line breaks. */
  take(lines: readonly CheckedLine[], next: Expected): Whole | string {
    const writes: Recorded[] = []
    const whole: CheckedLine[] = []
    let following = next
    for (const line of lines) {
      const { record, crc } = line
      const wrong = misplaced(record, this.#unfinished?.next ?? following)
      if (wrong !== undefined) return wrong
      this.#unfinished ??= { lines: [], next: following }
      this.#unfinished.lines.push(line)
      this.#unfinished.next = after(record, crc)
      if (record.more) continue
      const parts = this.#unfinished.lines
      following = this.#unfinished.next
      this.#unfinished = undefined
      whole.push(...parts)
      writes.push(
        withoutChain(parts.length === 1 ? record : (joined(parts.map((part) => part.record)) as JournalRecord)),
      )
    }
    return { writes, lines: whole, next: following }
  }
}

function withoutChain({ previous, flush, more, ...recorded }: JournalRecord): Recorded {
  return recorded
}
