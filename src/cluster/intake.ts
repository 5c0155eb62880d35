import type { Recorded } from '../events/journal.ts'
import { after, type Expected, type JournalRecord, misplaced } from '../events/record.ts'
import { joined } from '../events/walk.ts'
import type { CheckedLine } from './message.ts'

/** Whole writes, and the lines that they are made of. */
export interface Whole {
  readonly writes: readonly Recorded[]
  readonly lines: readonly CheckedLine[]
  /** What the next record must carry. */
  readonly next: Expected
}

/** Puts records together to whole writes: one may span messages, and be void when its last one never comes. */
export class Intake {
  #unfinished: { readonly lines: CheckedLine[]; next: Expected } | undefined

  /** What is unfinished is void. */
  forget(): void {
    this.#unfinished = undefined
  }

  /** What the lines complete, after `next`; a text that says what is wrong with one of them. */
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
