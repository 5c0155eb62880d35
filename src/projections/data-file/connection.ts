import type { FileContents } from '../../collections/snapshot.ts'
import type { Position } from '../../events/event.ts'
import type { Journal } from '../../events/journal.ts'
import type { Base } from './reading.ts'

/** What the data file needs once there is a journal. */
export interface Connection {
  readonly journal: Pick<Journal, 'id' | 'head' | 'read'>
  /** Makes events of an edit; `hash` is that of the edited file. */
  readonly takeIn: (edit: { readonly file: FileContents; readonly base: Base }, hash: string) => Promise<Merged>
}

/** The outcome of merging an edit. */
export interface Merged {
  /** Of the last event before the edit's own, which follow it. */
  readonly basis: Position
  readonly events: number
  readonly conflicts: readonly { readonly collection: string; readonly id: string | number }[]
  /** The file with an id in every item. */
  readonly file: FileContents
}

export interface TakenInEdit extends Omit<Merged, 'file'> {
  /** Position of the state that the edit was made from. */
  readonly basedOn: Position
}
