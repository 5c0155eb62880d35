import type { FileContents } from '../../collections/snapshot.ts'
import type { Sized } from '../../events/bytes-after.ts'
import type { Position } from '../../events/event.ts'
import type { Journal } from '../../events/journal.ts'
import type { Steps } from '../../slices.ts'
import type { Past } from '../past.ts'
import type { Base } from './reading.ts'

/** What the data file needs once there is a journal. */
export interface Connection {
  readonly journal: Pick<Journal, 'id' | 'head' | 'read'> & Sized
  readonly past: Pick<Past, 'names' | 'collection'>
  /** Refuses edited items that do not satisfy their schema. */
  readonly check: (file: FileContents) => Steps<void>
  /** Makes events of an edit; `hash` is that of the edited file. */
  readonly merge: (edit: { readonly file: FileContents; readonly base: Base }, hash: string) => Merging
}

/** An edit that is merged in parts. */
export interface Merging {
  /** Makes one write of the items that are known to be edited, which are removed from the contents. More are to follow. */
  part(): Promise<void>
  /** Makes one write of all that is left. */
  rest(): Promise<Merged>
}

/** The outcome of merging an edit. */
export interface Merged {
  /** Position of the last event before the edit's first event. */
  readonly basis: Position
  readonly events: number
  /** The first and the last position of each write. */
  readonly writes: readonly (readonly [Position, Position])[]
  readonly conflicts: readonly { readonly collection: string; readonly id: string | number }[]
}

export interface TakenInEdit extends Omit<Merged, 'writes'> {
  /** Position of the state that the edit was made from. */
  readonly basedOn: Position
}
