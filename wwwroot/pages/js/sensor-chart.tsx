// The chosen sensor: what it measured over a time, as charts, to be compared with others.
import { computed, effect, signal } from '@preact/signals'
import { may, state } from './app.ts'
import { Button, set } from './controls.tsx'
import { DAY } from './counts.ts'
import { edge } from './curves.ts'
import { following } from './following.ts'
import { count, counted, dateTime, short, visible } from './format.ts'
import {
  type Item,
  limitsOf,
  macOf,
  measuresOf,
  nameOf,
  READINGS,
  SENSORS,
  timeField,
  timeOfReading,
  unitOf,
} from './measures.ts'
import { isKnown } from './names.ts'
import { type Line, nearest, Plot, pointed, strokeOf } from './plot.tsx'
import { extentOf, filterOf, type Point, readingOf, type Series, seriesOf } from './readings.ts'
import { calm } from './resource.ts'
import { Compare } from './sensor-compare.tsx'
import { showTiles } from './sensor-grid.tsx'
import { hasItem, idField, second, sensors } from './sensor-list.ts'
import { Settings } from './sensor-settings.tsx'
import { chosen, endOf, go, type Period, periodOf, RANGES, USUAL, view } from './sensor-view.ts'
import { showProblem, subject } from './shell.tsx'
import { asOf, at, type Span } from './time.ts'

const REREAD_MS = 2000
const SAID_MS = 1000
/** Readings in a smaller part of the time that the page chose are shown alone. */
const LEAST_PART = 0.05
const LEAST_SPAN = 60_000
/** It writes the day at both ends, unless both are on one day. */
const PERIOD = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short' })
/** Charts in the order in which people look at them. */
const ORDER = ['temperature', 'humidity', 'pressure', 'battery', 'acceleration']

/** The readings that the charts draw, of one sensor or of several. */
interface Loaded {
  /** The request, without the moment: while that alone is another, nothing is said. */
  readonly what: string
  readonly sensor: string
  readonly period: Period
  /** No time was asked for: it may be shown in part. */
  readonly isUsual: boolean
  readonly series: Series
  readonly lines: readonly Line[]
}

const isEditing = signal(false)
const what = computed(() => {
  const { range, from, to, others, withBefore } = view.value
  return JSON.stringify([chosen.value, range, from, to, others, withBefore])
})
const loading = following(
  (collection) => [READINGS, SENSORS].includes(collection) && !at.value,
  REREAD_MS,
  () => {
    const item = sensors.value?.get(chosen.value ?? '')
    if (!item || !isKnown.value) return undefined
    return { what: what.value, to: periodOf(view.value, item).to, moment: at.value }
  },
  load,
)
/** Its id alone, where there is no such sensor. */
const chosenItem = computed(() => itemOf(chosen.value ?? ''))
/** The readings that are drawn; none of another sensor. */
const loaded = computed(() => (loading.value.value?.sensor === chosen.value ? loading.value.value : undefined))
const lines = computed(() => loaded.value?.lines ?? NO_LINES)
effect(() => {
  if (loading.error.value) showProblem(loading.error.value)
})
effect(() => {
  const item = sensors.value?.get(chosen.value ?? '')
  subject.value = item ? short(nameOf(item), 80) : ''
})

async function load({ what: asked }: { readonly what: string }): Promise<Loaded> {
  const sensor = chosen.peek() as string
  const { others, withBefore, range, to } = view.peek()
  const period = periodOf(view.peek(), itemOf(sensor))
  const position = asOf.peek()
  const read = (key: string, shift = 0): Promise<Series> => {
    const from = period.from === undefined ? undefined : period.from - shift
    const end = period.end - shift
    return seriesOf({ key, item: itemOf(key), position, from, to: shift > 0 ? end : period.to, end })
  }
  const among = others.filter((key) => key !== sensor && sensors.peek()?.has(key))
  const length = withBefore && period.from !== undefined ? period.end - period.from : 0
  const [series, before, ...rest] = await Promise.all([
    read(sensor),
    length > 0 ? read(sensor, length) : undefined,
    ...among.map((key) => read(key)),
  ])
  const later = before?.points.map((one) => ({ ...one, from: one.from + length, to: one.to + length }))
  const lines = [
    { key: sensor, label: titleOf(itemOf(sensor)), points: series.points },
    ...(later ? [{ key: 'before', label: 'before', points: later }] : []),
    ...among.map((key, index) => ({
      key: `with ${key}`,
      label: titleOf(itemOf(key)),
      points: rest[index]?.points ?? [],
    })),
  ]
  return { what: asked, sensor, period, isUsual: range === undefined && to === undefined, lines, series }
}

