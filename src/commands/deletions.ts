import type { Overlay } from '../collections/overlay.ts'
import { type DomainEvent, type ItemId, isItemEvent, type Position } from '../events/event.ts'
import { type Journal, type Origin, partKey } from '../events/journal.ts'
import type { List } from '../runtime/chunked-list.ts'
import { Refusal } from '../runtime/errors.ts'
import { Memory, type MemoryBudget } from '../runtime/memory.ts'
import { Semaphore, type Turn } from '../runtime/turns.ts'
import type { Deletion } from './command.ts'
import {
  type DeletionPart,
  decideDeletion,
  isWhole,
  listsItems,
  type SelectedItems,
  type SelectItems,
  selectionsOf,
} from './decide-deletion.ts'
import {
  type CompletedRequest,
  type DeletionProgress,
  eventsOfWrite,
  LISTED_IDS,
  NOTHING_DELETED,
  withWrite,
} from './idempotency-keys.ts'
import type { Rules } from './rules.ts'

/** Items that one of several writes deletes at most. With two indexes the store takes 3 ms for them, one transaction. */
const PART_ITEMS = 175

export interface DeletionOptions {
  /** Nothing is written. */
  readonly isDryRun?: boolean
  /** All is deleted in one write, however much it is. */
  readonly isAtomic?: boolean
}

export interface DecisionOptions {
  readonly origin: Origin
  /** Holds its events until they are durable. */
  readonly memory: Memory
  /** Nothing is written. */
  readonly isDryRun?: boolean
  /** Whether it lists the items of the accepted state. */
  readonly isListing?: boolean
}

/** Decides a write in several turns while others wait, and appends it. */
type DecideAlone = <Decision extends { readonly events: List<DomainEvent> }>(
  options: DecisionOptions,
  decide: (state: Overlay, turn: Turn) => Promise<Decision>,
) => Promise<Decision & { readonly position: Position }>

/** The result of a deletion, also of its writes before an interruption. */
export interface DeletionOutcome extends DeletionProgress {
  /** The position of the last write's last event, or of the state that was read if nothing was written. */
  readonly position: Position
  /** The ids of the first write's first items. */
  readonly ids: readonly ItemId[]
  /** Whether the collection was removed. */
  readonly isRemoved: boolean
}

interface DeletionsOptions {
  readonly journal: Pick<Journal, 'read'>
  readonly rules: Rules
  readonly select: SelectItems
  readonly memory: MemoryBudget
  /** Items that one write deletes; more are deleted in several. */
  readonly atomicItems: number
  readonly decideAlone: DecideAlone
}

/**
 * Deletes many items: up to `atomicItems` in one write, more in several, between which others write. The items are selected
 * once. Each write deletes those of its items that are still there and still match.
 *
 * | Of several writes | `key` (docs/journal.md, J4) | Collection, or item with dependents |
 * |---|---|---|
 * | all but the last | the key of the request, and `:part` | stays |
 * | the last | the key of the request | is deleted; a collection only if it is empty |
 */
export class Deletions {
  readonly #options: DeletionsOptions
  /** One of several writes at a time, so that others wait for one only, however many deletions there are. */
  readonly #parts = new Semaphore(1)
  #isEnding = false

  constructor(options: DeletionsOptions) {
    this.#options = options
  }

