import type { FileContents } from '../collections/file-items.ts'
import { keyOf } from '../collections/item.ts'
import type { ItemId, Position } from '../events/event.ts'
import { parseSteps } from '../json/parse-steps.ts'
import type { JsonObject } from '../json/value.ts'
import type { Steps } from '../runtime/time-slices.ts'
import type { Base } from './base.ts'
import type { FileVersion } from './file-version.ts'

/** The position of an item's last event, 0 if it has none. */
export type LastChange = (collection: string, key: string) => Position

/** Highest total length of edited items that are compared with earlier versions; further ones are only counted. */
const MOST_COMPARED = 16 * 1024 * 1024

/**
 * The changes of an edit, collected while the file is read. Only items with events since the oldest version distinguish
 * the versions: their texts are kept, others are counted.
 */
export class EditSummary {
  readonly #lastChange: LastChange
  readonly #oldest: Position
  /** By name, the text in the file; undefined for removed items. */
  readonly recent = new Map<string, string | undefined>()
  /** Differences that are the same for all versions. */
  others = 0
  /** By collection: the texts of items without an id, with their number of members. */
  readonly unnamed = new Map<string, Map<string, number>>()
  #characters = 0

  constructor(versions: readonly FileVersion[], lastChange: LastChange) {
    this.#lastChange = lastChange
    this.#oldest = oldestOf(versions)
  }

  lastChange(collection: string, id: ItemId): Position {
    return this.#lastChange(collection, keyOf(id))
  }

  /** Adds the edited items that were read since the last call. */
  *add(file: FileContents): Steps<void> {
    for (const [name, items] of file) {
      for (const { item } of items.edited) {
        yield
        if (item.id !== undefined) {
          this.#addItem(name, item.id, item.text)
          continue
        }
        const members = Object.keys((yield* parseSteps(item.text)) as JsonObject).length
        this.others += members
        this.#characters += item.text.length
        if (this.#characters > MOST_COMPARED) continue
        const unnamed = this.unnamed.get(name) ?? new Map<string, number>()
        this.unnamed.set(name, unnamed.set(item.text, members))
      }
    }
  }

  /** Adds the items that the file no longer has. */
  *removed(file: FileContents, base: Base): Steps<void> {
    for (const [name, before] of base) {
      const items = file.get(name)
      if (items?.matched?.isAll) continue
      for (const { id } of before.items()) {
        if (items?.indexOf(id) === undefined) this.#addItem(name, id, undefined)
        yield
      }
    }
  }

  #addItem(collection: string, id: ItemId, text: string | undefined): void {
    const isRecent = this.lastChange(collection, id) > this.#oldest
    if (isRecent) this.#characters += text?.length ?? 0
    if (isRecent && this.#characters <= MOST_COMPARED) this.recent.set(itemName(collection, id), text)
    else this.others++
  }
}

export function oldestOf(versions: readonly FileVersion[]): Position {
  return Math.min(...versions.map(({ position }) => position))
}

export function itemName(collection: string, id: ItemId): string {
  return JSON.stringify([collection, keyOf(id)])
}
