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
import { type Journal, lastPosition, positioned } from '../events/journal.ts'
import { parseSteps } from '../json/parse-steps.ts'
import { type JsonObject, own } from '../json/value.ts'
import { equalSteps } from '../json/value-steps.ts'
import type { Slices, Steps } from '../runtime/time-slices.ts'
import { DATA_FILE_ACTOR } from './merged-edits.ts'
import type { Base } from './reader.ts'
import { holds, lastOf, type Shown } from './shown.ts'

export interface SearchOptions {
  readonly journal: Pick<Journal, 'read'>
  readonly slices: Slices
  /** The items of the edited file. */
  readonly file: FileContents
  /** Those that differ from `base`. */
  readonly edited: EditedItems
  /** The last content of the file before the edit. */
  readonly base: Base
  /** Earlier contents of the file, in order; the last one is `base`. */
  readonly shown: readonly Shown[]
}

/** The position of an item's last event, 0 if it has none. */
export type LastChange = (collection: string, key: string) => Position

/** An item that the edit may have replaced without having seen its last version. */
export interface Doubtful {
  readonly collection: string
  readonly id: ItemId
}

export interface Found {
  /** The content from which the edit was made; undefined: the last one. */
  readonly origin: Shown | undefined
  readonly doubtful: readonly Doubtful[]
}

/** How an item differs from that in the edited file. */
interface Difference {
  /** Number of members that differ. */
  readonly members: number
  /**
   * Number of differing members whose value the file has in common with its last content: the file cannot have been
   * edited from an earlier version.
   */
  readonly later: number
}

/** An item from one event to the next. */
interface Version extends Difference {
  /** Position of the event; 0 for the version before the first event that was read. */
  readonly at: Position
  readonly isByHand: boolean
}

interface Touched {
  readonly collection: string
  readonly id: ItemId
  /** In the order of positions. */
  readonly versions: Version[]
}

/** Highest total length of edited items that are compared with earlier versions; further ones are only counted. */
const MOST_COMPARED = 16 * 1024 * 1024

/**
 * The changes of an edit, collected while the file is read. Only items with events since the oldest content distinguish
 * the contents: their texts are kept, others are counted.
 */
export class EditedItems {
  readonly #lastChange: LastChange
  readonly #oldest: Position
  /** By name, the text in the file; undefined for removed items. */
  readonly recent = new Map<string, string | undefined>()
  /** Differences that are the same for all contents. */
  others = 0
  /** By collection: the texts of items without an id, with their number of members. */
  readonly unnamed = new Map<string, Map<string, number>>()
  #characters = 0

  constructor(shown: readonly Shown[], lastChange: LastChange) {
    this.#lastChange = lastChange
    this.#oldest = oldestOf(shown)
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
          this.#note(name, item.id, item.text)
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
        if (items?.indexOf(id) === undefined) this.#note(name, id, undefined)
        yield
      }
    }
  }

  #note(collection: string, id: ItemId, text: string | undefined): void {
    const isRecent = this.lastChange(collection, id) > this.#oldest
    if (isRecent) this.#characters += text?.length ?? 0
    if (isRecent && this.#characters <= MOST_COMPARED) this.recent.set(nameOf(collection, id), text)
    else this.others++
  }
}

/**
 * Finds the content from which an edit was made: the one that differs from the edited file in the fewest members of
 * items, and of several the latest. An editor may have opened the file long before it was last written.
 *
 * Only items with events since the oldest content distinguish the contents, so the journal is read from there on and no
 * state is folded. If no edited item is among them, the last content is the nearest, and nothing is read.
 */
export async function findOrigin(options: SearchOptions): Promise<Found> {
  const { shown, slices, edited, file, base } = options
  if (shown.length < 2) return LAST
  await slices.run(() => edited.removed(file, base))
  if (edited.recent.size === 0) return LAST
  const touched = await touchedItems(options)
  return slices.run(() => nearest(shown, edited, touched))
}

const LAST: Found = { origin: undefined, doubtful: [] }

function oldestOf(shown: readonly Shown[]): Position {
  return Math.min(...shown.map(({ position }) => position))
}

