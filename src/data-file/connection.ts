import type { FileContents } from '../collections/file-items.ts'
import type { Sized } from '../events/bytes-after.ts'
import type { Position } from '../events/event.ts'
import type { Journal } from '../events/journal.ts'
import type { Past } from '../projections/past.ts'
import type { Steps } from '../runtime/time-slices.ts'
import type { Base } from './reader.ts'

/** The dependencies of the data file once the journal is open. */
export interface Connection {
  readonly journal: Pick<Journal, 'id' | 'head' | 'read'> & Sized
  readonly past: Pick<Past, 'names' | 'collection'>
  /** Validates edited items against their schemas. */
  readonly check: (file: FileContents) => Steps<void>
  /** Turns an edit into events; `hash` is that of the edited file. */
  readonly merge: (edit: { readonly file: FileContents; readonly base: Base }, hash: string) => Merging
}

/** An edit that is merged in parts. */
export interface Merging {
  /** Writes the edited items found so far, which are removed from the contents. More will follow. */
  part(): Promise<void>
  /** Writes everything else. */
  rest(): Promise<Merged>
}

/** The outcome of merging an edit. */
export interface Merged {
  /** Position of the last event before the edit's first event. */
  readonly basis: Position
  readonly events: number
  /** The first and the last position of what each write has from the file. */
  readonly writes: readonly (readonly [Position, Position])[]
  readonly conflicts: readonly { readonly collection: string; readonly id: string | number }[]
}

export interface TakenInEdit extends Omit<Merged, 'writes'> {
  /** Position of the base. */
  readonly basedOn: Position
}
