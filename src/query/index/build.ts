import { Table } from '../../collections/table.ts'
import type { Position } from '../../events/event.ts'
import { mergeSort } from '../../json/merge-sort.ts'
import { rest, type Turn } from '../../runtime/turns.ts'
import { SpaceRetry } from '../../store/disk-space.ts'
import { HIGHEST } from '../../store/keys.ts'
import type { Store } from '../../store/store.ts'
import { keysAt, type StoredIndex } from './stored-index.ts'

/** Keys sorted before they are inserted. */
const RUN_KEYS = 50_000
/** Highest total length of these keys, in characters. */
const RUN_CHARACTERS = 8 * 1024 * 1024
/** Keys inserted between two checks of the time. */
const INSERTED_AT_ONCE = 64
/** Approximate duration of a transaction, and of a step between two iterations of the event loop. */
const STEP_MS = 4

/**
 * Fills an index, one run of places after the other: reads their items, sorts their keys and inserts them. Changes
 * within a run are recorded and applied at its end; later places are read later.
 */
export class IndexBuild {
  readonly #store: Store
  readonly #index: StoredIndex
  readonly #table: Table
  /** The position of the events being stored. */
  readonly #applied: () => Position
  /** The places of the run: from `#from` to before `#to`. */
  #from = 0
  #to = 0
  /** For places of the run whose items changed after they were read: their previous keys. */
  readonly #changed = new Map<number, readonly string[]>()
  #isRunInserted = true
  readonly #space = new SpaceRetry()
  /** Called with the number of places that were read. */
  progress: (places: number) => void = () => {}

  constructor(store: Store, index: StoredIndex, applied: () => Position) {
    this.#store = store
    this.#index = index
    this.#table = new Table(store, index.table)
    this.#applied = applied
    index.building = this
  }

  /** Abandons the build. */
  end(): void {
    this.#space.end()
  }

  /** Number of places read. */
  get read(): number {
    return this.#to
  }

  /** Returns whether the index has the keys of the item at a place. Otherwise the change is recorded, or will be read. */
  noteChange(place: number, before: readonly string[]): boolean {
    // It will be read later.
    if (place >= this.#to) return false
    if (place < this.#from) return true
    // Its present keys will be read when the recorded change is applied.
    if (this.#changed.has(place)) return false
    if (this.#isRunInserted) return true
    // The keys of the run are being sorted and inserted, with the previous ones of this place among them.
    this.#changed.set(place, before)
    return false
  }

  /** Resolves when the index is complete or the build was ended. */
  async run(): Promise<void> {
    await this.#transaction(() => {
      this.#index.tree.clear()
      this.#index.saveFacts(undefined)
    })
    // The tree has the keys of all places before `#from`. Those from `#to` on were not read.
    while (!this.#space.isEnded) {
      this.#from = this.#to
      this.#isRunInserted = false
      const turn = new BuildTurn()
      await this.#insert(await mergeSort(await this.#readRun(turn), turn))
      // From now on, changes within the run go into the tree, apart from those of places that are in `#changed`.
      this.#isRunInserted = true
      if (await this.#applyChanges()) return
      this.progress(this.#to)
    }
  }

  /** Inserts sorted keys in several transactions. */
  async #insert(keys: readonly string[]): Promise<void> {
    // The keys before `at` are committed. A transaction that finds no space is repeated, so it begins at `at` again.
    for (let at = 0; at < keys.length && !this.#space.isEnded; ) {
      let next = at
      await this.#transaction(() => {
        const until = performance.now() + STEP_MS
        for (next = at; next < keys.length && performance.now() < until; next += INSERTED_AT_ONCE) {
          const inserted = keys.slice(next, next + INSERTED_AT_ONCE)
          this.#index.tree.insert(inserted.map((key) => Buffer.from(key, 'latin1')))
        }
      })
      at = next
      await rest()
    }
  }

  /** Applies the recorded changes. Returns whether the index is complete. */
  async #applyChanges(): Promise<boolean> {
    let isComplete = false
    // For places in `#changed` the tree has their previous keys. A place leaves it when its present keys are committed.
    while (!this.#space.isEnded) {
      let isSettled = false
      const settled: number[] = []
      const change = (): void => {
        // The transaction may be repeated.
        settled.length = 0
        const until = performance.now() + STEP_MS
        for (const [place, before] of this.#changed) {
          settled.push(place)
          this.#index.replace(before, keysAt(this.#table.itemAt(place, HIGHEST), this.#index, place))
          this.#index.apply()
          if (performance.now() > until) break
        }
        isSettled = settled.length === this.#changed.size
        // In the same transaction, so that no item can be added before the index is complete.
        isComplete = isSettled && this.#table.next(this.#to) === undefined
        if (isComplete) this.#index.saveFacts(this.#applied())
      }
      await this.#transaction(change, () => {
        for (const place of settled) this.#changed.delete(place)
        if (isComplete) this.#index.markComplete(this.#applied())
      })
      if (isSettled) return isComplete
      await rest()
    }
    return false
  }

  /** The keys of the items of the next run. */
  async #readRun(turn: Turn): Promise<string[]> {
    const keys: string[] = []
    let characters = 0
    while (keys.length < RUN_KEYS && characters < RUN_CHARACTERS && !this.#space.isEnded) {
      const next = this.#table.next(this.#to)
      if (next === undefined) break
      for (const key of keysAt(this.#table.itemAt(next, HIGHEST), this.#index, next)) {
        keys.push(key)
        characters += key.length
      }
      this.#to = next + 1
      if (turn.isOver) await turn.next()
    }
    return keys
  }

  /** Calls `committed` at once after the commit: the next write may come before the promise resolves. */
  async #transaction(work: () => void, committed = (): void => {}): Promise<void> {
    if (this.#space.isEnded) return
    const index = this.#index
    await this.#space.run(() => {
      try {
        this.#store.transaction(() => {
          work()
          // There are no readers yet.
          index.save(this.#applied(), false)
        })
      } catch (error) {
        index.rollBack()
        throw error
      }
      index.commit()
      committed()
    })
  }
}

/** The turns of a build, which leave more time to requests than those of a query. */
class BuildTurn implements Turn {
  estimatedMs = 0
  #end = performance.now() + STEP_MS

  get isOver(): boolean {
    return performance.now() >= this.#end
  }

  /** A build holds a bounded part of the keys at a time. */
  hold(): void {}

  async next(): Promise<void> {
    await rest()
    this.#end = performance.now() + STEP_MS
  }
}
