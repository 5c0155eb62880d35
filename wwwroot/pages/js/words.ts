// Words for what happened: the events of one request as one line.
import type { RecordedEvent, ValueChange } from '../../../src/client/index.ts'
import type { JsonObject } from '../../../src/json/value.ts'
import { counted, short, visible } from './format.ts'

/** `changes` is null where the journal is damaged. */
export type Event = RecordedEvent<JsonObject> & { readonly changes?: readonly ValueChange[] | null }

/** The events of one request, the newest first. */
export interface RequestEvents {
  readonly requestId: string
  readonly actor: string
  readonly ms: number
  readonly events: readonly Event[]
  /** How many further events it has, which were not read; infinite if that is not known. */
  readonly skipped: number
}

/** An item, or a collection or single object. */
export interface Place {
  readonly collection: string
  readonly id?: string | number
  readonly text: string
}

/** A change: the name of what changed, and the value before and after. */
export interface Line {
  readonly subject: string
  /** The item or collection that the subject begins with. */
  readonly place?: Place
  readonly before?: string
  readonly after?: string
  readonly isDeletion: boolean
}

/** Names and units of what has measured, by the value of the field that readings are grouped by. */
export interface Names {
  /** The sensor that has measured a reading; undefined for other items. */
  groupOf(collection: string, item: JsonObject): string | undefined
  nameOf(group: string): string
  unitOf(group: string, measure: string): string
}

const CHARACTERS = 40
const MAIN = 'temperature'
const TIME = /^\d{4}-\d\d-\d\dT\d\d:/
const DELETES = /Deleted|Removed/
export const VERBS: Readonly<Record<Event['type'], string>> = {
  ItemCreated: 'created',
  ItemReplaced: 'replaced',
  ItemPatched: 'changed',
  ItemDeleted: 'deleted',
  ObjectCreated: 'created',
  ObjectDeleted: 'deleted',
  CollectionCreated: 'created',
  CollectionRemoved: 'deleted',
  CollectionOrdered: 'reordered',
  IdsReset: 'ids begin anew',
  ItemsExpired: 'expired',
}

/**
 * Joins neighbouring events of the same request.
 * @param skipped how many events of its request come after an event, at its position, that were not read
 */
export function byRequest(
  events: readonly Event[],
  skipped: ReadonlyMap<number, number> = new Map(),
): readonly RequestEvents[] {
  const requests: { requestId: string; actor: string; ms: number; events: Event[]; skipped: number }[] = []
  for (const event of events) {
    const { requestId, actor } = event
    let last = requests.at(-1)
    // A client may send the same id with each of its requests.
    if (last?.requestId !== requestId || last.actor !== actor) {
      last = { requestId, actor, ms: Date.parse(event.time), events: [], skipped: 0 }
      requests.push(last)
    }
    last.events.push(event)
    last.skipped += skipped.get(event.position) ?? 0
  }
  return requests
}

export function lineOf({ events, skipped }: RequestEvents, names: Names | undefined): Line {
  const measured = names && skipped === 0 && readingsLine(events, names)
  if (measured) return measured
  // A first item makes its collection.
  const items = events.filter((one) => 'id' in one)
  const shown = items.length > 0 ? items : events
  if (shown.length === 1 && skipped === 0) return eventLine(shown[0] as Event)
  const isDeletion = shown.every(({ type }) => DELETES.test(type))
  const collections = [...new Set(shown.map(({ collection }) => collection))].reverse()
  const verbs = new Set(shown.map(({ type }) => VERBS[type]))
  const [verb = ''] = verbs.size === 1 ? verbs : ['changed']
  const what = items.length > 0 ? 'item' : 'collection'
  const isUnknown = skipped === Number.POSITIVE_INFINITY
  const total = `${isUnknown ? 'more than ' : ''}${counted(events.length + (isUnknown ? 0 : skipped), 'change')}`
  // Events that were not read may be of another type.
  const number = skipped === 0 ? counted(shown.length, what) : `${total}, ${what}s`
  const [first = ''] = collections
  const place = collections.length === 1 ? placeOf(first) : undefined
  const where = place?.text ?? `${collections.slice(0, 3).map(visible).join(', ')}${collections.length > 3 ? '…' : ''}`
  return { subject: `${where}: ${number} ${verb}`, isDeletion, ...(place && { place }) }
}

export function placeOf(collection: string, id?: string | number): Place {
  // A single object has an empty id.
  if (id === undefined || id === '')
    return { collection, text: collection === '' ? '""' : short(collection, CHARACTERS) }
  return { collection, id, text: short(`${collection}/${id}`, 2 * CHARACTERS) }
}

