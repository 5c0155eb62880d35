// The first page: what there is, what just changed, and all of it at any moment of the past.
import '../css/base.css'
import '../css/shell.css'
import '../css/home.css'
import { signal } from '@preact/signals'
import { render } from 'preact'
import { address } from './address.ts'
import { head, health, now, role } from './app.ts'
import { barsPath, mostOf } from './bars.ts'
import { curlOf } from './base.ts'
import { Button } from './controls.tsx'
import { counts as activity, type Bin, countsToday, DAY, itemCounts, shownCounts } from './counts.ts'
import { Feed } from './feed.tsx'
import { following } from './following.ts'
import { count, counted } from './format.ts'
import { SENSORS } from './measures.ts'
import { firstSensors, timeFieldOf } from './names.ts'
import { type Resource, resource } from './resource.ts'
import { startShell } from './shell.tsx'
import { AT_MOST, readTiles, TileList, type Tiles } from './tiles.tsx'
import { at } from './time.ts'

const CURVES_MS = 5000
const ACTIVITY = { width: 200, height: 20 }
/** With fewer events, one has not seen much yet. */
const FEW_EVENTS = 200
const DISMISSED = 'recollect.demo-seen'

const closed = signal<ReadonlySet<string>>(new Set())
const isDismissed = signal(localStorage.getItem(DISMISSED) !== null)

interface Curves {
  readonly today: Resource<Tiles | undefined>
  readonly past: Resource<Tiles | undefined>
}

const curves = new Map<string, Curves>()

function curvesOf(collection: string): Curves {
  const known = curves.get(collection)
  if (known) return known
  const made = {
    today: following(
      (changed) => changed === collection,
      CURVES_MS,
      () => sensorsAreRead() || undefined,
      () => readTiles(collection, undefined, now()),
    ),
    past: resource(
      () => (sensorsAreRead() ? at.value : undefined),
      ({ position, ms }) => readTiles(collection, position, now() - ms < DAY ? now() : ms),
    ),
  }
  curves.set(collection, made)
  return made
}

/** They say what readings are about. */
function sensorsAreRead(): boolean {
  if (health.value === undefined || itemCounts.value.value === undefined) return false
  const hasSensors = typeof itemCounts.value.value[SENSORS] === 'number'
  return !hasSensors || firstSensors.value.value !== undefined || firstSensors.error.value !== undefined
}

function Home() {
  const shown = shownCounts.value
  const today = countsToday.value
  const all = Object.keys({ ...shown, ...today })
  if (role.value === null) return null
  return (
    <div class="home">
      <section class="card what-is" aria-labelledby="what-title">
        <div class="row part-head">
          <h1 id="what-title">{at.value ? 'What was' : 'What is'}</h1>
          <span class="quiet number">{shown && counted(Object.keys(shown).length, 'collection')}</span>
        </div>
        {all.length === 0 && shown && <Empty />}
        <ul class="rows">
          {all.map((name) => (
            <Row key={name} name={name} total={shown?.[name]} today={today?.[name]} isPast={today !== undefined} />
          ))}
        </ul>
        {head.value < FEW_EVENTS && !isDismissed.value && all.length > 0 && <Offer />}
      </section>
      <Feed />
    </div>
  )
}

function Row({
  name,
  total,
  today,
  isPast,
}: {
  readonly name: string
  readonly total: number | null | undefined
  readonly today: number | null | undefined
  readonly isPast: boolean
}) {
  const hasTime = isOfReadings(name) && total !== null
  const isOpen = hasTime && !closed.value.has(name)
  const bins = activity.value.value?.byCollection?.get(name) ?? []
  const later = isPast ? changesAfter(bins) : 0
  const isOther = isPast && today !== total
  const differs = isOther || later > 0
  const search = new URLSearchParams({ collection: name, ...(at.value && { at: String(at.value.position) }) })
  const toggle = (): void => {
    const next = new Set(closed.value)
    if (!next.delete(name)) next.add(name)
    closed.value = next
  }
  return (
    <li class={differs ? 'differs' : ''}>
      <div class="what-row">
        {hasTime ? (
          <Button
            text={isOpen ? '▾' : '▸'}
            label={`Curves of ${name}`}
            class="plain fold"
            aria-expanded={isOpen}
            run={toggle}
          />
        ) : (
          <span class="fold" />
        )}
        <a class="break" href={`collections.html?${search}`}>
          {name === '' ? '""' : name}
        </a>
        <span class={`total number${isOther ? ' other' : ''}`}>
          {total === undefined ? (isPast ? 'did not exist' : '') : total === null ? 'object' : counted(total, 'item')}
        </span>
        <span class="since number quiet">
          {isOther && `now ${today === undefined ? 'gone' : today === null ? 'object' : count(today)}, `}
          {later > 0 ? `${counted(later, 'change')}${isOther ? '' : ' since'}` : sinceYesterday(bins)}
        </span>
        <Activity bins={bins} />
      </div>
      {isOpen && <CurvesOf name={name} />}
    </li>
  )
}

