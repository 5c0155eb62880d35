// The page of the journal: all that happened, the newest first, and how the journal itself is.
import '../css/base.css'
import '../css/shell.css'
import '../css/home.css'
import '../css/json.css'
import '../css/journal.css'
import { effect, signal } from '@preact/signals'
import { render } from 'preact'
import { address } from './address.ts'
import { head, may, now, role } from './app.ts'
import { Button, Menu, set } from './controls.tsx'
import { EventPanel } from './event-panel.tsx'
import { counted, moment, short } from './format.ts'
import { Health } from './health.tsx'
import * as journal from './journal-list.ts'
import { focusList, Rows } from './journal-rows.tsx'
import { RestoreDialog } from './restore.tsx'
import { showProblem, startShell, subject } from './shell.tsx'
import { asOf, at, showNow, showTime } from './time.ts'
import { VERBS } from './words.ts'

const { filter, FILTERS, go, list, opened } = journal
/** A search that takes longer says that it runs. */
const LONG_MS = 500
const LABELS: Readonly<Record<keyof journal.Filter, string>> = {
  collection: 'Collection',
  id: 'Id',
  type: 'Type',
  actor: 'Actor',
  requestId: 'Request',
  since: 'Since',
  until: 'Until',
}

const isFilling = signal(false)
const isRestoring = signal(false)
const takesLong = signal(false)
/** Beside a narrow list there is no room: an event lies over it, and the health is in a menu. */
const narrow = matchMedia('(max-width: 60rem)')
const isNarrow = signal(narrow.matches)
narrow.addEventListener('change', ({ matches }) => set(isNarrow, matches)())

function Journal() {
  if (role.value === null) return <h1>Journal</h1>
  const isOpen = opened.value !== undefined
  return (
    <div class={`journal ${isOpen ? 'with-event' : ''}`}>
      <section class="card events" aria-labelledby="journal-title" inert={isNarrow.value && isOpen}>
        <Head />
        {isFilling.value && <Form />}
        <Status />
        <Rows />
      </section>
      {isOpen ? <EventPanel onClose={close} /> : !isNarrow.value && <Health />}
      {isRestoring.value && <RestoreDialog position={asOf.value ?? head.value} onClose={set(isRestoring, false)} />}
    </div>
  )
}

/** Closes the event. */
function close(): void {
  go({ event: undefined, with: undefined })
  focusList()
}

function Head() {
  return (
    <div class="row part-head">
      <h1 id="journal-title">Journal</h1>
      <span class="row push tools">
        {asOf.value === undefined && (
          <Button
            text="Pause"
            aria-pressed={journal.isPaused.value}
            run={set(journal.isPaused, !journal.isPaused.value)}
          />
        )}
        {asOf.value !== undefined && may('admin') && (
          <Button text="Restore this moment…" run={set(isRestoring, true)} />
        )}
        <Button text="Filter" aria-expanded={isFilling.value} run={set(isFilling, !isFilling.value)} />
        {isNarrow.value && (
          <Menu label="Health">
            <Health />
          </Menu>
        )}
        <label class="row quiet">
          Go to
          <input
            type="datetime-local"
            step="1"
            value={at.value ? localTime(at.value.ms) : ''}
            onChange={({ currentTarget: { value } }) => (value === '' ? showNow() : showTime(Date.parse(value)))}
          />
        </label>
      </span>
    </div>
  )
}

function total(): string {
  const { events, older, isRead, isCut, skipped } = list.value
  if (!isRead) return ''
  if (!journal.isFiltered.value) return counted(asOf.value ?? head.value, 'event')
  return `${counted(events.length, 'event')}${older === undefined && !isCut && skipped.size === 0 ? '' : ' and more'}`
}