function itemOf(key: string): Item {
  return sensors.value?.get(key) ?? { [idField()]: key }
}

function titleOf(item: Item): string {
  return visible(short(nameOf(item), 200)) || '""'
}

/** The time over which the charts are drawn: it moves while one watches, and while the past is played. */
function spanOf({ period, isUsual, series: { points } }: Loaded): Span {
  const end = period.to ?? endOf(chosenItem.value)
  const from = period.from === undefined ? undefined : period.from + end - period.end
  const [first, last] = [points[0]?.from, points.at(-1)?.to]
  if (first === undefined || last === undefined) return { from: from ?? end - DAY, to: end }
  if (from === undefined) return { from: Math.min(first, last - LEAST_SPAN), to: last }
  if (!isUsual || last - first > LEAST_PART * (end - from)) return { from, to: end }
  const room = Math.max(LEAST_SPAN / 2, (last - first) / 20)
  return { from: first - room, to: last + room }
}

const span = computed((): Span | undefined => {
  void second.value
  return loaded.value && spanOf(loaded.value)
})

export function Chart() {
  const key = chosen.value
  const item = chosenItem.value
  // Its room is kept while the sensors are read.
  if (!sensors.value) return <section class="card series" />
  if (key === undefined) return null
  const [title, mac] = [titleOf(item), visible(short(macOf(item), 200))]
  const isPicked = view.value.sensor !== undefined
  const onKeyDown = (event: KeyboardEvent): void => {
    const isTyping = (event.target as HTMLElement).matches('select, input:not([type=radio])')
    if (event.key === 'Escape' && isPicked && !isEditing.value && !isTyping) showTiles()
  }
  return (
    <section
      id="series"
      class={`card series${isPicked ? ' is-picked' : ''}`}
      aria-labelledby="chosen"
      {...{ onKeyDown }}
    >
      <div class="row series-head">
        <h2 id="chosen" class="break">
          {title}
        </h2>
        {mac !== title && <p class="quiet mono break">{mac}</p>}
        <p id="state-of-series" class="quiet number push" role="status">
          {said}
        </p>
        {may('writer') && hasItem(key) && !at.value && (
          <Button class="plain" text="Settings…" run={set(isEditing, true)} />
        )}
        {isPicked && <Button class="plain" text="✕" label="Back to all sensors" run={showTiles} />}
      </div>
      <Times />
      <div class="row">
        <When />
        <Compare />
      </div>
      <Charts />
      <p class="as-table">{loaded.value && loaded.value.series.kind !== 'history' && <AsTable {...loaded.value} />}</p>
      {isEditing.value && <Settings sensor={key} item={item} onClose={set(isEditing, false)} />}
    </section>
  )
}

/** The one place that says what is happening. */
const said = calm(computed(statusOf), SAID_MS)

function statusOf(): string {
  const own = loaded.value
  if (!own || own.what !== what.value) return state.value === 'gone' ? 'The server cannot be reached' : 'Reading…'
  const { total, isWhole, kind, points } = own.series
  const latest = timeOfReading(itemOf(own.sensor))
  if (total === 0) {
    return latest === undefined ? 'No readings' : `None in this time; the last one was ${dateTime(latest)}`
  }
  if (!isWhole) return `the newest ${count(points.length)} of ${counted(total, 'reading')}`
  return `${counted(total, 'reading')}${kind === 'windows' ? ', averages' : ''}`
}

