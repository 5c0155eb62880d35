import { Item } from '../collections/item.ts'
import { type DomainEvent, type ItemEvent, isItemEvent, type Position } from '../events/event.ts'
import { lastPosition, type Recorded } from '../events/journal.ts'
import type { List } from '../runtime/chunked-list.ts'
import type { NotCreatedItems } from './create-items.ts'
import type { MergeConflict } from './decide-edit.ts'

/** The result of a command on an item, durable and readable. */
export interface Outcome {
  /** The position of the write's last event, or of the state that was read if nothing was written. */
  readonly position: Position
  /** Undefined when the command changes nothing. */
  readonly event: ItemEvent | undefined
  /** The item after the command; undefined after a deletion. */
  readonly item: Item | undefined
}

export interface RestoreOutcome {
  /** Position of the last event, or of the compared state if there are no events. */
  readonly position: Position
  /** The events that were, or would be, appended. */
  readonly events: List<DomainEvent>
}

export interface BulkOutcome extends RestoreOutcome {
  readonly notCreated: NotCreatedItems
}

export interface MergeOutcome {
  /** Position of the last event before the edit's first event. */
  readonly basis: Position
  /** Number of events of the edit; those of latest items follow. */
  readonly edited: number
  /** Number of all events. */
  readonly events: number
  readonly conflicts: readonly MergeConflict[]
}

export interface ImportOutcome extends Omit<MergeOutcome, 'edited'> {
  /** Position of the state from which the edit was made. */
  readonly basedOn: Position
}

export function outcomeOf(recorded: Recorded): Outcome {
  const position = lastPosition(recorded)
  const event = recorded.events.at(-1)
  if (!event || !isItemEvent(event)) throw new Error(`position ${position} is not an item's event`)
  const item = 'item' in event ? new Item(event.id, event.item, event.revision, position) : undefined
  return { position, event, item }
}