async function touchedItems({
  journal,
  slices,
  file,
  edited,
  base,
  shown,
}: SearchOptions): Promise<ReadonlyMap<string, Touched>> {
  const oldest = oldestOf(shown)
  const touched = new Map<string, Touched>()
  const isInFile = (collection: string, id: ItemId): boolean => file.get(collection)?.indexOf(id) !== undefined
  const compare = ({ collection, id }: ItemEvent, text: string | undefined): Difference | Promise<Difference> => {
    const last = base.get(collection)?.item(keyOf(id))?.text
    const name = nameOf(collection, id)
    const unedited = isInFile(collection, id) ? last : undefined
    const now = edited.recent.has(name) ? edited.recent.get(name) : unedited
    const unnamed = edited.unnamed.get(collection)
    return slices.run(() => differenceOf(now, last, text, unnamed))
  }
  /** Items whose version before the first event is still to be read, by the position of that version. */
  const earlier = new Map<Position, { readonly event: ItemEvent; readonly item: Touched }>()
  const setFirst = ({ versions }: Touched, difference: Difference): void => {
    versions[0] = { at: 0, ...difference, isByHand: false }
  }
  const end = Math.max(...shown.map(lastOf))
  for await (const recorded of journal.read(oldest + 1, end)) {
    const isByHand = recorded.actor === DATA_FILE_ACTOR
    for (const [at, event] of positioned(recorded)) {
      if (!isItemEvent(event)) continue
      const { collection, id } = event
      const name = nameOf(collection, id)
      let item = touched.get(name)
      if (!item) {
        // An item that the edit does not touch equals its last event, so its earlier versions differ.
        const changed = { members: 1, later: isInFile(collection, id) ? 1 : 0 }
        item = { collection, id, versions: [] }
        setFirst(item, isCreation(event) ? await compare(event, undefined) : changed)
        if (!isCreation(event) && edited.recent.has(name)) earlier.set(event.prior, { event, item })
        touched.set(name, item)
      }
      item.versions.push({ at, ...(await compare(event, textOf(event))), isByHand })
    }
  }
  for await (const [at, before] of eventsAt(journal, [...earlier.keys()])) {
    const { event, item } = earlier.get(at) as { readonly event: ItemEvent; readonly item: Touched }
    if (isItemEvent(before)) setFirst(item, await compare(event, textOf(before)))
  }
  for (const { collection, id, versions } of touched.values()) {
    if (edited.lastChange(collection, id) <= end) forgive(versions)
  }
  return touched
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
 * Reverting a change made by an earlier edit is no sign of an older content, because the editor knows that change. So
 * contents with and without it count as equally near, unless others wrote since: reverting would undo their writes as
 * well.
 */
function forgive(versions: Version[]): void {
  const from = Math.max(
    0,
    versions.findLastIndex(({ isByHand }) => !isByHand),
  )
  const members = Math.min(...versions.slice(from).map((version) => version.members))
  for (let index = from; index < versions.length; index++) {
    versions[index] = { ...(versions[index] as Version), members }
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
): Steps<Difference> {
  if (now === then) return { members: 0, later: 0 }
  const thenItem = yield* parsed(then)
  if (now === undefined) {
    if (thenItem && unnamed) {
      const { id: _, ...rest } = thenItem
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

function* nearest(shown: readonly Shown[], edited: EditedItems, touched: ReadonlyMap<string, Touched>): Steps<Found> {
  const totals = yield* totalsOf(shown, touched)
  const membersIn = (index: number): number => (totals[index] as Difference).members
  const mayBe = (index: number): boolean => totals[index]?.later === 0
  const last = shown.length - 1
  let best = last
  for (let index = last; index >= 0; index--) {
    if (mayBe(index) && membersIn(index) < membersIn(best)) best = index
  }
  let others = edited.others
  for (const name of edited.recent.keys()) if (!touched.has(name)) others++
  // Without differences, somebody restored exactly an earlier content on purpose.
  if (others + membersIn(best) <= 0) best = last
  const origin = shown[best] as Shown
  const doubtful: Doubtful[] = []
  // If the edit may also have been made from an earlier content, it may not have seen what came in between.
  const earliest = shown.findIndex(
    (_, index) => index === best || (mayBe(index) && membersIn(index) <= membersIn(best)),
  )
  const earlier = shown[earliest] as Shown
  for (const { collection, id, versions } of earliest < best ? touched.values() : []) {
    yield
    if (versionIn(versions, origin).members <= 0) continue
    const isUnseen = ({ at, isByHand }: Version): boolean => !isByHand && holds(origin, at) && !holds(earlier, at)
    if (versions.some(isUnseen)) doubtful.push({ collection, id })
  }
  return { origin: best === last ? undefined : origin, doubtful }
}

/** How each content differs from the edited file, except for differences that all share. */
function* totalsOf(shown: readonly Shown[], touched: ReadonlyMap<string, Touched>): Steps<Difference[]> {
  const positions = [...new Set(shown.map(({ position }) => position))].sort((a, b) => a - b)
  /** For each position, the change relative to the one before. */
  const steps = positions.map(() => ({ members: 0, later: 0 }))
  const byHand: Touched[] = []
  for (const item of touched.values()) {
    let before: Difference = { members: 0, later: 0 }
    for (const version of item.versions) {
      const step = steps[countBelow(positions, version.at)]
      if (step) {
        step.members += version.members - before.members
        step.later += version.later - before.later
      }
      before = version
      yield
    }
    if (item.versions.some(({ isByHand }) => isByHand)) byHand.push(item)
  }
  const sum = { members: 0, later: 0 }
  const sums = new Map<Position, Difference>()
  for (const [index, position] of positions.entries()) {
    sum.members += steps[index]?.members ?? 0
    sum.later += steps[index]?.later ?? 0
    sums.set(position, { ...sum })
  }
  const totals: Difference[] = []
  for (const one of shown) {
    const total = { ...(sums.get(one.position) as Difference) }
    const alone = { position: one.position, edits: [] }
    for (const { versions } of one.edits.length > 0 ? byHand : []) {
      const [withEdits, without] = [versionIn(versions, one), versionIn(versions, alone)]
      total.members += withEdits.members - without.members
      total.later += withEdits.later - without.later
      yield
    }
    totals.push(total)
  }
  return totals
}

function versionIn(versions: readonly Version[], shown: Shown): Version {
  return versions.findLast(({ at }) => at === 0 || holds(shown, at)) as Version
}

/** Number of ascending positions below a limit. */
function countBelow(ascending: readonly Position[], limit: Position): number {
  let low = 0
  let high = ascending.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((ascending[middle] as Position) < limit) low = middle + 1
    else high = middle
  }
  return low
}

/** Encoded as JSON, so that no two items share a name. */
function nameOf(collection: string, id: ItemId): string {
  return JSON.stringify([collection, keyOf(id)])
}
