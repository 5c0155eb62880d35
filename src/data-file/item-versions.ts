import type { FileContents } from '../collections/file-items.ts'
import { keyOf } from '../collections/item.ts'
import {
  type DomainEvent,
  type ItemEvent,
  type ItemId,
  isCreation,
  isItemEvent,
  type Position,
} from '../events/event.ts'
import { type Journal, lastPosition, positioned, type Recorded } from '../events/journal.ts'
import { parseSteps } from '../json/parse-steps.ts'
import { type JsonObject, own } from '../json/value.ts'
import { equalSteps } from '../json/value-steps.ts'
import type { Slices, Steps } from '../runtime/time-slices.ts'
import type { Base } from './base.ts'
import { type EditSummary, itemName, oldestOf } from './edit-summary.ts'
import { type FileVersion, lastEventOf } from './file-version.ts'
import { DATA_FILE_ACTOR } from './merged-edits.ts'

export interface EditHistory {
  readonly journal: Pick<Journal, 'read'>
  readonly slices: Slices
  readonly idField: string
  /** The items of the edited file. */
  readonly file: FileContents
  /** Those that differ from `base`. */
  readonly edited: EditSummary
  /** The last content of the file before the edit. */
  readonly base: Base
  /** Earlier versions of the file, in order; the last one is `base`. */
  readonly versions: readonly FileVersion[]
}

/** How an item differs from that in the edited file. */
export interface ItemDifference {
  /** Number of members that differ. */
  readonly members: number
  /**
   * Number of differing members whose value the file has in common with its last content: the file cannot have been
   * edited from an earlier version.
   */
  readonly later: number
}

/** An item from one event to the next. */
export interface ItemVersion extends ItemDifference {
  /** Position of the event; 0 for the version before the first event that was read. */
  readonly at: Position
  readonly isByHand: boolean
}

/** An item with events since the oldest version of the file. */
export interface ChangedItem {
  readonly collection: string
  readonly id: ItemId
  /** In the order of positions. */
  readonly versions: ItemVersion[]
}

/** Reads the items that changed between the oldest version of the file and the last one, by name, with their versions. */
export class ItemVersions {
  readonly #history: EditHistory
  readonly #items = new Map<string, ChangedItem>()
  /** Items whose version before the first event is still to be read, by the position of that version. */
  readonly #unread = new Map<Position, { readonly event: ItemEvent; readonly item: ChangedItem }>()

  constructor(history: EditHistory) {
    this.#history = history
  }

