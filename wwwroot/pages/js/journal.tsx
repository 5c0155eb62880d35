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
import { close, EventPanel } from './event-panel.tsx'
import { counted, moment, short } from './format.ts'
import { Health } from './health.tsx'
import * as journal from './journal-list.ts'
import { Rows } from './journal-rows.tsx'
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
const isHealthOpen = signal(false)
const takesLong = signal(false)
/** Beside a narrow list there is no room: what opens lies over it. */
const narrow = matchMedia('(max-width: 60rem)')
const isNarrow = signal(narrow.matches)
narrow.addEventListener('change', ({ matches }) => {
  isNarrow.value = matches
})

function Journal() {
  if (role.value === null) return null
  const isOpen = opened.value !== undefined || isHealthOpen.value
  return (
    <div class={`journal ${opened.value ? 'with-event' : ''} ${isOpen ? 'with-side' : ''}`}>
      <section class="card events" aria-labelledby="journal-title" inert={isNarrow.value && isOpen}>
        <Head />
        {isFilling.value && <Form />}
        <Status />
        <Rows />
      </section>
      <div class="side">
        {isNarrow.value && !opened.value && isOpen && (
          <button type="button" class="plain" onClick={closeSide}>
            Close
          </button>
        )}
        {opened.value ? <EventPanel /> : (!isNarrow.value || isOpen) && <Health />}
      </div>
      {isRestoring.value && (
        <RestoreDialog
          to={asOf.value ?? head.value}
          onClose={() => {
            isRestoring.value = false
          }}
        />
      )}
    </div>
  )
}

function closeSide(): void {
  if (opened.value) close()
  else {
    isHealthOpen.value = false
    document.getElementById('to-health')?.focus()
  }
}

function Head() {
  return (
    <div class="row part-head">
      <h1 id="journal-title">Journal</h1>
      <span class="row push tools">
        {asOf.value === undefined ? (
          <button type="button" aria-pressed={journal.isPaused.value} onClick={togglePause}>
            Pause
          </button>
        ) : (
          may('admin') && (
            <button
              type="button"
              onClick={() => {
                isRestoring.value = true
              }}
            >
              Restore this moment…
            </button>
          )
        )}
        <button type="button" aria-expanded={isFilling.value} onClick={() => (isFilling.value = !isFilling.value)}>
          Filter
        </button>
        {isNarrow.value && (
          <button type="button" id="to-health" onClick={() => (isHealthOpen.value = true)}>
            Health
          </button>
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

function togglePause(): void {
  if (journal.isPaused.value) journal.showNewer()
  else journal.isPaused.value = true
}

function total(): string {
  const { events, older, isRead, isCut, skipped } = list.value
  if (!isRead) return ''
  if (!journal.isFiltered.value) return counted(asOf.value ?? head.value, 'event')
  return `${counted(events.length, 'event')}${older === undefined && !isCut && skipped.size === 0 ? '' : ' and more'}`
}

/** The filters, how many events wait, and how the search is. */
function Status() {
  const { events, older, waiting, hasNewer, isCut, isRead } = list.value
  const isDone = isRead && older === undefined && !journal.problem.value
  return (
    <div class="row list-head">
      <Chips />
      {(waiting.length > 0 || isCut) && (
        <button type="button" class="primary" id="newer" onClick={() => journal.showNewest()}>
          ↑ {isCut ? 'To the newest' : `${waiting.length}${hasNewer ? ' and more' : ''} new`}
        </button>
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
      {takesLong.value && (
        <button type="button" onClick={journal.stop}>
          Stop
        </button>
      )}
      {journal.isStopped.value && (
        <button type="button" onClick={journal.resume}>
          Continue
        </button>
      )}
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
          <button
            type="button"
            class="plain"
            aria-label={`Remove the filter ${LABELS[name]}`}
            onClick={() => go({ [name]: undefined })}
          >
            ✕
          </button>
        </li>
      ))}
      <li>
        <button type="button" class="link" onClick={clear}>
          Clear
        </button>
      </li>
    </ul>
  )
}

function clear(): void {
  go(Object.fromEntries(FILTERS.map((name) => [name, undefined])))
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
      {FILTERS.map((name) => (
        <label key={name} class="field" htmlFor={`filter-${name}`}>
          {LABELS[name]}
          <Field id={`filter-${name}`} name={name} />
        </label>
      ))}
    </form>
  )
}

function Field({ name, id }: { readonly name: keyof journal.Filter; readonly id: string }) {
  const value = filter.value[name] ?? ''
  const common = { id, name, autocomplete: 'off' } as const
  if (isTime(name)) return <input {...common} type="datetime-local" step="1" value={localTime(Date.parse(value))} />
  if (name !== 'type') return <input {...common} value={value} />
  return (
    <select {...common} aria-label={LABELS[name]} value={value}>
      <option value="">all</option>
      {Object.keys(VERBS).map((type) => (
        <option key={type}>{type}</option>
      ))}
    </select>
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
  subject.value = short(parts.filter(Boolean).join(' '), 60)
})
effect(() => {
  if (!journal.isReading.value) takesLong.value = false
  const timer = journal.isReading.value && setTimeout(() => (takesLong.value = true), LONG_MS)
  return () => clearTimeout(timer || undefined)
})
document.addEventListener('keydown', ({ key }) => {
  const isOpen = opened.value !== undefined || isHealthOpen.value
  if (key === 'Escape' && isOpen && !document.querySelector('dialog[open]')) closeSide()
})
address.onBack(journal.showAddress)
journal.startList()
render(<Journal />, document.getElementById('main') as HTMLElement)
void startShell().then(() => (journal.isReady.value = true), showProblem)
