import { partEnd } from '../../json/order-key.ts'
import type { Turn } from '../../runtime/turns.ts'
import type { KeyCursor, OrderedKeys } from '../../store/tree.ts'
import { keyBytes } from './plan.ts'
import { END, type Range } from './ranges.ts'
import { KIND } from './tuples.ts'

/** How many keys are skipped one by one before the tree is searched. */
const NEAR = 8

export interface ScanOptions {
  readonly tree: OrderedKeys
  /** For each path of the index, the ranges of its filters. */
  readonly ranges: readonly (readonly Range[] | undefined)[]
  /** The number of leading parts that are the same in all keys of a run. */
  readonly shared: number
  /** The number of leading parts that are checked: the shared ones, or one more, which lies in one range in a run. */
  readonly checked: number
}

/**
 * A skip scan: finds the runs of `single` keys whose leading parts match the filters. A part is the order key of a
 * value. All keys of a run share their first parts.
 */
export class KeyScan {
  readonly #options: ScanOptions
  /** The reader of a run moves it. */
  cursor: KeyCursor
  /** The offsets of the parts of the run's first key. */
  readonly starts: number[] = [1]
  /** The kind and the shared parts, as latin1. */
  prefix = ''
  /** The run ends before the prefix followed by these bytes. */
  to = END
  /** False if a part to be checked is an array or an object, which are not read. */
  isKnown = true

  private constructor(options: ScanOptions, cursor: KeyCursor) {
    this.#options = options
    this.cursor = cursor
  }

  static async of(options: ScanOptions, turn: Turn): Promise<KeyScan> {
    return new KeyScan(options, await options.tree.seek(Buffer.from([KIND.single]), turn))
  }

  /** The first key of the next run, at the cursor or after it; undefined after the last run. */
  async next(turn: Turn): Promise<Buffer | undefined> {
    for (;;) {
      const { key } = this.cursor
      if (!key) return undefined
      const beyond = this.#check(key)
      if (beyond === undefined) return key
      await this.jump(beyond, turn)
      if (turn.isOver) await turn.next()
    }
  }

  /** Moves the cursor forward to the first key that is not below these bytes. */
  async jump(bytes: string, turn: Turn): Promise<void> {
    const to = keyBytes(bytes)
    for (let passed = 0; passed < NEAR; passed++) {
      this.cursor.next()
      const { key } = this.cursor
      if (!key || key.compare(to) >= 0) return
    }
    this.cursor = await this.#options.tree.seek(to, turn)
  }

  /** Undefined if a key matches the filters, else the bytes up to which no key does. */
  #check(key: Buffer): string | undefined {
    const { ranges, shared, checked } = this.#options
    this.isKnown = true
    this.to = END
    for (let index = 0; index < checked; index++) {
      const start = this.starts[index] as number
      const end = partEnd(key, start)
      if (end < 0) {
        this.isKnown = false
        return undefined
      }
      this.starts[index + 1] = end
      const wanted = ranges[index]
      if (!wanted) continue
      const part = key.toString('latin1', start, end)
      const range = wanted.find(({ to }) => part < to)
      if (!range || part < range.from) return key.toString('latin1', 0, start) + (range?.from ?? END)
      if (index === shared) this.to = range.to
    }
    this.prefix = key.toString('latin1', 0, this.starts[shared])
    return undefined
  }
}
