// One event beside the list: who did it and when, what it changed, and what else happened to its item.
import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import type { ValueChange } from '../../../src/client/index.ts'
import { changesBetween } from '../../../src/json/changes.ts'
import { client, may } from './app.ts'
import { Button, set } from './controls.tsx'
import { count, dateTime, visible } from './format.ts'
import { Changes, itemHistory, Timeline } from './item-history.tsx'
import { opened } from './journal-list.ts'
import { Value } from './json-view.tsx'
import { Link } from './link.tsx'
import { resource } from './resource.ts'
import { RestoreDialog } from './restore.tsx'
import { asOf, showPosition } from './time.ts'
import { type Event, placeOf, VERBS } from './words.ts'

/** Which version is about to be restored. */
const restoring = signal<'this' | 'before'>()
const event = resource(() => opened.value?.event, eventAt)
const base = resource(() => opened.value?.base, eventAt)
const history = itemHistory(() => {
  const one = event.value.value
  return one && 'id' in one ? { collection: one.collection, id: one.id, at: asOf.value } : undefined
})

async function eventAt(position: number): Promise<Event> {
  const response = await client.request('GET', `/events/${position}?changes=true`)
  return response.json() as Event
}

export function EventPanel({ onClose }: { readonly onClose: () => void }) {
  const position = opened.value?.event ?? 0
  const heading = useRef<HTMLHeadingElement>(null)
  useLayoutEffect(() => {
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
        <Button text="✕" class="plain push" label="Close" run={onClose} />
      </div>
      {event.error.value && <p class="bad-text break">{event.error.value.message}</p>}
      {shown && <Facts event={shown} />}
      {restoring.value !== undefined && place && (
        <RestoreDialog
          {...place}
          position={position}
          isBefore={restoring.value === 'before'}
          onClose={set(restoring, undefined)}
        />
      )}
    </section>
  )
}

function Facts({ event: shown }: { readonly event: Event }) {
  const { position, time, actor, requestId, collection } = shown
  const other = base.value.value?.position === opened.value?.base ? base.value.value : undefined
  const changes = other ? differences(other, shown) : shown.changes
  const id = 'id' in shown ? String(shown.id) : ''
  const search = new URLSearchParams({ collection, at: String(position), ...(id !== '' && { item: id }) })
  return (
    <>
      <dl class="facts number">
        <Fact name="When" value={dateTime(Date.parse(time), { withMs: true })} />
        <Fact name="Who" value={<Link to={{ actor }}>{visible(actor)}</Link>} />
        <Fact name="Request" value={<Link to={{ requestId }}>{visible(requestId)}</Link>} />
        <Fact name="Position" value={count(position)} />
        {'revision' in shown && <Fact name="Revision" value={count(shown.revision)} />}
        {'rule' in shown && <Fact name="Rule" value={visible(shown.rule)} />}
      </dl>
      <div class="row">
        <Button text="Show this moment" run={() => showPosition(position)} />
        {may('admin') && <Button text="Restore this version…" run={set(restoring, 'this')} />}
        {may('admin') && <Button text="Restore the version before…" run={set(restoring, 'before')} />}
        <a href={`collections.html?${search}`}>{id === '' ? 'Collection' : 'Item'} at this moment</a>
      </div>
      {changes && (
        <>
          <h3>{other ? `From revision ${revisionOf(other)} to revision ${revisionOf(shown)}` : 'What changed'}</h3>
          <Changes changes={changes} />
          {other && <Link to={{ with: undefined }}>What changed since the revision before</Link>}
        </>
      )}
      {('item' in shown || 'ids' in shown) && (
        <details>
          <summary>The {'item' in shown ? 'item' : 'order'} after this event</summary>
          <Value value={'item' in shown ? shown.item : shown.ids} />
        </details>
      )}
      {'id' in shown && (
        <>
          <h3>History of this item</h3>
          <Timeline history={history} current={position}>
            {(one) =>
              one.position !== position && (
                <>
                  <Link to={{ event: one.position, with: undefined }}>View</Link>
                  <Link to={{ with: one.position }}>Compare</Link>
                </>
              )
            }
          </Timeline>
        </>
      )}
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

function differences(from: Event, to: Event): readonly ValueChange[] {
  const [before, after] = [from, to].map((one) => ('item' in one ? one.item : undefined))
  if (before && after) return changesBetween(before, after)
  return before || after ? [{ path: '', ...(before && { before }), ...(after && { after }) }] : []
}
