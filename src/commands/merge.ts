import type { FileContents } from '../collections/file-items.ts'
import type { AcceptedState } from '../collections/overlay.ts'
import type { DomainEvent } from '../events/event.ts'
import { parseSteps } from '../json/parse-steps.ts'
import { equalSteps } from '../json/value-steps.ts'
import { ChunkedList, type List } from '../runtime/chunked-list.ts'
import type { Steps } from '../runtime/time-slices.ts'
import { type BaseCollection, CollectionMerge, type IsSame, type MergeConflict } from './collection-merge.ts'
import type { Rules } from './rules.ts'

/** An edited data file, and the state from which the edit was made. */
export interface Edit {
  readonly file: FileContents
  readonly base: ReadonlyMap<string, BaseCollection>
}

/** For edits, the order of an item's members does not matter. */
const equalAsJson: IsSame = function* (a, b) {
  return yield* equalSteps(yield* parseSteps(a.text), yield* parseSteps(b.text))
}

/**
 * A three-way merge, in steps: only the editor's changes become events. An edit may arrive in parts; each part and the
 * rest are decided separately, on the state accepted by then. The texts of a part's items are not needed again.
 */
export class Merge {
  readonly conflicts: MergeConflict[] = []
  readonly #edit: Edit
  readonly #rules: Rules
  readonly #isSame: IsSame
  readonly #collections = new Map<string, CollectionMerge>()

  constructor(edit: Edit, rules: Rules, isSame: IsSame = equalAsJson) {
    this.#edit = edit
    this.#rules = rules
    this.#isSame = isSame
  }

  *part(accepted: AcceptedState): Steps<List<DomainEvent>> {
    const events = new ChunkedList<DomainEvent>()
    for (const [name, items] of this.#edit.file) {
      if (items.edited.length > 0) yield* this.#collection(name).part(items, accepted.collection(name), events)
    }
    return events
  }

  /** Events of the other edited items, of removed items and collections, and of the order. */
  *rest(accepted: AcceptedState, events = new ChunkedList<DomainEvent>()): Steps<List<DomainEvent>> {
    const { file, base } = this.#edit
    for (const name of new Set([...base.keys(), ...file.keys()])) {
      const items = file.get(name)
      const merge = this.#collection(name)
      if (items) yield* merge.rest(items, accepted.collection(name), events)
      else yield* merge.removed(accepted.collection(name), events)
    }
    return events
  }

  #collection(name: string): CollectionMerge {
    let merge = this.#collections.get(name)
    if (!merge) {
      merge = new CollectionMerge(this.#edit.base.get(name), this.#rules, this.#isSame, this.conflicts)
      this.#collections.set(name, merge)
    }
    return merge
  }
}
