/*
 * An edit of the data file was made from one of the versions that the file had, its base. `BaseSearch` finds the version,
 * and `openBase` opens the state that it shows.
 */

import { keyOf } from '../collections/item.ts'
import { itemsIn, NO_ITEMS } from '../collections/stored-items.ts'
import type { MergeConflict } from '../commands/decide-edit.ts'
import type { Base, BaseItems } from '../commands/difference.ts'
import type { Edit } from '../commands/edit.ts'
import { type ItemChange, type ItemId, isCreation, itemChanges, type Position } from '../events/event.ts'
import { type Journal, positioned, type Recorded, recordAt } from '../events/journal.ts'
import { parseText } from '../json/parse.ts'
import type { JsonObject } from '../json/value.ts'
import type { Past } from '../projections/past.ts'
import { FOR_A_REQUEST, type Snapshot, Views } from '../projections/views.ts'
import type { Turn } from '../runtime/turns.ts'
import {
  type ChangedItem,
  differenceOf,
  type ItemDifference,
  type ItemVersion,
  ignoreReverts,
  itemTextAfter,
  shownVersion,
} from './item-versions.ts'
import { DATA_FILE_ACTOR } from './merged-edits.ts'
import { type FileVersion, lastEventOf, showsEvent } from './state-file.ts'

export interface BaseSearchResult {
  /** The version from which the edit was made; undefined: the last one. */
  readonly version: FileVersion | undefined
  /** Items that the edit may have replaced without having seen their last version. */
  readonly doubtful: readonly MergeConflict[]
}

export const LAST_VERSION: BaseSearchResult = { version: undefined, doubtful: [] }

interface BaseSearchOptions {
  readonly journal: Pick<Journal, 'read' | 'at'>
  readonly idField: string
  /** The last content of the file before the edit. */
  readonly base: Base
  /** Earlier versions of the file, in order; the last one is `base`. */
  readonly versions: readonly FileVersion[]
  /** The position of an item's last event, 0 if it has none. */
  readonly lastChange: (collection: string, id: ItemId) => Position
  readonly turn: Turn
}

/** File versions between two looks at the turn. */
const VERSIONS_AT_ONCE = 8

/**
 * Finds the version from which an edit was made: the one that differs from the edited file in the fewest members of
 * items, and of several the latest. An editor may have opened the file long before it was last written.
 *
 * Only items with events since the oldest version distinguish the versions, so the journal is read from there on and no
 * state is folded. If no edited item is among them, the last version is the nearest, and nothing is read.
 */
export class BaseSearch {
  readonly #options: BaseSearchOptions
  readonly #oldest: Position
  /** The edited items that distinguish the versions, by name: the text in the file, undefined for removed items. */
  readonly #recent = new Map<string, string | undefined>()
  /** By collection: the texts of items without an id, with their number of members. */
  readonly #unnamed = new Map<string, Map<string, number>>()
  /** Number of differences that are the same for all versions. */
  #shared = 0
  /** The items with events between the oldest version and the last one, by name. */
  readonly #changed = new Map<string, ChangedItem>()

  constructor(options: BaseSearchOptions) {
    this.#options = options
    this.#oldest = Math.min(...options.versions.map(({ position }) => position))
  }

  /** `edit` is the difference from the last version. */
  async find(edit: Edit): Promise<BaseSearchResult> {
    await this.#summarize(edit)
    if (this.#recent.size === 0) return LAST_VERSION
    await this.#readChanges()
    return this.#nearest()
  }

  async #summarize({ collections }: Edit): Promise<void> {
    const { base, turn } = this.#options
    for (const { name, isRemoved, wasThere, edited, removed } of collections) {
      for (const { id, text } of edited) {
        if (turn.isOver) await turn.next()
        if (id !== undefined) {
          this.#add(name, id, text)
          continue
        }
        const members = Object.keys(parseText(text) as JsonObject).length
        this.#shared += members
        const unnamed = this.#unnamed.get(name) ?? new Map<string, number>()
        this.#unnamed.set(name, unnamed.set(text, members))
      }
      for (const id of removed) {
        if (turn.isOver) await turn.next()
        this.#add(name, id, undefined)
      }
      const isReplaced = isRemoved || !wasThere
      for (const { id } of isReplaced ? itemsIn(base.get(name) ?? NO_ITEMS) : []) {
        if (turn.isOver) await turn.next()
        this.#add(name, id, undefined)
      }
    }
  }

  #add(name: string, id: ItemId, text: string | undefined): void {
    if (this.#options.lastChange(name, id) > this.#oldest) this.#recent.set(itemName(name, id), text)
    else this.#shared++
  }

