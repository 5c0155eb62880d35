// The history of an item: its events, the newest first, with what each changed.
import { computed, type ReadonlySignal, signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import type { EventPage, ValueChange } from '../../../src/client/index.ts'
import type { JsonObject } from '../../../src/json/value.ts'
import { client, now } from './app.ts'
import { Button } from './controls.tsx'
import { count, counted, moment, visible } from './format.ts'
import { resource } from './resource.ts'
import { type Event, nameOfPath, VERBS, valueText } from './words.ts'

/** Events that are read at a time. */
const PAGE = 30
const MOST_CHANGES = 50

interface Place {
  readonly collection: string
  readonly id: string | number
  /** The position of the moment that is shown; undefined: the present. */
  readonly at: number | undefined
}

interface ItemHistory {
  /** Undefined until it is read. */
  readonly page: ReadonlySignal<EventPage<JsonObject> | undefined>
  readOlder(): void
}

/** The history of the item at a place, which is read again when another member of the place changes, too. */
export function itemHistory(place: () => Place | undefined): ItemHistory {
  const limit = signal(PAGE)
  const read = resource(
    () => {
      const wanted = place()
      return wanted && { ...wanted, limit: limit.value }
    },
    async ({ collection, id, at, limit }) => {
      const filter = { collection, id, limit, order: 'desc', changes: true } as const
      const page = await client.eventPage<JsonObject>({ ...filter, ...(at !== undefined && { from: at }) })
      return { collection, id, page }
    },
  )
  const page = computed(() => {
    const { collection, id, page } = read.value.value ?? {}
    const wanted = place()
    return collection === wanted?.collection && id === wanted?.id ? page : undefined
  })
  const readOlder = (): void => {
    limit.value += PAGE
  }
  return { page, readOlder }
}

interface TimelineProperties {
  readonly history: ItemHistory
  /** The position of the event that is shown beside it. */
  readonly current?: number
  /** The buttons and links below an event. */
  readonly children: (event: Event) => ComponentChildren
}

export function Timeline({ history, current, children }: TimelineProperties) {
  const page = history.page.value
  if (!page) return <p class="quiet">Reading…</p>
  if (page.events.length === 0) return <p class="quiet">It has no events at this moment.</p>
  return (
    <>
      <ol class="timeline">
        {page.events.map((event) => (
          <li key={event.position} aria-current={event.position === current}>
            <p class="row about">
              <strong>{VERBS[event.type]}</strong>
              <span class="quiet break">by {visible(event.actor)}</span>
              <time class="quiet number" dateTime={event.time} title={`position ${event.position}`}>
                {moment(Date.parse(event.time), now(), { withSeconds: true })}
              </time>
              {'revision' in event && <span class="quiet number">revision {count(event.revision)}</span>}
            </p>
            {event.changes && <Changes changes={event.changes} />}
            <p class="row">{children(event)}</p>
          </li>
        ))}
      </ol>
      {page.next !== undefined && <Button text="Older" run={history.readOlder} />}
    </>
  )
}

/** The paths of an item that an event changed, each with its value before and after. */
export function Changes({ changes }: { readonly changes: readonly ValueChange[] }) {
  if (changes.length === 0) return <p class="quiet">No differences.</p>
  return (
    <ul class="changes">
      {changes.slice(0, MOST_CHANGES).map(({ path, ...change }) => (
        <li key={path} class="break">
          <span class="quiet">{path === '' ? 'item' : nameOfPath(path)}</span>{' '}
          {'before' in change && <del>{valueText(change.before)}</del>}{' '}
          {'after' in change && <ins>{valueText(change.after)}</ins>}
        </li>
      ))}
      {changes.length > MOST_CHANGES && <li class="quiet">{counted(changes.length - MOST_CHANGES, 'more change')}</li>}
    </ul>
  )
}
