// The latest changes: a line for each request, the newest first.
import type { JsonObject } from '../../../src/json/value.ts'
import { changes, client, now } from './app.ts'
import { moment } from './format.ts'
import { names } from './names.ts'
import { calm, resource } from './resource.ts'
import { asOf, at } from './time.ts'
import { Actions } from './undo.tsx'
import { byRequest, type Event, lineOf, type RequestEvents } from './words.ts'

const EVENTS = 40
/** More events for a moment of the past, where no new ones are added to them. */
const EVENTS_THEN = 100
const LIVE_MS = 1000
const calmChanges = calm(changes, LIVE_MS)

const page = resource(
  () =>
    asOf.value === 0 ? undefined : { from: asOf.value, changes: asOf.value === undefined ? calmChanges.value : 0 },
  ({ from }) =>
    client.eventPage<JsonObject>({
      order: 'desc',
      changes: true,
      ...(from === undefined ? { limit: EVENTS } : { limit: EVENTS_THEN, from }),
    }),
)

export function Feed() {
  const { value } = page.value
  const problem = page.error.value
  const all = asOf.value === 0 ? [] : value && byRequest(value.events)
  // Of the last one there may be more events.
  const requests = value?.next === undefined || all?.length === 1 ? all : all?.slice(0, -1)
  return (
    <section class="card feed" aria-labelledby="feed-title">
      <div class="row part-head">
        <h2 id="feed-title">{at.value ? 'What had just changed' : 'What just changed'}</h2>
        <a class="push" href="journal.html">
          Journal
        </a>
      </div>
      {problem && <p class="quiet part break">{problem.message}</p>}
      {requests?.length === 0 && <p class="quiet part">Nothing has changed yet.</p>}
      <ol>
        {requests?.map((request) => (
          <Line key={request.events[0]?.position} request={request} />
        ))}
      </ol>
    </section>
  )
}

function Line({ request }: { readonly request: RequestEvents }) {
  const { subject, before, after, isDeletion } = lineOf(request, names.value)
  const { actor, ms, events } = request
  return (
    <li class={isDeletion ? 'deletion' : ''}>
      <p class="break">
        {actor !== 'anonymous' && <span class="quiet">{actor} · </span>}
        {subject} {before !== undefined && <span class="quiet">{before} → </span>}
        {after}
      </p>
      <p class="row about">
        <time dateTime={new Date(ms).toISOString()}>{moment(ms, now(), { withSeconds: true })}</time>
        <span class="row push actions">
          <Actions event={events[0] as Event} subject={subject} />
        </span>
      </p>
    </li>
  )
}