  async read(): Promise<ReadonlyMap<string, ChangedItem>> {
    const { journal, edited, versions } = this.#history
    const end = Math.max(...versions.map(lastEventOf))
    for await (const recorded of journal.read(oldestOf(versions) + 1, end)) await this.#add(recorded)
    for await (const [at, before] of eventsAt(journal, [...this.#unread.keys()])) {
      const { event, item } = this.#unread.get(at) as { readonly event: ItemEvent; readonly item: ChangedItem }
      if (isItemEvent(before)) item.versions[0] = firstVersion(await this.#compare(event, textOf(before)))
    }
    for (const { collection, id, versions } of this.#items.values()) {
      if (edited.lastChange(collection, id) <= end) ignoreReverts(versions)
    }
    return this.#items
  }

  async #add(recorded: Recorded): Promise<void> {
    const isByHand = recorded.actor === DATA_FILE_ACTOR
    for (const [at, event] of positioned(recorded)) {
      if (!isItemEvent(event)) continue
      const name = itemName(event.collection, event.id)
      const item = this.#items.get(name) ?? (await this.#begin(event, name))
      item.versions.push({ at, ...(await this.#compare(event, textOf(event))), isByHand })
    }
  }

  /** Adds an item with its version before its first event. */
  async #begin(event: ItemEvent, name: string): Promise<ChangedItem> {
    const { collection, id } = event
    // An item that the edit does not touch equals its last event, so its earlier versions differ.
    const changed = { members: 1, later: this.#isInFile(event) ? 1 : 0 }
    const before = isCreation(event) ? await this.#compare(event, undefined) : changed
    const item = { collection, id, versions: [firstVersion(before)] }
    if (!isCreation(event) && this.#history.edited.recent.has(name)) this.#unread.set(event.prior, { event, item })
    this.#items.set(name, item)
    return item
  }

  #compare({ collection, id }: ItemEvent, then: string | undefined): ItemDifference | Promise<ItemDifference> {
    const { base, edited, slices, idField } = this.#history
    const last = base.get(collection)?.item(keyOf(id))?.text
    const name = itemName(collection, id)
    const unedited = this.#isInFile({ collection, id }) ? last : undefined
    const now = edited.recent.has(name) ? edited.recent.get(name) : unedited
    return slices.run(() => differenceOf(now, last, then, edited.unnamed.get(collection), idField))
  }

  #isInFile({ collection, id }: Pick<ItemEvent, 'collection' | 'id'>): boolean {
    return this.#history.file.get(collection)?.indexOf(id) !== undefined
  }
}

function firstVersion(difference: ItemDifference): ItemVersion {
  return { at: 0, ...difference, isByHand: false }
}

/** If the next wanted position is closer than this, reading continues; otherwise it starts anew there. */
const NEAR = 1000

/** The events at these positions, in order. Each record is read once. */
async function* eventsAt(
  journal: Pick<Journal, 'read'>,
  positions: readonly Position[],
): AsyncGenerator<readonly [Position, DomainEvent]> {
  const wanted = positions.toSorted((a, b) => a - b)
  const last = wanted.at(-1) as Position
  let next = 0
  while (next < wanted.length) {
    const first = next
    for await (const recorded of journal.read(wanted[next] as Position, last)) {
      for (const [at, event] of positioned(recorded)) {
        if (at !== wanted[next]) continue
        next++
        yield [at, event]
      }
      if (next === wanted.length || (wanted[next] as Position) > lastPosition(recorded) + NEAR) break
    }
    if (next === first) throw new Error(`the journal has no event at position ${wanted[next]}`)
  }
}

/**
 * Reverting a change made by an earlier edit is no sign of an older version, because the editor knows that change. So
 * versions with and without it count as equally near, unless others wrote since: reverting would undo their writes as
 * well.
 */
function ignoreReverts(versions: ItemVersion[]): void {
  const from = Math.max(
    0,
    versions.findLastIndex(({ isByHand }) => !isByHand),
  )
  const members = Math.min(...versions.slice(from).map((version) => version.members))
  for (let index = from; index < versions.length; index++) {
    versions[index] = { ...(versions[index] as ItemVersion), members }
  }
}

function textOf(event: ItemEvent): string | undefined {
  return 'item' in event ? event.item.text : undefined
}

/** Compares an item in the file (`now`) with its text when the file was last written, and with its text `then`. */
function* differenceOf(
  now: string | undefined,
  last: string | undefined,
  then: string | undefined,
  unnamed: ReadonlyMap<string, number> | undefined,
  idField: string,
): Steps<ItemDifference> {
  if (now === then) return { members: 0, later: 0 }
  const thenItem = yield* parsed(then)
  if (now === undefined) {
    if (thenItem && unnamed) {
      const { [idField]: _, ...rest } = thenItem
      // The file contains it without its id, so the item must not count as new.
      const members = unnamed.get(JSON.stringify(rest))
      if (members !== undefined) return { members: -members, later: 0 }
    }
    return { members: Object.keys(thenItem ?? {}).length, later: 0 }
  }
  const nowItem = (yield* parsed(now)) as JsonObject
  const lastItem = last === now ? nowItem : yield* parsed(last)
  let members = 0
  let later = 0
  for (const name of new Set([...Object.keys(nowItem), ...Object.keys(thenItem ?? {})])) {
    const value = own(nowItem, name)
    if (thenItem && (yield* equalSteps(value, own(thenItem, name)))) continue
    members++
    if (lastItem && (yield* equalSteps(value, own(lastItem, name)))) later++
  }
  return { members, later }
}

function* parsed(text: string | undefined): Steps<JsonObject | undefined> {
  return text === undefined ? undefined : ((yield* parseSteps(text)) as JsonObject)
}
