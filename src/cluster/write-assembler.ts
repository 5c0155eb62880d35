import { Chain, writeOf } from '../events/chain.ts'
import type { Recorded } from '../events/journal.ts'
import type { ChainState } from '../events/record-format.ts'
import type { RecordLine } from '../events/record-reader.ts'

/** Complete writes and the lines they consist of. */
export interface CompleteWrites {
  readonly writes: readonly Recorded[]
  readonly lines: readonly RecordLine[]
  readonly next: ChainState
}

/** Assembles records into complete writes. A write may span messages, and is void if its last record never comes. */
export class WriteAssembler {
  readonly #chain: Chain
  #unfinished: RecordLine[] = []

  constructor(next: ChainState) {
    this.#chain = new Chain(next)
  }

  /** Drops the incomplete write, which is void. */
  forget(): void {
    this.#chain.cutOff()
    this.#unfinished = []
  }

  /** The writes that the lines complete, or a text that tells which rule a line breaks. */
  take(lines: readonly RecordLine[]): CompleteWrites | string {
    const writes: Recorded[] = []
    const whole: RecordLine[] = []
    for (const line of lines) {
      const wrong = this.#chain.add(line.record, line.crc)
      if (wrong !== undefined) return wrong
      this.#unfinished.push(line)
      if (line.record.more) continue
      for (const part of this.#unfinished) whole.push(part)
      writes.push(writeOf(this.#unfinished.map(({ record }) => record)))
      this.#unfinished = []
    }
    return { writes, lines: whole, next: this.#chain.whole }
  }
}
