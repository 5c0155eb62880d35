import { setImmediate } from 'node:timers/promises'
import type { Position } from '../events/event.ts'
import {
  POSITION_BYTES,
  positionOf,
  prefixEnd,
  putPosition,
  type Row,
  type RowsOptions,
  type ScratchBytes,
  TAG,
  versionKey,
} from './keys.ts'

/** Old versions checked in one step. */
const SWEPT_AT_ONCE = 256

/** A position at which somebody reads; versions for it are kept until it is released. */
export interface Pin {
  readonly position: Position
  release(): void
}

/** The rows of a store. */
interface Rows {
  newest(key: Buffer): ScratchBytes | undefined
  rows(start: Buffer, end: Buffer, options: RowsOptions): Row[]
  set(key: Buffer, value: Buffer): void
  removeAll(rows: readonly Row[]): Promise<void>
}

/** The pinned positions, and the earlier versions of rows that are read there. */
export class Versions {
  readonly #rows: Rows
  readonly #pins = new Map<Position, number>()
  /** The highest pinned position; -1 without pins. */
  #keptUpTo: Position = -1
  /** A previous process may have left some. */
  #mayExist = true
  #sweeping: Promise<void> | undefined
  #isToBeSwept = false
  #isEnding = false

  constructor(rows: Rows) {
    this.#rows = rows
  }

  pin(position: Position): Pin {
    this.#pins.set(position, (this.#pins.get(position) ?? 0) + 1)
    this.#keptUpTo = Math.max(this.#keptUpTo, position)
    let isReleased = false
    const release = (): void => {
      if (isReleased) return
      isReleased = true
      const left = (this.#pins.get(position) ?? 1) - 1
      if (left > 0) this.#pins.set(position, left)
      else this.#pins.delete(position)
      this.#keptUpTo = Math.max(-1, ...this.#pins.keys())
      if (left === 0 && this.#mayExist) this.sweepSoon()
    }
    return { position, release }
  }

  /** The pinned positions. */
  get pinned(): Iterable<Position> {
    return this.#pins.keys()
  }

  /** The value that a row had at a position, if it was replaced since. */
  find(key: Buffer, at: Position): Buffer | undefined {
    const [row] = this.#rows.rows(versionKey(key, 0), versionKey(key, at), { reverse: true, limit: 1 })
    return row?.value.subarray(POSITION_BYTES)
  }

  /** Stores the current version of a row that is about to be replaced, if a pin needs it. In a transaction. */
  keep(key: Buffer, replacedAt: Position): void {
    if (this.#keptUpTo < 0) return
    const before = this.#rows.newest(key)
    if (!before) return
    const since = positionOf(before)
    if (since > this.#keptUpTo) return
    const version = Buffer.allocUnsafe(POSITION_BYTES + before.length)
    putPosition(version, 0, replacedAt)
    before.copy(version, POSITION_BYTES)
    this.#rows.set(versionKey(key, since), version)
    this.#mayExist = true
  }

  /** Removes the versions that no pin needs, a few at a time. */
  sweepSoon(): void {
    this.#isToBeSwept = true
    this.#sweeping ??= this.#sweepAll().finally(() => {
      this.#sweeping = undefined
    })
  }

  async end(): Promise<void> {
    this.#isEnding = true
    await this.#sweeping
  }

  /** Repeats if pins were released meanwhile. */
  async #sweepAll(): Promise<void> {
    while (this.#isToBeSwept && !this.#isEnding) {
      this.#isToBeSwept = false
      this.#mayExist = false
      await this.#sweep()
    }
  }

  async #sweep(): Promise<void> {
    let from = Buffer.from([TAG.version])
    const end = prefixEnd(from)
    for (;;) {
      await setImmediate()
      if (this.#isEnding) return
      const rows = this.#rows.rows(from, end, { limit: SWEPT_AT_ONCE })
      const unneeded = rows.filter(
        ({ key, value }) => !this.#isNeeded(positionOf(key, key.length - POSITION_BYTES), positionOf(value)),
      )
      if (unneeded.length < rows.length) this.#mayExist = true
      await this.#rows.removeAll(unneeded)
      const last = rows.at(-1)
      if (!last || rows.length < SWEPT_AT_ONCE) break
      from = Buffer.concat([last.key, Buffer.alloc(1)])
    }
  }

  #isNeeded(since: Position, replacedAt: Position): boolean {
    for (const position of this.#pins.keys()) if (position >= since && position < replacedAt) return true
    return false
  }
}