/** The filters, how many events wait, and how the search is. */
function Status() {
  const { events, older, waiting, isCut, isRead } = list.value
  const isDone = isRead && older === undefined && !journal.problem.value
  const newer = `${waiting}${waiting === journal.PAGE ? ' or more' : ''} new`
  return (
    <div class="row list-head">
      <Chips />
      {(waiting > 0 || isCut) && (
        <Button text={`↑ ${isCut ? 'To the newest' : newer}`} class="primary" run={journal.showNewest} />
      )}
      <span class="quiet number push" id="total">
        {total()}
      </span>
      <span class="row" role="status">
        {takesLong.value && 'Searching…'}
        {journal.isStopped.value && 'The search was stopped.'}
        {isDone && events.length === 0 && 'Nothing matches.'}
        {journal.problem.value && <span class="bad-text break">{journal.problem.value.message}</span>}
      </span>
      {takesLong.value && <Button text="Stop" run={journal.stop} />}
      {journal.isStopped.value && <Button text="Continue" run={journal.resume} />}
    </div>
  )
}

function Chips() {
  if (!journal.isFiltered.value) {
    return <span class="quiet hint">A click on an item, type, actor or request shows only its events.</span>
  }
  return (
    <ul class="row chips" aria-label="Filters">
      {FILTERS.filter((name) => filter.value[name] !== undefined).map((name) => (
        <li key={name} class="chip">
          <span class="break">
            <span class="quiet">{LABELS[name]}</span> {textOf(name)}
          </span>
          <Button
            text="✕"
            class="plain"
            label={`Remove the filter ${LABELS[name]}`}
            run={() => go({ [name]: undefined })}
          />
        </li>
      ))}
      <li>
        <Button
          text="Clear"
          class="link"
          run={() => go(Object.fromEntries(FILTERS.map((name) => [name, undefined])))}
        />
      </li>
    </ul>
  )
}

function textOf(name: keyof journal.Filter): string {
  const text = filter.value[name] ?? ''
  if (name === 'type') return VERBS[text as keyof typeof VERBS] ?? text
  const ms = isTime(name) ? Date.parse(text) : Number.NaN
  return Number.isNaN(ms) ? short(text, 40) : moment(ms, now(), { withSeconds: true })
}

function isTime(name: string): boolean {
  return name === 'since' || name === 'until'
}

/** For what has no link in the list. */
function Form() {
  return (
    <form
      class="row filter list-head"
      onSubmit={(event) => event.preventDefault()}
      onChange={({ target }) => {
        const { name, value } = target as HTMLInputElement
        go({ [name]: isTime(name) && value !== '' ? new Date(value).toISOString() : value })
      }}
    >
      {FILTERS.map((name) => {
        const value = filter.value[name] ?? ''
        const id = `filter-${name}`
        const common = { id, name, autocomplete: 'off', 'aria-label': LABELS[name] } as const
        return (
          <label key={name} class="field" htmlFor={id}>
            {LABELS[name]}
            {name === 'type' ? (
              <select {...common} value={value}>
                <option value="">all</option>
                {Object.keys(VERBS).map((type) => (
                  <option key={type}>{type}</option>
                ))}
              </select>
            ) : isTime(name) ? (
              <input {...common} type="datetime-local" step="1" value={localTime(Date.parse(value))} />
            ) : (
              <input {...common} value={value} />
            )}
          </label>
        )
      })}
    </form>
  )
}

/** As an input of a time takes it, in the reader's own time zone. */
function localTime(ms: number): string {
  if (Number.isNaN(ms)) return ''
  return new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 19)
}

effect(() => {
  const { collection, id, type, actor, requestId } = filter.value
  const place = [collection, id].filter((one) => one !== undefined).join('/')
  const parts = [place, type && textOf('type'), actor && `by ${actor}`, requestId && `request ${requestId}`]
  const { event } = opened.value ?? {}
  subject.value = event === undefined ? short(parts.filter(Boolean).join(' '), 60) : `event ${event}`
})
effect(() => {
  takesLong.value = false
  if (!journal.isReading.value) return
  const timer = setTimeout(set(takesLong, true), LONG_MS)
  return () => clearTimeout(timer)
})
document.addEventListener('keydown', ({ key }) => {
  if (key === 'Escape' && opened.value && !document.querySelector('dialog[open]')) close()
})
address.onBack(journal.showAddress)
journal.startList()
render(<Journal />, document.getElementById('main') as HTMLElement)
void startShell().catch(showProblem)