  /** Continues a deletion whose earlier writes have made `progress`. */
  async run(
    deletion: Deletion,
    origin: Origin,
    { isDryRun = false, isAtomic = false }: DeletionOptions,
    progress: DeletionProgress = NOTHING_DELETED,
  ): Promise<DeletionOutcome> {
    const { select, memory: budget, atomicItems, rules, decideAlone } = this.#options
    const memory = new Memory(budget, 'writes')
    let done = progress
    let outcome = { position: 0, isRemoved: false }
    let ids: readonly ItemId[] | undefined
    try {
      const selected = await Promise.all(selectionsOf(deletion).map((one) => select(one, memory)))
      for (const part of partsOf(selected, isAtomic ? Number.POSITIVE_INFINITY : atomicItems)) {
        const options = { origin: originOf(part, origin), memory, isDryRun, isListing: listsItems(deletion, part) }
        const write = () =>
          decideAlone(options, async (state, turn) => ({
            events: await decideDeletion(deletion, state, rules, selected, part, turn),
          }))
        const { events, position } = await (isWhole(part) ? write() : this.#writePart(write))
        // Without writes, the items of all parts are still there in the end.
        const isRemoved = isDryRun ? deletion.type === 'RemoveCollection' : isRemoval(events.at(-1))
        outcome = { position, isRemoved }
        if (events.length === 0) continue
        done = withWrite(done, { position: position - events.length + 1, events })
        if (done.writes === 1)
          ids = events.slice(0, LISTED_IDS).flatMap((event) => (isItemEvent(event) ? event.id : []))
      }
    } catch (error) {
      throw isDryRun ? error : afterProgress(error, done)
    } finally {
      memory.release()
    }
    ids ??= await deletedIds(this.#options.journal, done)
    return { ...done, ...outcome, ...(isDryRun && { writes: 0 }), ids }
  }

  #writePart<Result>(write: () => Promise<Result>): Promise<Result> {
    return this.#parts.run(() => {
      if (this.#isEnding) throw new Refusal('Unavailable', 'The server is ending.')
      return write()
    })
  }

  /** The outcome of an earlier request. */
  async repeat({ position, progress }: CompletedRequest): Promise<DeletionOutcome> {
    const { journal, memory: budget } = this.#options
    const memory = new Memory(budget, 'writes')
    try {
      const events = await eventsOfWrite(journal, position, memory)
      const done = progress ?? withWrite(NOTHING_DELETED, { position: position - events.length + 1, events })
      const isRemoved = isRemoval(events.at(-1))
      return { ...done, position, isRemoved, ids: await deletedIds(journal, done) }
    } finally {
      memory.release()
    }
  }

  /** Ends deletions in several writes after the current one. */
  end(): void {
    this.#isEnding = true
  }
}

function isRemoval(event: DomainEvent | undefined): boolean {
  return event?.type === 'CollectionRemoved'
}

/** The ids that the response lists, as the journal has them. */
export async function deletedIds(
  journal: Pick<Journal, 'read'>,
  { from, listed }: Pick<DeletionProgress, 'from' | 'listed'>,
): Promise<readonly ItemId[]> {
  const ids: ItemId[] = []
  if (listed === 0) return ids
  for await (const { events } of journal.read(from, from + listed - 1)) {
    for (const event of events) if (isItemEvent(event)) ids.push(event.id)
  }
  return ids
}

function* partsOf(selected: readonly (SelectedItems | undefined)[], atomicItems: number): Generator<DeletionPart> {
  const all = selected.map((one) => one?.ids ?? [])
  if (all.reduce((sum, { length }) => sum + length, 0) <= atomicItems) {
    yield { ids: all, isFirst: true, isLast: true }
    return
  }
  const size = Math.min(PART_ITEMS, atomicItems)
  let ids = all.map((): ItemId[] => [])
  let count = 0
  let isFirst = true
  for (const [index, list] of all.entries()) {
    for (const id of list) {
      if (count === size) {
        yield { ids, isFirst, isLast: false }
        ids = all.map(() => [])
        count = 0
        isFirst = false
      }
      ids[index]?.push(id)
      count++
    }
  }
  yield { ids, isFirst, isLast: true }
}

function originOf({ isLast }: DeletionPart, origin: Origin): Origin {
  return isLast || origin.key === undefined ? origin : { ...origin, key: partKey(origin.key) }
}

/** The refusal of a deletion of which some writes were made. */
function afterProgress(error: unknown, { deleted, writes }: DeletionProgress): unknown {
  if (!(error instanceof Refusal) || writes === 0) return error
  const { code, message, faults, cause } = error
  const before = `${deleted} items were deleted, in ${writes} writes; the next one failed`
  return new Refusal(code, `${before}: ${message}`, faults, { cause, progress: { deleted, writes } })
}