  async #readChanges(): Promise<void> {
    const { journal, versions, lastChange, turn } = this.#options
    const end = Math.max(...versions.map(lastEventOf))
    for await (const recorded of journal.read(this.#oldest + 1, end)) {
      const isFromFile = recorded.actor === DATA_FILE_ACTOR
      for (const [at, event] of positioned(recorded)) {
        for (const change of itemChanges(event)) {
          if (turn.isOver) await turn.next()
          const { collection, id } = change
          const name = itemName(collection, id)
          const before = this.#changed.get(name)
          const item = before ?? { collection, id, versions: [await this.#versionBefore(change, name)] }
          this.#changed.set(name, item)
          item.versions.push({ at, ...this.#compared(change, name, itemTextAfter(change)), isFromFile })
        }
      }
    }
    for (const { collection, id, versions } of this.#changed.values()) {
      if (turn.isOver) await turn.next()
      if (lastChange(collection, id) <= end) ignoreReverts(versions)
    }
  }

  /** The version of an item before the first event that was read. */
  async #versionBefore(event: ItemChange, name: string): Promise<ItemVersion> {
    const version = { at: 0, isFromFile: false }
    if (isCreation(event)) return { ...version, ...this.#compared(event, name, undefined) }
    if (this.#recent.has(name)) return { ...version, ...this.#compared(event, name, await this.#textAt(event.prior)) }
    // An item that the edit does not touch equals its last event, so its earlier versions differ.
    return { ...version, members: 1, later: this.#lastText(event) === undefined ? 0 : 1 }
  }

  async #textAt(position: Position): Promise<string | undefined> {
    const { events } = await recordAt(this.#options.journal, position)
    const event = events.at(0)
    return event && 'item' in event ? event.item.text : undefined
  }

  #compared(event: ItemChange, name: string, then: string | undefined): ItemDifference {
    const last = this.#lastText(event)
    const now = this.#recent.has(name) ? this.#recent.get(name) : last
    return differenceOf(now, last, then, this.#unnamed.get(event.collection), this.#options.idField)
  }

  #lastText({ collection, id }: ItemChange): string | undefined {
    return this.#options.base.get(collection)?.item(keyOf(id))?.text
  }

  async #nearest(): Promise<BaseSearchResult> {
    const { versions } = this.#options
    const totals = await this.#totals()
    const membersIn = (index: number): number => (totals[index] as ItemDifference).members
    const mayBeBase = (index: number): boolean => totals[index]?.later === 0
    const last = versions.length - 1
    let best = last
    for (let index = last; index >= 0; index--) {
      if (mayBeBase(index) && membersIn(index) < membersIn(best)) best = index
    }
    let shared = this.#shared
    for (const name of this.#recent.keys()) if (!this.#changed.has(name)) shared++
    // Without differences, somebody restored exactly an earlier version on purpose.
    if (shared + membersIn(best) <= 0) best = last
    const nearest = versions[best] as FileVersion
    // If the edit may also have been made from an earlier version, it may not have seen what came in between.
    const earliest = versions.findIndex(
      (_, index) => index === best || (mayBeBase(index) && membersIn(index) <= membersIn(best)),
    )
    const doubtful = earliest < best ? await this.#changedBetween(versions[earliest] as FileVersion, nearest) : []
    return { version: best === last ? undefined : nearest, doubtful }
  }

  /** The items that clients changed between two versions of the file, and that differ from the edited file. */
  async #changedBetween(earlier: FileVersion, later: FileVersion): Promise<readonly MergeConflict[]> {
    const { turn } = this.#options
    const doubtful: MergeConflict[] = []
    const isUnseen = ({ at, isFromFile }: ItemVersion): boolean =>
      !isFromFile && showsEvent(later, at) && !showsEvent(earlier, at)
    for (const { collection, id, versions } of this.#changed.values()) {
      if (turn.isOver) await turn.next()
      if (shownVersion(versions, later).members > 0 && versions.some(isUnseen)) doubtful.push({ collection, id })
    }
    return doubtful
  }

  /** How each version differs from the edited file, except for differences that all share. */
  async #totals(): Promise<readonly ItemDifference[]> {
    const { versions: fileVersions, turn } = this.#options
    const totals = fileVersions.map(() => ({ members: 0, later: 0 }))
    for (const { versions } of this.#changed.values()) {
      for (let index = 0; index < fileVersions.length; index++) {
        if (index % VERSIONS_AT_ONCE === 0 && turn.isOver) await turn.next()
        const total = totals[index] as { members: number; later: number }
        const { members, later } = shownVersion(versions, fileVersions[index] as FileVersion)
        total.members += members
        total.later += later
      }
    }
    return totals
  }
}

function itemName(collection: string, id: ItemId): string {
  return JSON.stringify([collection, keyOf(id)])
}

/** A base that the store keeps until it is closed. */
export type OpenBase = Base & { close(): void }

interface BaseSources {
  readonly views: Views
  readonly journal: Pick<Journal, 'read' | 'at'>
  readonly past: Pick<Past, 'names' | 'collection'>
}

/** The state that a version of the data file shows, folded from the journal only if writes lie between merged edits. */
export async function openBase(options: BaseSources, version: FileVersion): Promise<OpenBase> {
  const { views, journal, past } = options
  const position = lastEventOf(version)
  if (!isWhole(version)) {
    return foldedFrom(views.store.directory, journal, [[1, version.position], ...version.edits])
  }
  return position === views.position ? views.snapshot() : PastBase.at(past, position)
}

/** Whether a version shows all events up to its last one. */
function isWhole({ position, edits }: FileVersion): boolean {
  let end = position
  for (const [first, last] of edits) {
    if (first > end + 1) return false
    end = last
  }
  return true
}

class PastBase extends Map<string, BaseItems> {
  readonly #release: (() => void)[] = []

  static async at(past: BaseSources['past'], position: Position): Promise<PastBase> {
    const base = new PastBase()
    try {
      for (const name of await past.names(position)) {
        const reading = await past.collection(name, position)
        base.#release.push(() => reading.release())
        base.set(name, reading.items)
      }
    } catch (error) {
      base.close()
      throw error
    }
    return base
  }

  close(): void {
    for (const release of this.#release.splice(0)) release()
  }
}

/** The collections after the events of some ranges of positions alone. */
async function foldedFrom(
  directory: string,
  journal: BaseSources['journal'],
  ranges: FileVersion['edits'],
): Promise<Snapshot> {
  const past = Views.temporary(directory)
  await past.build(eventsIn(journal, ranges), FOR_A_REQUEST)
  return past.snapshot()
}

async function* eventsIn(journal: BaseSources['journal'], ranges: FileVersion['edits']): AsyncGenerator<Recorded> {
  for (const [from, to] of ranges) if (from <= to) yield* journal.read(from, to)
}