/** The end of the time before a zoom, for a double click. */
let endBeforeZoom: number | undefined

function zoomTo({ from, to }: Span): void {
  if (view.peek().from === undefined) endBeforeZoom = view.peek().to
  go({ from, to })
}

function zoomBack(): void {
  if (view.peek().from !== undefined) go({ from: undefined, to: endBeforeZoom })
}

function Times() {
  const { range, from } = view.value
  const shown = span.value
  // What is asked for, although it may not be drawn yet: who clicks twice moves twice.
  const { from: begin, to, end } = periodOf(view.value, chosenItem.value)
  const ms = begin === undefined ? undefined : end - begin
  const move = (direction: number): void => {
    if (ms === undefined) return
    const next = end + direction * ms
    const isPast = next < edge() - ms / 20
    go({ from: isPast && from !== undefined ? next - ms : undefined, to: isPast ? next : undefined })
  }
  const showDay = ({ currentTarget }: { readonly currentTarget: HTMLInputElement }): void => {
    const day = new Date(`${currentTarget.value}T00:00`)
    const next = new Date(day).setDate(day.getDate() + 1)
    if (Number.isNaN(next)) return
    go({ from: undefined, to: next < edge() ? next : undefined, ...((ms ?? 0) < DAY && { range: USUAL }) })
  }
  return (
    <div class="row times">
      <fieldset id="ranges" class="choices">
        <legend class="hidden-text">Time shown</legend>
        {Object.entries(RANGES).map(([name, [label]]) => (
          <label key={name}>
            <input
              type="radio"
              name="range"
              value={name}
              checked={from === undefined && name === (range ?? USUAL)}
              onChange={() => go({ range: name, from: undefined, to: undefined })}
            />
            <span>{label}</span>
          </label>
        ))}
      </fieldset>
      <span class="row period">
        <Button class="plain" text="‹" label="Earlier" disabled={ms === undefined} run={() => move(-1)} />
        <input type="date" aria-label="Day shown" value={shown && dayOf(shown.to - 1)} onChange={showDay} />
        <Button
          class="plain"
          text="›"
          label="Later"
          disabled={ms === undefined || to === undefined}
          run={() => move(1)}
        />
      </span>
    </div>
  )
}

/** A local day as a calendar takes it, which is how Swedes write it. */
function dayOf(ms: number): string {
  return new Date(ms).toLocaleDateString('sv')
}

/** The time that is shown, and that of the numbers beside the names of the charts. */
function When() {
  const one = pointOfValues(lines.value[0])
  const shown = span.value
  return (
    <p class="quiet number when">
      {shown && `${PERIOD.formatRange(shown.from, shown.to).replace(/\s*–\s*/, ' – ')}. `}
      {one && `${pointed.value === undefined ? 'Latest' : 'At the pointer'}: `}
      {one && dateTime(one.from, { withMs: one.from === one.to })}
    </p>
  )
}

/** The point of a line under the pointer, else the latest one: that of the chosen sensor is in its item. */
function pointOfValues(line: Line | undefined): Point | undefined {
  if (pointed.value !== undefined && line) return nearest(line.points, pointed.value)
  const isOfItem = line === lines.value[0] && view.value.to === undefined
  return (isOfItem ? readingOf(chosenItem.value) : undefined) ?? line?.points.at(-1)
}

function Charts() {
  const item = chosenItem.value
  const all = lines.value
  const read = (all[0] as Line).points.flatMap(({ values }) => [...values.keys()])
  const groups = groupsOf([...new Set([...measuresOf(item).map(({ name }) => name), ...read])])
  const shown = span.value ?? { from: edge() - DAY, to: edge() }
  return (
    <div class="charts" aria-busy={!loaded.value}>
      {groups.map(({ name, fields }, index) => (
        <figure key={name}>
          <figcaption>
            <h3>{visible(name.replaceAll('_', ' '))}</h3>
            <span class="values number">
              {all.map((line, at) => (
                <Values key={line.key} fields={fields} line={line} index={at} isAlone={all.length === 1} />
              ))}
            </span>
          </figcaption>
          <Plot
            fields={fields}
            lines={all}
            span={shown}
            limits={fields.length === 1 ? limitsOf(item, fields[0] as string) : {}}
            hasTimes={index === 0 || index === groups.length - 1}
            onZoom={zoomTo}
            onBack={zoomBack}
          />
          {fields.map((field) => (
            <p key={field} class="extent quiet number">
              {extentText(field, fields.length === 1, shown)}
            </p>
          ))}
        </figure>
      ))}
    </div>
  )
}

