import type { Row } from './keys.ts'
import type { Store } from './store.ts'

/** How long a slice of copying blocks the event loop. */
const SLICE_MS = 4
/** Approximate amount copied by one transaction. */
const BYTES_AT_ONCE = 128 * 1024
const ROWS_AT_ONCE = 256
const BEHIND_ALL = Buffer.from([0xff])

/**
 * Copies a store into an empty one while it is being written to. Calls `finish` synchronously once the copy has all rows.
 * Awaits `rest` between slices with the duration of the last one; if it resolves with false, the copy is abandoned.
 */
export async function copyStore(
  from: Store,
  to: Store,
  rest: (sliceMs: number) => Promise<boolean>,
  finish: () => void,
): Promise<void> {
  const copy = new StoreCopy(from, to)
  try {
    for (;;) {
      const began = performance.now()
      while (performance.now() - began < SLICE_MS) {
        if (copy.step()) continue
        finish()
        return
      }
      if (!(await rest(performance.now() - began))) return
    }
  } finally {
    copy.end()
  }
}

/** A copy in progress. */
class StoreCopy {
  readonly #from: Store
  readonly #to: Store
  /** All rows before this key were copied. */
  #next = Buffer.alloc(1)
  /** The keys of copied rows that were changed since, as `latin1`: these are copied again. */
  readonly #changed = new Set<string>()

  constructor(from: Store, to: Store) {
    this.#from = from
    this.#to = to
    from.changed = (key) => {
      if (key.compare(this.#next) < 0) this.#changed.add(key.toString('latin1'))
    }
  }

  /** Copies some rows; false if the copy is complete. */
  step(): boolean {
    if (this.#changed.size > 0) this.#copyChanged()
    else if (this.#next !== BEHIND_ALL) this.#copyNext()
    else return false
    return true
  }

  end(): void {
    this.#from.changed = undefined
  }

  #copyNext(): void {
    const rows = this.#from.rows(this.#next, BEHIND_ALL, { limit: ROWS_AT_ONCE, bytes: BYTES_AT_ONCE })
    this.#to.transaction(() => {
      for (const row of rows) this.#to.append(row)
    })
    const last = rows.at(-1)
    this.#next = last ? Buffer.concat([last.key, Buffer.alloc(1)]) : BEHIND_ALL
  }

  #copyChanged(): void {
    const changed: (Omit<Row, 'value'> & { readonly value: Buffer | undefined })[] = []
    let bytes = 0
    for (const name of this.#changed) {
      const key = Buffer.from(name, 'latin1')
      const found = this.#from.newest(key)
      const value = found && Buffer.from(found)
      changed.push({ key, value })
      bytes += value?.length ?? 0
      if (changed.length === ROWS_AT_ONCE || bytes >= BYTES_AT_ONCE) break
    }
    this.#to.transaction(() => {
      for (const { key, value } of changed) {
        if (value) this.#to.set(key, value)
        else this.#to.remove(key)
      }
    })
    for (const { key } of changed) this.#changed.delete(key.toString('latin1'))
  }
}