function eventLine(event: Event): Line {
  const { type, collection } = event
  const place = placeOf(collection, 'id' in event ? event.id : undefined)
  const isDeletion = DELETES.test(type)
  if (event.type === 'ItemsExpired') {
    const count = event.runs.reduce((sum, run) => sum + run.count, 0)
    const what = count > 0 ? `${counted(count, 'item')} expired` : `the rule ${visible(event.rule)} was confirmed`
    return { subject: `${place.text}: ${what}`, place, isDeletion }
  }
  const changes = event.changes ?? []
  // A time says less than what changed with it.
  const change = changes.find(({ after }) => typeof after !== 'string' || !TIME.test(after)) ?? changes[0]
  if (!change || change.path === '') {
    const title = titleOf('item' in event ? event.item : change?.before)
    const isSame = event.changes?.length === 0
    const what = isSame ? `${VERBS[type]}, without a difference` : VERBS[type]
    return { subject: `${place.text} ${what}`, place, isDeletion, ...(title !== '' && { after: title }) }
  }
  const more = changes.length > 1 ? ` and ${changes.length - 1} more` : ''
  const start = commonStart(change.before, change.after)
  return {
    subject: `${place.text} ${short(nameOfPath(change.path), CHARACTERS)}${more}`,
    place,
    before: textFrom(start, change.before),
    after: textFrom(start, change.after),
    isDeletion,
  }
}

/** Readings, and the items that show the newest ones; undefined if there is something else. */
function readingsLine(events: readonly Event[], names: Names): Line | undefined {
  const groups = new Set<string>()
  let main: { readonly place: Place; readonly change: ValueChange } | undefined
  for (const event of events) {
    if (!('item' in event)) return undefined
    const group = names.groupOf(event.collection, event.item)
    if (group === undefined) return undefined
    groups.add(group)
    const changes = changesOf(event).filter(({ after }) => typeof after === 'number')
    const change = changes.find(({ path }) => path.endsWith(`/${MAIN}`)) ?? changes[0]
    // A new reading does not say what was measured before, and the sensor that shows it does.
    const isBetter = !main || (main.change.before === undefined && change?.before !== undefined)
    if (change && isBetter) main = { change, place: placeOf(event.collection, event.id) }
  }
  if (groups.size > 1) return { subject: `${groups.size} sensors reported`, isDeletion: false }
  const [group = ''] = groups
  const name = visible(names.nameOf(group))
  if (!main) return { subject: `${name} reported`, isDeletion: false }
  const measure = main.change.path.split('/').at(-1) ?? ''
  const unit = names.unitOf(group, measure)
  return {
    place: { ...main.place, text: name },
    subject: `${name}${measure === MAIN ? '' : ` ${visible(measure)}`}`,
    ...(typeof main.change.before === 'number' && { before: valueText(main.change.before) }),
    after: `${valueText(main.change.after)}${unit === '' ? '' : ` ${visible(unit)}`}`,
    isDeletion: false,
  }
}

/** The values that an event changed; those of a new item as if they had been added to it. */
function changesOf(event: Event & { readonly item: JsonObject }): readonly ValueChange[] {
  const { item } = event
  const changes = event.changes ?? []
  if (changes[0]?.path !== '') return changes
  const data = item.data ?? item
  if (typeof data !== 'object' || Array.isArray(data)) return []
  return Object.entries(data).map(([name, after]) => ({ path: `/${name}`, after }))
}

/** The name by which one would call an item. */
function titleOf(item: unknown): string {
  if (typeof item !== 'object' || item === null) return ''
  const { title, name, text, body } = item as Readonly<Record<string, unknown>>
  const found = [title, name, text, body].find((one) => typeof one === 'string' && one !== '')
  return found === undefined ? '' : `“${short(found, CHARACTERS)}”`
}

/** Where two texts begin to be shown, so that one sees where they differ. */
function commonStart(one: unknown, other: unknown): number {
  if (typeof one !== 'string' || typeof other !== 'string' || one.length + other.length <= CHARACTERS) return 0
  let start = 0
  while (start < one.length && one[start] === other[start]) start++
  // From the beginning of the word before.
  return start < CHARACTERS / 2 ? 0 : Math.max(0, one.lastIndexOf(' ', start - CHARACTERS / 4) + 1)
}

function textFrom(start: number, value: unknown): string {
  return start > 0 ? `…${valueText((value as string).slice(start))}` : valueText(value)
}

export function nameOfPath(path: string): string {
  return path
    .slice(1)
    .split('/')
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .join('.')
}

export function valueText(value: unknown): string {
  return value === undefined ? 'nothing' : short(value, CHARACTERS)
}