function CurvesOf({ name }: { readonly name: string }) {
  const { today, past } = curvesOf(name)
  if (today.error.value) return <p class="quiet part">{today.error.value.message}</p>
  if ((at.value ? past : today).value.value) return <TileList past={past.value.value} today={today.value.value} />
  // The room that they will take.
  const sensors = Math.min(AT_MOST, itemCounts.value.value?.[SENSORS] ?? 0)
  return (
    <ul class="multiples" aria-hidden="true">
      {[...Array(sensors).keys()].map((sensor) => (
        <li key={sensor} class="multiple" />
      ))}
    </ul>
  )
}

/** Whether it has an event time, and is not that of the newest readings, if others have all of them. */
function isOfReadings(name: string): boolean {
  const isShownElsewhere =
    name === SENSORS && Object.keys(itemCounts.value.value ?? {}).some((one) => one !== name && timeFieldOf(one))
  return timeFieldOf(name) !== undefined && !isShownElsewhere
}

/** How many changes came after the moment that is shown, by the windows in which they are counted. */
function changesAfter(bins: readonly Bin[]): number {
  const { ms } = at.value ?? { ms: 0 }
  return bins.filter(({ from }) => from > ms).reduce((sum, bin) => sum + bin.count, 0)
}

/** How many items came and went in the day before the moment that is shown. */
function sinceYesterday(bins: readonly Bin[]): string {
  const { span } = activity.value.value ?? {}
  const end = at.value?.ms ?? now()
  if (!span || span.from > end - DAY || span.to < end - 1000 * 60) return ''
  const day = bins.filter(({ from }) => from > end - DAY && from <= end)
  if (day.some(({ removed }) => removed > 0)) return ''
  const change = day.reduce((sum, { created, deleted }) => sum + created - deleted, 0)
  const changes = day.reduce((sum, bin) => sum + bin.count, 0)
  if (change === 0) return changes === 0 ? 'no change in 24 h' : `${counted(changes, 'change')} in 24 h`
  return `${change > 0 ? '+' : '−'}${count(Math.abs(change))} in 24 h`
}

function Activity({ bins }: { readonly bins: readonly Bin[] }) {
  const loaded = activity.value.value
  if (!loaded) return <svg class="activity" aria-hidden="true" />
  const path = (part: readonly Bin[]): string => barsPath(part, loaded, { ...ACTIVITY, most: mostOf(bins) })
  const end = at.value?.ms ?? Number.POSITIVE_INFINITY
  return (
    <svg
      class="activity"
      viewBox={`0 0 ${ACTIVITY.width} ${ACTIVITY.height}`}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      <path d={path(bins.filter(({ from }) => from <= end))} />
      <path class="later" d={path(bins.filter(({ from }) => from > end))} />
    </svg>
  )
}

function Empty() {
  return (
    <div class="part">
      <p>There are no collections yet. A first item makes one:</p>
      <pre class="break">{curlOf('notes', { text: 'Hello' })}</pre>
    </div>
  )
}

function Offer() {
  const dismiss = (): void => {
    isDismissed.value = true
    localStorage.setItem(DISMISSED, '1')
  }
  return (
    <div class="note offer">
      <p>
        <strong>See a home of six sensors</strong> with two weeks of history, in a directory of its own:{' '}
        <code>npx --no-install recollect demo</code>, or <code>npm run demo</code> in a checkout.
      </p>
      <Button text="✕" label="Dismiss" class="plain push" run={dismiss} />
    </div>
  )
}

// Earlier the first page was that of the collections.
if (address.get('collection') !== undefined) location.replace(`collections.html${location.search}`)
render(<Home />, document.getElementById('main') as HTMLElement)
void startShell()
