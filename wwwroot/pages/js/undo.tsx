// Showing and taking back a request: its items become what they were before it, by new events, unless they have changed since.
import { signal } from '@preact/signals'
import { Problem, type RestoreRequest } from '../../../src/client/index.ts'
import type { JsonObject } from '../../../src/json/value.ts'
import { client, may } from './app.ts'
import { Button, messageOf } from './controls.tsx'
import { counted } from './format.ts'
import { say } from './messages.tsx'
import { showPosition } from './time.ts'
import { type Event, placeOf } from './words.ts'

/** The actors of edits of the data file, among them the first reading of it, and of items that expire. */
const NOT_UNDONE = ['data-file', 'retention']
/** Longer requests are not read, and more items not restored one by one. */
const MOST_EVENTS = 5000
const MOST_ITEMS = 50
/** Around an event, in which others of its request may be: a search of all times takes longer. */
const AROUND_MS = 60_000

/** The members of an event that are needed to undo it. */
export type Write = Pick<Event, 'type' | 'collection' | 'position'> & { readonly id?: string | number }

const isUndoing = signal(false)

interface ActionsProperties {
  /** The last event of a request. */
  readonly event: Event
  /** The words for the request. */
  readonly subject: string
  readonly mayUndo?: boolean
  /** Attributes of the buttons by their names. */
  readonly part?: (name: string) => object
}

/** Shows the moment after an event, and undoes its request. */
export function Actions({ event, subject, mayUndo = true, part = () => ({}) }: ActionsProperties) {
  return (
    <>
      <Button
        text="Show"
        label={`Show ${subject} at this moment`}
        class="link"
        run={() => showPosition(event.position)}
        {...part('show')}
      />
      {mayUndo && may('admin') && !NOT_UNDONE.includes(event.actor) && (
        <Button
          text="Undo"
          label={`Undo: ${subject}`}
          class="link"
          disabled={isUndoing.value}
          run={() => undo(async () => restoresOf(await eventsOf(event)))}
          {...part('undo')}
        />
      )}
    </>
  )
}

/** Restores one after the other, and says what came of it. A condition of each keeps what others have written since. */
export async function undo(find: () => Promise<readonly RestoreRequest[]>): Promise<void> {
  isUndoing.value = true
  try {
    let events = 0
    for (const restore of await find()) events += (await client.restore(restore)).events
    say(events === 0 ? 'All is as it was before.' : `Undone by ${counted(events, 'event')}.`)
  } catch (error) {
    say(isChanged(error) ? 'Something of it has changed since.' : messageOf(error), { isBad: true })
  }
  isUndoing.value = false
}

function isChanged(error: unknown): boolean {
  return error instanceof Problem && error.code === 'PreconditionFailed'
}

/** When the events of a request happened, as a filter. */
export function timesOf(first: Event, last: Event) {
  return {
    since: new Date(Date.parse(first.time) - AROUND_MS).toISOString(),
    until: new Date(Date.parse(last.time) + AROUND_MS).toISOString(),
  }
}

/** The events of a request next to each other, one of which is `event`: a client may send the same id with each request. */
async function eventsOf(event: Event): Promise<readonly Event[]> {
  const { requestId, actor, position } = event
  let found: Event[] = []
  for await (const one of client.events<JsonObject>({ requestId, actor, ...timesOf(event, event) })) {
    const last = found.at(-1)?.position ?? 0
    if (one.position !== last + 1) {
      if (last >= position) break
      found = []
    }
    found.push(one)
    if (found.length > MOST_EVENTS) {
      const why = `These are more than ${MOST_EVENTS} events`
      throw new Error(`${why}: show the moment before them in the journal, and restore it.`)
    }
  }
  return found
}

/** The restores that take back what was written: of whole collections, or of items if others in them have changed. */
export async function restoresOf(writes: readonly Write[]): Promise<readonly RestoreRequest[]> {
  const restores: RestoreRequest[] = []
  const { to, ifUnchangedSince } = beforeAll(writes)
  // Between the writes there may be those of others.
  const isAlone = ifUnchangedSince - to === writes.length
  for (const collection of new Set(writes.map((one) => one.collection))) {
    const own = writes.filter((one) => one.collection === collection)
    const ids = new Set(own.flatMap(({ id }) => (id === undefined ? [] : [id])))
    const whole = { collection, ...beforeAll(own) }
    // A deleted item that is restored alone becomes the last one.
    const isOfAll = ids.size === 0 || own.length > 1 || own[0]?.type === 'ItemDeleted'
    if (isOfAll && (await isPossible(whole, isAlone ? undefined : ids))) restores.push(whole)
    else if (ids.size === 0 || ids.size > MOST_ITEMS) {
      throw new Error(`${placeOf(collection).text} has changed since: restore a moment before it in the journal.`)
    } else {
      for (const id of ids) {
        const item = { collection, id, ...beforeAll(own.filter((one) => one.id === id)) }
        if (!(await isPossible(item))) {
          throw new Error(`${placeOf(collection, id).text} has changed since: compare its revisions in the journal.`)
        }
        restores.push(item)
      }
    }
  }
  return restores
}

/** The moment before the first of the writes, and the condition that nothing has changed since the last. */
function beforeAll(writes: readonly Write[]) {
  const positions = writes.map(({ position }) => position)
  return { to: Math.min(...positions) - 1, ifUnchangedSince: Math.max(...positions) }
}

/** Whether the server accepts a restore, and it changes only the items with these ids, if there are any. */
async function isPossible(restore: RestoreRequest, ids?: ReadonlySet<string | number>): Promise<boolean> {
  try {
    const { changes, events } = await client.restore({ ...restore, dryRun: true })
    return !ids || (changes.length === events && changes.every(({ id }) => id === undefined || ids.has(id)))
  } catch (error) {
    if (isChanged(error)) return false
    throw error
  }
}
