// Showing and taking back a request: its items become what they were before it, by new events, unless they have changed since.
import { signal } from '@preact/signals'
import type { JsonObject } from '../../../src/json/value.ts'
import { client, may } from './app.ts'
import { counted } from './format.ts'
import { say } from './messages.tsx'
import { showProblem } from './shell.tsx'
import { showPosition } from './time.ts'
import { type Event, placeOf, type RequestEvents } from './words.ts'

/** The actor of edits of the data file, among them the first reading of it. */
const DATA_FILE = 'data-file'
const PAGE = 500
/** Longer requests are not read, and more items not restored one by one. */
const MOST_EVENTS = 5000
const MOST_ITEMS = 50
const TOO_MANY = `These are more than ${MOST_EVENTS} events: show the moment before them in the journal, and restore it.`

/** The request that is being undone. */
const undoing = signal<string>()

/** An item, a collection or everything, which one request restores. */
interface Part {
  readonly to: number
  readonly collection?: string
  readonly id?: string | number
}

function mayUndo({ actor }: RequestEvents): boolean {
  return may('admin') && actor !== DATA_FILE
}

interface ActionsProperties {
  readonly request: RequestEvents
  readonly event: Event
  /** The words for the request. */
  readonly subject: string
  readonly mayUndo?: boolean
  /** Attributes of the buttons by their names. */
  readonly part?: (name: string) => object
}

/** Shows the moment after an event, and undoes its request. */
export function Actions({ request, event, subject, mayUndo: isOffered = true, part = () => ({}) }: ActionsProperties) {
  return (
    <>
      <button
        type="button"
        class="link"
        aria-label={`Show ${subject} at this moment`}
        onClick={() => showPosition(event.position)}
        {...part('show')}
      >
        Show
      </button>
      {isOffered && mayUndo(request) && (
        <button
          type="button"
          class="link"
          aria-label={`Undo: ${subject}`}
          disabled={undoing.value !== undefined}
          onClick={() => void undo(request)}
          {...part('undo')}
        >
          Undo
        </button>
      )}
    </>
  )
}

async function undo(request: RequestEvents): Promise<void> {
  if (undoing.value !== undefined) return
  undoing.value = request.requestId
  try {
    const events = await wholeOf(request)
    const parts = events ? await partsOf(events) : TOO_MANY
    if (typeof parts === 'string') return say(parts, { isBad: true })
    for (const part of parts) await client.restore(part)
    const items = new Set(events?.map((event) => JSON.stringify([event.collection, 'id' in event && event.id])))
    say(`Undone: ${counted(items.size, 'item')}.`)
  } catch (error) {
    showProblem(error)
  } finally {
    undoing.value = undefined
  }
}

/** The fewest restores, or why there are none. */
async function partsOf(events: readonly Event[]): Promise<readonly Part[] | string> {
  const [first, last] = [(events[0] as Event).position, (events.at(-1) as Event).position]
  const isAlone = last - first + 1 === events.length
  const parts: Part[] = []
  let areUnchanged = isAlone
  for (const collection of new Set(events.map((event) => event.collection))) {
    const own = events.filter((event) => event.collection === collection)
    const later = await client.eventPage({ collection, from: last + 1, limit: 1 })
    const isUnchanged = isAlone && later.events.length === 0
    areUnchanged &&= isUnchanged && later.position === last
    if (isUnchanged && own.length > 1) parts.push({ to: first - 1, collection })
    else {
      const items = await itemsOf(collection, own)
      if (typeof items === 'string') return items
      parts.push(...items)
    }
  }
  return parts.length > 1 && areUnchanged ? [{ to: first - 1 }] : parts
}

/** Restores of the items one by one, or which of them has changed since. */
async function itemsOf(collection: string, events: readonly Event[]): Promise<readonly Part[] | string> {
  const byItem = new Map<string, { readonly first: Event; readonly last: Event }>()
  for (const event of events) {
    const key = 'id' in event ? JSON.stringify(event.id) : ''
    byItem.set(key, { first: byItem.get(key)?.first ?? event, last: event })
  }
  if (byItem.size > MOST_ITEMS) return `${collection} has changed since: restore a moment before it in the journal.`
  const parts: Part[] = []
  for (const { first, last } of byItem.values()) {
    const id = 'id' in first && first.id !== '' ? first.id : undefined
    const one = { collection, ...(id !== undefined && { id }) }
    const { events: later } = await client.eventPage({ ...one, from: last.position + 1, limit: 1 })
    if (later.length > 0)
      return `${placeOf(collection, id).text} has changed since: compare its revisions in the journal.`
    parts.push({ ...one, to: first.position - 1 })
  }
  return parts
}

/** All events of a request, the oldest first: a list may show some of them. Undefined if there are too many. */
async function wholeOf({ requestId, actor, events, skipped }: RequestEvents): Promise<readonly Event[] | undefined> {
  if (events.length + skipped > MOST_EVENTS) return undefined
  const own = [events[0] as Event]
  for (const order of ['desc', 'asc'] as const) {
    let limit = order === 'desc' ? Math.min(PAGE, events.length) : 1
    for (let isWhole = false; !isWhole; limit = PAGE) {
      if (own.length > MOST_EVENTS) return undefined
      const from = order === 'desc' ? (own[0] as Event).position - 1 : (own.at(-1) as Event).position + 1
      if (from === 0) break
      const page = await client.eventPage<JsonObject>({ from, order, limit })
      const end = page.events.findIndex((event) => event.requestId !== requestId || event.actor !== actor)
      const found = end < 0 ? page.events : page.events.slice(0, end)
      if (order === 'desc') own.unshift(...found.toReversed())
      else own.push(...found)
      isWhole = end >= 0 || page.next === undefined
    }
  }
  return own
}