const NO_LINES: readonly Line[] = [{ key: '', label: '', points: [] }]

interface ValuesProperties {
  readonly fields: readonly string[]
  readonly line: Line
  readonly index: number
  readonly isAlone: boolean
}

/** The values of a line at the pointer. */
function Values({ fields, line, index, isAlone }: ValuesProperties) {
  const one = pointOfValues(line)
  return (
    <>
      {fields.map((field, at) => {
        const label = `${isAlone ? '' : line.label} ${fields.length > 1 ? lastPart(field) : ''}`.trim()
        const [average, least, greatest] = one?.values.get(field) ?? []
        const colour = `var(${strokeOf(fields.length, at, index)})`
        return (
          <span key={field}>
            {label !== '' && <span class={`mark line-${index}`} style={{ color: colour }} aria-hidden="true" />}
            {label !== '' && <span class="quiet">{label} </span>}
            <strong>{least === greatest ? withUnit(least ?? '–', field) : withUnit(rounded(average), field)}</strong>
            {least !== greatest && <span class="quiet"> {`${rounded(least)} to ${rounded(greatest)}`}</span>}
          </span>
        )
      })}
    </>
  )
}

function withUnit(value: number | string, field: string): string {
  const unit = unitOf(chosenItem.value, field)
  return unit === '' || value === '–' ? String(value) : `${value} ${unit}`
}

/** The axis of an acceleration. */
function lastPart(field: string): string {
  return field.replace(/^.*_/, '')
}

/** The least, the greatest and the average of the readings of a time; '' without readings. */
function extentText(field: string, isAlone: boolean, { from, to }: Span): string {
  const points = lines.value[0]?.points.filter((one) => one.to >= from && one.from <= to) ?? []
  const [least, average, greatest] = extentOf(points, field) ?? []
  if (least === undefined) return ''
  const text = `min ${rounded(least)} · average of readings ${rounded(average)} · max ${withUnit(rounded(greatest), field)}`
  return isAlone ? text : `${lastPart(field)} ${text}`
}

/** A number with as many decimals as one reads. */
function rounded(value: number | undefined): string {
  if (value === undefined) return '–'
  return String(Math.abs(value) >= 1 ? Number(value.toFixed(2)) : Number(value.toPrecision(3)))
}

/** The fields of each chart: `acceleration` with `acceleration_x`, and so on. */
function groupsOf(names: readonly string[]): readonly { readonly name: string; readonly fields: readonly string[] }[] {
  const found = new Map<string, string[]>()
  for (const name of names.toSorted()) {
    const group = /^(.+)_[xyz]$/.exec(name)?.[1] ?? name
    found.set(group, [...(found.get(group) ?? []), name])
  }
  const rank = (name: string): number => (ORDER.includes(name) ? ORDER.indexOf(name) : ORDER.length)
  return [...found].map(([name, fields]) => ({ name, fields })).sort((a, b) => rank(a.name) - rank(b.name))
}

/** The page of the collections shows the readings as a table, for readers who cannot see the charts, and exports them. */
function AsTable({ sensor, period }: Loaded) {
  const query = new URLSearchParams({ ...filterOf({ ...period, item: itemOf(sensor) }), sort: `-${timeField()}` })
  const place = { collection: READINGS, query: String(query), ...(at.value && { at: String(at.value.position) }) }
  return (
    <>
      <a href={`collections.html?${new URLSearchParams(place)}`}>These readings as a table</a>, to export them as CSV or
      NDJSON
    </>
  )
}
