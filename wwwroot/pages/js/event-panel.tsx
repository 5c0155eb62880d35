// One event beside the list: who did it and when, what it changed, and what else happened to its item.
import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import type { ValueChange } from '../../../src/client/index.ts'
import { changesBetween } from '../../../src/json/changes.ts'
import type { JsonObject } from '../../../src/json/value.ts'
import { client, may } from './app.ts'
import { Changes } from './changes.tsx'
import { count, dateTime, visible } from './format.ts'
import { go, opened } from './journal-list.ts'
import { focusList } from './journal-rows.tsx'
import { Value } from './json-view.tsx'
import { Link } from './link.tsx'
import { resource } from './resource.ts'
import { RestoreDialog } from './restore.tsx'
import { asOf, showPosition } from './time.ts'
import { type Event, placeOf, VERBS } from './words.ts'

/** Events of the item that are read at a time. */
const PAGE = 30

/** The position that is about to be restored. */
const restoring = signal<number>()
/** How many events of the item are shown. */
const most = signal(PAGE)

const event = resource(
  () => opened.value && { position: opened.value.event },
  ({ position }) => eventAt(position),
)
const base = resource(
  () => (opened.value?.base === undefined ? undefined : { position: opened.value.base }),
  ({ position }) => eventAt(position),
)
const history = resource(
  () => {
    const one = event.value.value
    if (!one || !('id' in one)) return undefined
    return { collection: one.collection, id: one.id, limit: most.value, from: asOf.value }
  },
  ({ from, ...filter }) =>
    client.eventPage<JsonObject>({ ...filter, order: 'desc', changes: true, ...(from !== undefined && { from }) }),
)

async function eventAt(position: number): Promise<Event> {
  const response = await client.request('GET', `/events/${position}?changes=true`)
  return response.json() as Event
}

export function close(): void {
  go({ event: undefined, with: undefined })
  focusList()
}

export function EventPanel() {
  const position = opened.value?.event ?? 0
  const heading = useRef<HTMLHeadingElement>(null)
  useLayoutEffect(() => {
    most.value = PAGE
    // Who came here by an address begins at the top of the page.
    if (position > 0 && document.activeElement !== document.body) heading.current?.focus({ preventScroll: true })
  }, [position])
  const shown = event.value.value?.position === position ? event.value.value : undefined
  const place = shown && placeOf(shown.collection, 'id' in shown ? shown.id : undefined)
  return (
    <section id="event" class="card event" aria-labelledby="event-title">
      <div class="row panel-head">
        <h2 id="event-title" class="break" tabIndex={-1} ref={heading}>
          {shown ? `${place?.text} ${VERBS[shown.type]}` : 'Event'}
        </h2>
        <button type="button" class="plain push" aria-label="Close" onClick={close}>
          ✕
        </button>
      </div>
      {event.error.value && <p class="bad-text break">{event.error.value.message}</p>}
      {shown && <Facts event={shown} />}
      {restoring.value !== undefined && place && (
        <RestoreDialog
          to={restoring.value}
          collection={place.collection}
          {...(place.id !== undefined && { id: place.id })}
          onClose={() => {
            restoring.value = undefined
          }}
        />
      )}
    </section>
  )
}

function Facts({ event: shown }: { readonly event: Event }) {
  const { position, time, actor, requestId, collection } = shown
  const other = base.value.value?.position === opened.value?.base ? base.value.value : undefined
  const id = 'id' in shown ? String(shown.id) : ''
  const search = new URLSearchParams({ collection, at: String(position), ...(id !== '' && { item: id }) })
  const restore = (to: number) => () => {
    restoring.value = to
  }
  return (
    <>
      <dl class="facts number">
        <Fact name="When" value={dateTime(Date.parse(time), { withMs: true })} />
        <Fact name="Who" value={<Link to={{ actor }}>{visible(actor)}</Link>} />
        <Fact name="Request" value={<Link to={{ requestId }}>{visible(requestId)}</Link>} />
        <Fact name="Position" value={count(position)} />
        {'revision' in shown && <Fact name="Revision" value={count(shown.revision)} />}
      </dl>
      <div class="row">
        <button type="button" onClick={() => showPosition(position)}>
          Show this moment
        </button>
        {may('admin') && (
          <>
            <button type="button" onClick={restore(position)}>
              Back to this…
            </button>
            <button type="button" onClick={restore(position - 1)}>
              Back to before…
            </button>
          </>
        )}
        <a href={`collections.html?${search}`}>{id === '' ? 'Collection' : 'Item'} at this moment</a>
      </div>
      {other ? (
        <>
          <h3>
            From revision {revisionOf(other)} to revision {revisionOf(shown)}
          </h3>
          <Differences changes={differences(itemOf(other), itemOf(shown))} />
          <Link to={{ with: undefined }}>What changed since the revision before</Link>
        </>
      ) : (
        shown.changes && (
          <>
            <h3>What changed</h3>
            <Differences changes={shown.changes} />
          </>
        )
      )}
      {'item' in shown && (
        <details>
          <summary>The item after this event</summary>
          <Value value={shown.item} />
        </details>
      )}
      {'ids' in shown && (
        <details>
          <summary>The order after this event</summary>
          <Value value={shown.ids} />
        </details>
      )}
      {'id' in shown && <History event={shown} />}
    </>
  )
}

function Fact({ name, value }: { readonly name: string; readonly value: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd class="break">{value}</dd>
    </div>
  )
}

function revisionOf(one: Event): number {
  return 'revision' in one ? one.revision : 0
}

function itemOf(one: Event): JsonObject | undefined {
  return 'item' in one ? one.item : undefined
}

function differences(before: JsonObject | undefined, after: JsonObject | undefined): readonly ValueChange[] {
  if (before && after) return changesBetween(before, after)
  return before || after ? [{ path: '', ...(before && { before }), ...(after && { after }) }] : []
}

function Differences({ changes }: { readonly changes: readonly ValueChange[] }) {
  if (changes.length === 0) return <p class="quiet">No differences: the same content was written again.</p>
  return <Changes changes={changes} />
}

/** All events of the item, up to the moment that is shown. */
function History({ event: shown }: { readonly event: Event }) {
  const page = history.value.value
  const events = page?.events[0]?.collection === shown.collection ? page.events : []
  return (
    <>
      <h3>History of this item</h3>
      <ol class="timeline">
        {events.map((one) => (
          <li key={one.position} aria-current={one.position === shown.position}>
            <p class="about">
              <strong>{VERBS[one.type]}</strong>
              <span class="quiet break">by {visible(one.actor)}</span>
              <time class="quiet number" dateTime={one.time}>
                {dateTime(Date.parse(one.time))}
              </time>
              <span class="quiet number">revision {revisionOf(one)}</span>
            </p>
            {one.changes && one.changes.length > 0 && <Changes changes={one.changes} />}
            {one.position !== shown.position && (
              <p class="row">
                <Link to={{ event: one.position, with: undefined }}>Look at it</Link>
                <Link to={{ with: one.position }}>Compare with it</Link>
              </p>
            )}
          </li>
        ))}
      </ol>
      {page?.next !== undefined && (
        <button type="button" onClick={() => (most.value += PAGE)}>
          Older
        </button>
      )}
    </>
  )
}
